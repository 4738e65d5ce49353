package perf

import (
	"math"

	"trainopt/resources"
)

// form is a family of curves: log seconds per unit as a function of the allocation. A new form is one file and one
// line in forms.
type form interface {
	// parameters returns the unknowns, in order, with their Gaussian priors in transformed space.
	parameters() []parameter
	// derive computes once what logShape needs beyond the natural parameters. nat has room for maxNatural numbers: first
	// the parameters, in order; the rest is available to the form.
	derive(nat []float64)
	// logShape returns log seconds per unit at a point, up to a constant, given natural parameters.
	logShape(nat []float64, p point) float64
	// logUse returns the log likelihood of the utilization measured at a point, up to a constant.
	logUse(nat []float64, p point, u Utilization) float64
}

const maxNatural = 16

// forms is the registry of families by name.
var forms = map[string]func(formContext) form{
	"amdahl": newAmdahl,
	"pollux": newPollux,
}

// parameter is one unknown: its name, the mean and sd of its Gaussian prior (in log, logit or log2 space), and the
// transformation from that space.
type parameter struct {
	name     string
	mean, sd float64
	natural  func(float64) float64
	// other is a second Gaussian component of the prior with its weight, for jobs of another kind such as scripts
	// that ignore a knob. Weight 0 means none.
	other struct{ mean, sd, weight float64 }
}

// or returns the parameter with a second prior component.
func (q parameter) or(weight, mean, sd float64) parameter {
	q.other.mean, q.other.sd, q.other.weight = mean, sd, weight
	return q
}

// logPrior returns the log density at z = (value - mean) / sd, up to a constant.
func (q parameter) logPrior(z float64) float64 {
	if q.other.weight == 0 {
		return -z * z / 2
	}
	y := (q.mean + q.sd*z - q.other.mean) / q.other.sd
	return math.Log((1-q.other.weight)*math.Exp(-z*z/2) + q.other.weight*q.sd/q.other.sd*math.Exp(-y*y/2) + 1e-300)
}

// logPriorAt returns logPrior of a value in the transformed space.
func (q parameter) logPriorAt(value float64) float64 { return q.logPrior((value - q.mean) / q.sd) }

// formContext is the input of a form besides its parameters.
type formContext struct {
	ref         point
	gpusPerNode int // 0: all in one node
	// gradientRate is that of Utilization, 0 if unknown.
	gradientRate float64
}

// point is an allocation in the coordinates of the curves.
type point struct {
	cpus, gpus float64
	// batch is the batch size relative to the reference: total for CPU jobs, per GPU for GPU jobs; 1 for the default
	// of the script.
	batch float64
	total bool // the batch size is a chosen total divided among the GPUs, not the default per GPU
	// threads is a chosen size of the thread pools and given the number of CPUs; cpus is then the smaller of the two.
	// Both are 0 for the job's default threads.
	threads, given float64
	// workers is a chosen number of loader workers, otherwise 0. No form contains it: its effect is only measured.
	workers float64
}

// chosen reports whether threads or workers differ from the job's defaults, so that the pace has an unknown factor.
func (p point) chosen() bool { return p.threads > 0 || p.workers > 0 }

// pointer converts allocations to points. refBatch is the reference batch per GPU, 0 when unknown.
type pointer struct{ refBatch float64 }

// newPointer takes the reference batch from ref, or else the geometric mean over the segments.
func newPointer(stretches []segment, ref resources.Allocation) pointer {
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

// across reports whether a point spans several nodes of perNode GPUs; perNode 0 means one node.
func across(p point, perNode int) bool { return perNode > 0 && p.gpus > float64(perNode) }

// localBatch returns the batch size per GPU (on CPUs, in total).
func localBatch(a resources.Allocation) float64 {
	return float64(a.BatchSize) / float64(max(1, a.GPUs))
}

// at returns the point of an allocation. A negative count is treated as 0, and a missing CPU count as 1.
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

// effective returns min(n, saturation) with a rounded corner: (n^-8 + s^-8)^(-1/8).
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
