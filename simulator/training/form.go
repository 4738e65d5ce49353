package training

import (
	"math"

	"trainopt/resources"
)

// form is one family of curves: log seconds per unit as a function of the allocation. A new form is one
// file and one line in forms.
type form interface {
	// parameters lists the unknowns, in order, with their Gaussian priors in transformed space.
	parameters() []parameter
	// natural transforms a parameter vector once, so that logShape is cheap.
	natural(theta, dst []float64)
	// logShape is log seconds per unit up to a constant, at a point, given natural parameters.
	logShape(nat []float64, p point) float64
}

// forms are the families known, by name.
var forms = map[string]func(formContext) form{
	"amdahl": newAmdahl,
	"pollux": newPollux,
}

// parameter is one unknown: its name, and the mean and sd of its Gaussian prior (in log, logit or log2 space).
type parameter struct {
	name     string
	mean, sd float64
}

// formContext is what a form may know besides its parameters.
type formContext struct {
	ref         point
	gpusPerNode int // 0: all in one node
}

// point is an allocation as the curves see it.
type point struct {
	cpus, gpus float64
	// batch is the batch size relative to the reference: total for CPU jobs, per GPU for GPU jobs; 1 when the
	// script's own holds.
	batch float64
}

// pointer makes points from allocations.
type pointer struct{ refBatch float64 }

func newPointer(stretches []stretch, ref resources.Allocation) pointer {
	if b := localBatch(ref); b > 0 {
		return pointer{b}
	}
	var sum, n float64
	for _, s := range stretches {
		if b := localBatch(s.at); b > 0 {
			sum += math.Log(b)
			n++
		}
	}
	if n == 0 {
		return pointer{}
	}
	return pointer{math.Exp(sum / n)}
}

func localBatch(a resources.Allocation) float64 {
	return float64(a.BatchSize) / float64(max(1, a.GPUs))
}

func (p pointer) at(a resources.Allocation) point {
	out := point{cpus: float64(max(1, a.CPUs)), gpus: float64(max(0, a.GPUs)), batch: 1}
	if b := localBatch(a); b > 0 && p.refBatch > 0 {
		out.batch = b / p.refBatch
	}
	return out
}

// effectiveCPUs is min(c, saturation) with a rounded corner: (c^-6 + s^-6)^(-1/6).
func effectiveCPUs(c, saturation float64) float64 {
	r := c / saturation
	r3 := r * r * r
	return c / math.Cbrt(math.Sqrt(1+r3*r3))
}

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
