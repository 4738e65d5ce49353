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
//	share computing  of jobs with an observer, which all have loader processes. Half of these synchronise in each step; in
//	                 the others, a uniform part of the computing is hidden behind the wait for the input
//	busy GPUs        while they compute: two of three jobs uniform 85–100 %, the others, with small kernels, 30–85 %. With
//	                 several GPUs, those of one job in four wait for each other in a uniform part of the rest, and count as busy
//	busy CPUs        unknown for measured kinds; pipelines: the CPUs that prepare the input, and per GPU a uniform part of one;
//	                 CPU jobs: by their speedup, with those that contend; one of three waits actively on all its CPUs
//	gradients        of jobs with an observer: four bytes of each parameter in the seconds of a step
//	error            the logarithm of the busy CPUs has a standard deviation of 0.05, the share of the busy GPUs of 0.02
//
// The draws leave those of the job unchanged.
func drawUsed(j *job) func(resources.Allocation) perf.Utilization {
	rng := rand.New(rand.NewPCG(math.Float64bits(j.UnitSamples), 0x05ed))
	synchronous, spinning := rng.IntN(2) == 0, rng.IntN(3) == 0
	shown, perGPU := rng.Float64(), rng.Float64()
	small, waiting, part, waits := rng.IntN(3) == 0, rng.IntN(4) == 0, rng.Float64(), rng.Float64()
	gpuBusy := func(a resources.Allocation, computing float64) float64 {
		err := rand.New(rand.NewPCG(math.Float64bits(j.UnitSamples), uint64(a.CPUs)<<32|uint64(a.GPUs)|1<<63)).NormFloat64()
		share := computing * (0.85 + 0.15*part)
		if small {
			share = computing * (0.3 + 0.55*part)
		}
		if waiting && a.GPUs > 1 {
			share += (1 - computing) * waits
		}
		return max(0.001, min(1, share+0.02*err))
	}
	gradients := func(a resources.Allocation) float64 {
		if !j.observed {
			return 0
		}
		return 4 * j.kind.Parameters * j.kind.stepsOf(j.UnitSamples, a) / j.Workload.UnitSeconds(a)
	}
	busy := func(a resources.Allocation, cpus float64) float64 {
		err := rand.New(rand.NewPCG(math.Float64bits(j.UnitSamples), uint64(a.CPUs)<<32|uint64(a.GPUs))).NormFloat64()
		return min(float64(a.CPUs), cpus*math.Exp(0.05*err))
	}
	switch w := j.Workload.(type) {
	case pipelined:
		return func(a resources.Allocation) perf.Utilization {
			unit := w.UnitSeconds(a)
			u := perf.Utilization{GPUs: float64(a.GPUs), CPUs: busy(a, w.cpuSeconds/unit+perGPU*float64(a.GPUs))}
			computing := w.compute.UnitSeconds(a) / unit
			u.GPUBusy, u.GradientRate = gpuBusy(a, computing), gradients(a)
			if j.observed {
				u.Compute = computing
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
		u := perf.Utilization{GPUs: float64(a.GPUs), GPUBusy: gpuBusy(a, 1), GradientRate: gradients(a)}
		if j.observed {
			u.Compute = 1
		}
		return u
	}
}
