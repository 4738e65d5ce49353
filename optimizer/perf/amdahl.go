package perf

import "math"

// amdahl is the curve of a CPU job (Amdahl 1967, with saturation and the coherency term of Gunther's universal
// scalability law):
//
//	t(c) ∝ (1-p) + p / min(c, saturation) + σ (c-1),
//	      times (1 + κ/b) / (1 + κ) for a batch b times the reference (κ: share of per-step overhead)
//
// The priors are weakly informative and chosen here: parallel fraction p, median 0.82, 5–95 % 0.28–0.98, and with
// weight 0.15 below 0.1 for scripts that ignore their CPUs; saturation, median 16 CPUs, 5–95 % 1.6–157; contention σ,
// median 0.0002 per CPU, and with weight 0.1 median 0.5, 5–95 % 0.04–6, for jobs that a second CPU or thread slows
// down; κ, median 0.1.
type amdahl struct{}

func newAmdahl(formContext) form { return amdahl{} }

func (amdahl) parameters() []parameter {
	return []parameter{
		parameter{name: "parallel_fraction", mean: 1.5, sd: 1.5, natural: logistic}.or(0.15, -5, 1.5), // logit
		{name: "saturation_cpus", mean: 4, sd: 2, natural: math.Exp2},                                 // log2
		parameter{name: "contention", mean: math.Log(2e-4), sd: 1.5, natural: math.Exp}.or(0.1, math.Log(0.5), 1.5),
		{name: "step_overhead", mean: math.Log(0.1), sd: 1.2, natural: math.Exp},
	}
}

func (amdahl) derive([]float64) {}

func (amdahl) logShape(nat []float64, p point) float64 {
	parallel, saturation, contention, step := nat[0], nat[1], nat[2], nat[3]
	t := 1 - parallel + parallel/effective(p.cpus, saturation) + contention*(p.cpus-1)
	if p.batch != 1 {
		t *= (1 + step/p.batch) / (1 + step)
	}
	return math.Log(t)
}
