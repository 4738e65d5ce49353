package perf

import (
	"math"
	"math/rand/v2"

	"trainopt/resources"
)

// synthetic is a job with known parameters: a curve of its own family, an irregularity per allocation, a drift per
// segment, and units with noise and occasional pauses.
type synthetic struct {
	rng                              *rand.Rand
	curve                            func(a resources.Allocation) float64
	irregular                        map[[3]int]float64
	irregularSD, driftSD, noise, odd float64
}

func newSynthetic(seed uint64, curve func(rng *rand.Rand) func(resources.Allocation) float64) *synthetic {
	rng := rand.New(rand.NewPCG(seed, 77))
	return &synthetic{
		rng: rng, curve: curve(rng), irregular: make(map[[3]int]float64),
		irregularSD: 0.01 + 0.04*rng.Float64(), driftSD: 0.01 + 0.04*rng.Float64(), noise: 0.01 + 0.08*rng.Float64(), odd: 0.02,
	}
}

// longRun returns the mean seconds per unit of a long remainder.
func (j *synthetic) longRun(a resources.Allocation) float64 { return j.level(a) * j.drift() }

func (j *synthetic) drift() float64 { return math.Exp(j.driftSD * j.rng.NormFloat64()) }

func (j *synthetic) level(a resources.Allocation) float64 {
	key := [3]int{a.GPUs, a.CPUs, a.BatchSize}
	u, ok := j.irregular[key]
	if !ok {
		u = j.irregularSD * j.rng.NormFloat64()
		j.irregular[key] = u
	}
	return j.curve(a) * math.Exp(u)
}

func (j *synthetic) observe(a resources.Allocation, units int) Observation {
	level := j.level(a) * j.drift()
	o := Observation{Allocation: a}
	for range units {
		u := level * math.Exp(j.noise*j.rng.NormFloat64())
		if j.rng.Float64() < j.odd {
			u *= 1 + 2*j.rng.Float64()
		}
		o.UnitSeconds = append(o.UnitSeconds, u)
	}
	return o
}

func cpus(n int) resources.Allocation { return resources.Allocation{CPUs: n} }

func gpus(g, c int) resources.Allocation { return resources.Allocation{GPUs: g, CPUs: c} }

// amdahlJob is a CPU job with a hard saturation; one in eight ignores its CPUs.
func amdahlJob(rng *rand.Rand) func(resources.Allocation) float64 {
	parallel := 0.3 + 0.69*rng.Float64()
	if rng.IntN(8) == 0 {
		parallel = 0
	}
	saturation := math.Exp2(1 + 4*rng.Float64())
	scale := math.Exp(rng.NormFloat64())
	return func(a resources.Allocation) float64 {
		return scale * (1 - parallel + parallel/min(float64(a.CPUs), saturation))
	}
}

// contendedJob is a CPU job; additional CPUs slow down one in four.
func contendedJob(rng *rand.Rand) func(resources.Allocation) float64 {
	plain, contention := amdahlJob(rng), 0.0
	if rng.IntN(4) == 0 {
		contention = math.Exp(-4 + 4.6*rng.Float64())
	}
	one := plain(resources.Allocation{CPUs: 1})
	return func(a resources.Allocation) float64 { return plain(a) + one*contention*float64(a.CPUs-1) }
}

// polluxJob is a data-parallel GPU job in one node with an input pipeline; one in six is input-bound at 8 CPUs.
func polluxJob(rng *rand.Rand) func(resources.Allocation) float64 {
	fixed := 0.05 + 0.4*rng.Float64()
	sync := math.Exp(-2 + 0.8*rng.NormFloat64())
	slope := 0.02 + 0.2*rng.Float64()
	gamma := 1 + 4*rng.Float64()
	input := 0.3 + rng.Float64()
	if rng.IntN(6) == 0 {
		input = 10 + 10*rng.Float64()
	}
	scale := math.Exp(rng.NormFloat64())
	return func(a resources.Allocation) float64 {
		k, batch := float64(a.GPUs), 1.0
		if a.BatchSize > 0 {
			batch = float64(a.BatchSize) / k / 32
		}
		grad := fixed + (1-fixed)*batch
		iter := grad
		if k > 1 {
			iter = math.Pow(math.Pow(grad, gamma)+math.Pow(sync*(1+slope*(k-2)), gamma), 1/gamma)
		}
		return scale * max(iter/(batch*k), input/float64(a.CPUs))
	}
}
