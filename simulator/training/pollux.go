package training

import "math"

// pollux is the curve of a data-parallel GPU job (Qiao et al., Pollux, OSDI 2021, section 3.2), with an input
// pipeline that CPUs feed:
//
//	T_grad = a + b·m                          m: batch per GPU
//	T_sync = 0 | a_l + b_l(K-2) | a_n + b_n(K-2)   one GPU | K in one node | K across nodes
//	T_iter = (T_grad^γ + T_sync^γ)^(1/γ),  1 ≤ γ ≤ 10
//	C = T_iter / (m·K),  I = input time per sample ∝ 1 / min(c, saturation)
//	t = (C^q + I^q)^(1/q),  q = 5: the slower of the two, with a rounded corner
//
// Gradient accumulation (s > 0 in the paper) is the script's own affair and not modelled. Where the script keeps its
// own batch it is taken to be per GPU, as in DistributedDataParallel. Without a GPU the job runs, on CPUs, slower
// than on one GPU by a factor whose prior is 15, 5–95 % 3–78.
//
// Everything is relative to T_grad at the reference batch. Priors: see polluxPriors.
type pollux struct {
	ctx   formContext
	nodes bool
}

const inputSharpness = 5

func newPollux(ctx formContext) form { return pollux{ctx: ctx, nodes: ctx.gpusPerNode > 0} }

func (f pollux) parameters() []parameter {
	p := []parameter{
		{"grad_fixed_share", -1.4, 1.0},       // logit: a / (a + b·m_ref), median 0.2
		{"sync", math.Log(0.15), 1.0},         // a_l / T_grad
		{"sync_per_gpu", math.Log(0.12), 1.0}, // b_l / a_l
		{"gamma", -1.0, 1.2},                  // γ = 1 + 9·logistic
		{"input_share", math.Log(0.35), 0.9},  // I / C at the reference
		{"input_saturation_cpus", 4, 2},       // log2
		{"cpu_slowdown", math.Log(15), 1.0},
	}
	if f.nodes {
		p = append(p, parameter{"sync_nodes", math.Log(0.8), 1.0}, parameter{"sync_nodes_per_gpu", math.Log(0.05), 1.0})
	}
	return p
}

func (f pollux) natural(theta, dst []float64) {
	dst[0] = logistic(theta[0])
	dst[1], dst[2] = math.Exp(theta[1]), math.Exp(theta[2])
	dst[3] = 1 + 9*logistic(theta[3])
	dst[4] = math.Exp(theta[4])
	dst[5] = math.Exp2(theta[5])
	dst[6] = math.Exp(theta[6])
	if f.nodes {
		dst[7], dst[8] = math.Exp(theta[7]), math.Exp(theta[8])
	}
}

func (f pollux) logShape(nat []float64, p point) float64 {
	c, in := f.parts(nat, p)
	if c > in {
		r := in / c
		return math.Log(c) + math.Log1p(r*r*r*r*r)/inputSharpness
	}
	r := c / in
	return math.Log(in) + math.Log1p(r*r*r*r*r)/inputSharpness
}

// parts are compute and input time per unit, on one scale.
func (f pollux) parts(nat []float64, p point) (compute, input float64) {
	compute = f.compute(nat, p)
	ref := f.compute(nat, f.ctx.ref)
	input = nat[4] * ref * effectiveCPUs(f.ctx.ref.cpus, nat[5]) / effectiveCPUs(p.cpus, nat[5])
	return compute, input
}

func (f pollux) compute(nat []float64, p point) float64 {
	grad := nat[0] + (1-nat[0])*p.batch
	if p.gpus < 1 {
		return nat[6] * grad / p.batch
	}
	iter := grad
	if p.gpus > 1 {
		sync := nat[1] * (1 + nat[2]*(p.gpus-2))
		if f.nodes && p.gpus > float64(f.ctx.gpusPerNode) {
			sync = nat[7] * (1 + nat[8]*(p.gpus-2))
		}
		hi, lo := max(grad, sync), min(grad, sync)
		iter = hi * math.Exp(math.Log1p(math.Pow(lo/hi, nat[3]))/nat[3])
	}
	return iter / (p.batch * p.gpus)
}
