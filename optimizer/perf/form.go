package perf

import (
	"math"

	"trainopt/resources"
)

// form is one family of curves: log seconds per unit as a function of the allocation. A new form is one
// file and one line in forms.
type form interface {
	// parameters lists the unknowns, in order, with their Gaussian priors in transformed space.
	parameters() []parameter
	// natural transforms a parameter vector once, so that logShape is cheap. dst has room for maxNatural numbers;
	// the first ones are the parameters, in order, and the rest whatever the form wants to compute once.
	natural(theta, dst []float64)
	// logShape is log seconds per unit up to a constant, at a point, given natural parameters.
	logShape(nat []float64, p point) float64
}

const maxNatural = 16

// forms are the families known, by name.
var forms = map[string]func(formContext) form{
	"amdahl": newAmdahl,
	"pollux": newPollux,
}

// parameter is one unknown: its name, and the mean and sd of its Gaussian prior (in log, logit or log2 space).
type parameter struct {
	name     string
	mean, sd float64
	// other is a second Gaussian that the prior mixes in with its weight: jobs of an other kind, such as scripts that
	// ignore a knob. Weight 0 means none.
	other struct{ mean, sd, weight float64 }
}

func (q parameter) or(weight, mean, sd float64) parameter {
	q.other.mean, q.other.sd, q.other.weight = mean, sd, weight
	return q
}

// logPrior is the log density at z = (value - mean) / sd, up to a constant.
func (q parameter) logPrior(z float64) float64 {
	if q.other.weight == 0 {
		return -z * z / 2
	}
	y := (q.mean + q.sd*z - q.other.mean) / q.other.sd
	return math.Log((1-q.other.weight)*math.Exp(-z*z/2) + q.other.weight*q.sd/q.other.sd*math.Exp(-y*y/2) + 1e-300)
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
	total bool // the batch is a total that is shared out, not the script's own per GPU
	// threads is the size of the thread pools and given the CPUs beside them, where it was chosen: cpus is then the
	// lesser of the two. Both are 0 for the job's own threads.
	threads, given float64
	// workers is the number of loader workers where it was chosen, else 0. No form contains it: what it does is measured.
	workers float64
}

// chosen reports whether the pace has an unknown factor against the job's own threads and workers.
func (p point) chosen() bool { return p.threads > 0 || p.workers > 0 }

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

// across reports whether a point spans several nodes of a size; size 0 means one node.
func across(p point, perNode int) bool { return perNode > 0 && p.gpus > float64(perNode) }

func localBatch(a resources.Allocation) float64 {
	return float64(a.BatchSize) / float64(max(1, a.GPUs))
}

func (p pointer) at(a resources.Allocation) point {
	out := point{cpus: float64(max(1, a.CPUs)), gpus: float64(max(0, a.GPUs)), batch: 1}
	if b := localBatch(a); b > 0 && p.refBatch > 0 {
		out.batch, out.total = b/p.refBatch, true
	}
	out.workers = float64(max(0, a.NumWorkers))
	if a.Threads > 0 {
		out.threads, out.given = float64(a.Threads), out.cpus
		out.cpus = min(out.cpus, out.threads)
	}
	return out
}

// effective is min(n, saturation) with a rounded corner: (n^-8 + s^-8)^(-1/8).
func effective(n, saturation float64) float64 {
	r := n / saturation
	return n / eighthRoot(1+eighthPower(r))
}

func eighthPower(x float64) float64 {
	x *= x
	x *= x
	return x * x
}

func eighthRoot(x float64) float64 { return math.Sqrt(math.Sqrt(math.Sqrt(x))) }

func logistic(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
