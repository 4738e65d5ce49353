package pretrain

import (
	"math"
	"math/rand/v2"

	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// drawUsed draws how much of its allocation a job is seen to use, as an agent measures it.
//
//	GPUs in use      all
//	share computing  two of three jobs have an observer and loader processes. Half of these synchronise in each step; in the
//	                 others, a uniform part of the computing is hidden behind the wait for the input
//	busy CPUs        unknown for measured kinds; pipelines: the CPUs that prepare the input, and per GPU a uniform part of one;
//	                 CPU jobs: by their speedup, with those that contend; one of three waits actively on all its CPUs
//	error            the logarithm of the busy CPUs has a standard deviation of 0.05
//
// The draws leave those of the job unchanged.
func drawUsed(j *job) func(resources.Allocation) perf.Utilization {
	rng := rand.New(rand.NewPCG(math.Float64bits(j.UnitSamples), 0x05ed))
	observed, synchronous, spinning := rng.IntN(3) > 0, rng.IntN(2) == 0, rng.IntN(3) == 0
	shown, perGPU := rng.Float64(), rng.Float64()
	busy := func(a resources.Allocation, cpus float64) float64 {
		err := rand.New(rand.NewPCG(math.Float64bits(j.UnitSamples), uint64(a.CPUs)<<32|uint64(a.GPUs))).NormFloat64()
		return min(float64(a.CPUs), cpus*math.Exp(0.05*err))
	}
	switch w := j.Workload.(type) {
	case pipelined:
		return func(a resources.Allocation) perf.Utilization {
			unit := w.UnitSeconds(a)
			u := perf.Utilization{GPUs: float64(a.GPUs), CPUs: busy(a, w.cpuSeconds/unit+perGPU*float64(a.GPUs))}
			if observed {
				u.Compute = w.compute.UnitSeconds(a) / unit
				if !synchronous {
					u.Compute *= 1 - (1-shown)*(1-math.Pow(u.Compute, w.corner))
				}
			}
			return u
		}
	case amdahl:
		return func(a resources.Allocation) perf.Utilization {
			n := float64(a.CPUs)
			if spinning {
				return perf.Utilization{CPUs: busy(a, n)}
			}
			return perf.Utilization{CPUs: busy(a, w.one*(1+w.coherency*(n-1)*n)/w.UnitSeconds(a))}
		}
	}
	return func(a resources.Allocation) perf.Utilization {
		u := perf.Utilization{GPUs: float64(a.GPUs)}
		if observed {
			u.Compute = 1
		}
		return u
	}
}
