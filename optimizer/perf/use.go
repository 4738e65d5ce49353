package perf

import "math"

// Utilization is what a job used of its allocation while it was measured. A field of 0 is unknown.
type Utilization struct {
	// Compute is the share of the time, 0 to 1, in which the training did not wait for input that loader processes
	// prepare meanwhile.
	Compute float64 `json:"compute,omitempty"`
	// CPUs is the mean number of busy CPUs, GPUs the number of GPUs that did any work.
	CPUs float64 `json:"cpus,omitempty"`
	GPUs float64 `json:"gpus,omitempty"`
	// GPUBusy is the share of the time, 0 to 1, in which a GPU executed anything, mean over those that did any work.
	GPUBusy float64 `json:"gpu_busy,omitempty"`
	// GradientRate is the bytes of gradients of a step in one GPU, divided by the seconds of the step: what data parallelism
	// exchanges.
	GradientRate float64 `json:"gradient_bytes_per_s,omitempty"`
}

// The likelihoods below are mixtures, with weights and widths chosen here; each contains a share of unexplained values,
// so that no utilization excludes what the paces say.
const (
	unexplained = 0.05
	// computeSD is the standard deviation of the measured from the modelled share of computing, cpusSD that of the logarithm
	// of the busy CPUs, gpusSD that of the binary logarithm of the GPUs in use, busySD that of the share in which GPUs are busy.
	computeSD, cpusSD, gpusSD, busySD = 0.04, 0.12, 0.15, 0.04
)

func normalDensity(x, sd float64) float64 {
	return math.Exp(-x*x/(2*sd*sd)) / (sd * math.Sqrt(2*math.Pi))
}

// uniformDensity is the density at x of a value that is uniform in [lo, hi] and measured with the error busySD.
func uniformDensity(x, lo, hi float64) float64 {
	if hi-lo < busySD/4 {
		return normalDensity(x-hi, busySD)
	}
	below := func(v float64) float64 { return math.Erfc(-v/(busySD*math.Sqrt2)) / 2 }
	return (below(x-lo) - below(x-hi)) / (hi - lo)
}

// logUse implements form. A training that synchronises with its GPUs in each step waits for its input exactly while the
// GPUs do; one that runs ahead of them may also wait while they compute, in steps bound by their input.
func (f pollux) logUse(nat []float64, p point, u Utilization) (log float64) {
	if p.gpus < 1 {
		return 0
	}
	compute, input := f.parts(nat, p)
	total := roundedMax(compute, input)
	if u.Compute > 0 {
		share := compute / total
		bound := 1 - eighthPower(share) // to which degree a step is bound by its input
		exact := normalDensity(u.Compute-share, computeSD)
		ahead := (1 - bound) * exact
		if u.Compute < share {
			ahead += bound / share
		}
		log += math.Log(0.55*exact + 0.4*ahead + unexplained)
	}
	if u.GPUBusy > 0 {
		// Most trainings keep a GPU busy while they compute; small kernels leave gaps, and a GPU that waits for the others
		// counts as busy.
		share, some, waits := compute/total, 0.3, 0.0
		if p.gpus > 1 {
			some, waits = 0.2, 0.15
		}
		log += math.Log((1-some-waits-unexplained)*uniformDensity(u.GPUBusy, 0.8*share, share) +
			some*uniformDensity(u.GPUBusy, 0, share) + waits*uniformDensity(u.GPUBusy, share, 1) + unexplained)
	}
	if u.CPUs > 0 && u.CPUs < 0.95*p.cpus { // otherwise the input could use more
		// The processes of the training use up to one CPU for each GPU, the others prepare the input.
		fed, most := nat[polluxInput]/total, u.CPUs
		least := max(1e-3, most-p.gpus)
		off := max(0, math.Log(fed/most), math.Log(least/fed)) / cpusSD
		log += math.Log((1-unexplained)*math.Exp(-off*off/2)/(most-least+cpusSD*most) + unexplained/p.cpus)
	}
	if u.GradientRate > 0 {
		// The priors of the exchange assume the bytes of steps that take T_grad; these take longer.
		longer := math.Log(total * p.batch * effective(p.gpus, nat[6]))
		log += f.sync.logPriorAt(math.Log(nat[1])-longer) - f.sync.logPriorAt(math.Log(nat[1]))
		if f.nodes {
			log += f.syncNodes.logPriorAt(math.Log(nat[8])-longer) - f.syncNodes.logPriorAt(math.Log(nat[8]))
		}
	}
	if u.GPUs > 0 {
		log += math.Log((1-unexplained)*normalDensity(math.Log2(max(1, effective(p.gpus, nat[6]))/u.GPUs), gpusSD) + unexplained)
	}
	return log
}

// takeGradients returns the first rate of gradients that was measured with a GPU, and removes the others from the segments: the links
// are the same in all of them, so that a second one adds no evidence.
func takeGradients(stretches []segment) (rate float64) {
	for i := range stretches {
		if s := &stretches[i]; rate > 0 || s.at.GPUs < 1 {
			s.used.GradientRate = 0
		} else {
			rate = s.used.GradientRate
		}
	}
	return rate
}

// logUse implements form. Busy CPUs bound the speedup: without overhead they are equal to it; threads that wait actively
// keep further CPUs busy, or all.
func (f amdahl) logUse(nat []float64, p point, u Utilization) float64 {
	if u.CPUs <= 0 || p.cpus <= 1 {
		return 0
	}
	one := p
	one.cpus = 1
	speedup := f.logShape(nat, one) - f.logShape(nat, p)
	busy, all := math.Log(min(u.CPUs, p.cpus)), math.Log(p.cpus)
	some := 0.0
	if busy > speedup {
		some = 1 / max(2*cpusSD, all-speedup)
	}
	return math.Log(0.55*normalDensity(busy-speedup, cpusSD) + 0.2*some + 0.2*normalDensity(busy-all, cpusSD/2) + unexplained)
}
