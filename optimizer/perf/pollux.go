package perf

import "math"

// pollux is the curve of a data-parallel GPU job (Qiao et al., Pollux, OSDI 2021, section 3.2), with a CPU-driven
// input pipeline:
//
//	T_grad = a + b·m                          m: batch per GPU
//	T_sync = 0 | a_l + b_l(K-2) | a_n + b_n(K-2)   one GPU | K in one node | K across nodes
//	T_iter = (T_grad^γ + T_sync^γ)^(1/γ),  1 ≤ γ ≤ 10
//	C = T_iter / (m·K),  I = input time per sample ∝ 1 / min(c, saturation)
//	t = (C^8 + I^8)^(1/8): the slower of the two, with a rounded corner
//
// K is the number of GPUs that the script uses, min(GPUs, usable) with a rounded corner, since many scripts use one
// GPU of any number. Gradient accumulation (s > 0 in the paper) is left to the script and not modelled. A script's
// default batch size is assumed to be per GPU, as in DistributedDataParallel. Without a GPU, the job runs on CPUs,
// slower than on one GPU by a factor with prior median 15, 5–95 % 3–78.
//
// All times are relative to T_grad at the reference batch.
type pollux struct {
	ctx             formContext
	nodes           bool
	sync, syncNodes parameter // a_l and a_n relative to T_grad
}

func newPollux(ctx formContext) form {
	f := pollux{ctx: ctx, nodes: ctx.gpusPerNode > 0}
	f.sync = f.exchange("sync", 0.15, hostLink, gpuLink)
	f.syncNodes = f.exchange("sync_nodes", 1, ethernet, fabric)
	return f
}

// Medians of the rates, in bytes/s, at which two GPUs of a node, or two nodes, exchange gradients: between GPUs through the
// host, as over PCIe, or directly, as over NVLink; between nodes over Ethernet or over the fabric of a cluster. linkSD is the
// standard deviation of their logarithms.
const (
	hostLink, gpuLink = 3e9, 40e9
	ethernet, fabric  = 0.5e9, 5e9
	linkSD            = 0.9
	fastLinks         = 0.4 // share of direct links and fabrics
)

// exchange returns the prior of the time in which gradients are exchanged, relative to T_grad. Its median for models of any size is
// given; the bytes of the gradients in a step of T_grad, and the rates of links, are evidence beside it.
func (f pollux) exchange(name string, median, slow, fast float64) parameter {
	q := parameter{name: name, mean: math.Log(median), sd: 1.2, natural: math.Exp}
	bytes := f.ctx.gradientRate
	if bytes <= 0 {
		return q
	}
	// The product of two normal densities is a normal density, times one of the distance of their means.
	own, link := 1/(q.sd*q.sd), 1/(linkSD*linkSD)
	given := func(rate float64) (mean, weight float64) {
		x := math.Log(bytes / rate)
		return (q.mean*own + x*link) / (own + link), normalDensity(x-q.mean, math.Sqrt(1/own+1/link))
	}
	first, w := given(slow)
	second, v := given(fast)
	w, v = (1-fastLinks)*w, fastLinks*v
	sd := 1 / math.Sqrt(own+link)
	if w < v {
		first, second, w, v = second, first, v, w
	}
	return parameter{name: name, mean: first, sd: sd, natural: math.Exp}.or(v/(w+v), second, sd)
}

// parameters returns the priors, chosen here. Two further parameters describe synchronisation between nodes when the
// job may span several.
func (f pollux) parameters() []parameter {
	p := []parameter{
		{name: "grad_fixed_share", mean: -1.4, sd: 1.0, natural: logistic}, // logit: a / (a + b·m_ref), median 0.2
		f.sync,
		{name: "sync_per_gpu", mean: math.Log(0.12), sd: 1.0, natural: math.Exp}, // b_l / a_l
		{name: "gamma", mean: -1.0, sd: 1.2, natural: func(x float64) float64 { return 1 + 9*logistic(x) }},
		parameter{name: "input_share", mean: math.Log(0.3), sd: 0.9, natural: math.Exp}.or(0.15, 0.7, 0.5), // I / C at the reference
		{name: "input_saturation_cpus", mean: 4, sd: 2, natural: math.Exp2},                                // log2
		parameter{name: "usable_gpus", mean: 7, sd: 1.5, natural: math.Exp2}.or(0.1, -1, 0.5),              // log2
		{name: "cpu_slowdown", mean: math.Log(15), sd: 1.0, natural: math.Exp},
	}
	if f.nodes {
		p = append(p, f.syncNodes,
			parameter{name: "sync_nodes_per_gpu", mean: math.Log(0.05), sd: 1.0, natural: math.Exp})
	}
	return p
}

func (f pollux) derive(nat []float64) {
	nat[polluxCompute] = f.compute(nat, f.ctx.ref)
	nat[polluxInput] = nat[4] * nat[polluxCompute] * effective(f.ctx.ref.cpus, nat[5])
}

// The indices at which derive stores the compute time at the reference and the input time per sample of one effective CPU.
const (
	polluxCompute = maxNatural - 2
	polluxInput   = maxNatural - 1
)

func (f pollux) logShape(nat []float64, p point) float64 {
	return math.Log(roundedMax(f.parts(nat, p)))
}

// roundedMax returns max(x, y) with a rounded corner: (x^8 + y^8)^(1/8).
func roundedMax(x, y float64) float64 {
	hi, lo := max(x, y), min(x, y)
	return hi * eighthRoot(1+eighthPower(lo/hi))
}

// parts returns compute and input time per unit, on one scale.
func (f pollux) parts(nat []float64, p point) (compute, input float64) {
	if compute = nat[polluxCompute]; p != f.ctx.ref {
		compute = f.compute(nat, p)
	}
	return compute, nat[polluxInput] / effective(p.cpus, nat[5])
}

// compute returns the time per unit of gradient computation and synchronisation.
func (f pollux) compute(nat []float64, p point) float64 {
	if p.gpus < 1 {
		return nat[7] * (nat[0] + (1-nat[0])*p.batch) / p.batch
	}
	k := effective(p.gpus, nat[6]) // GPUs in use
	batch := p.batch
	if p.total {
		batch *= p.gpus / k
	}
	grad := nat[0] + (1-nat[0])*batch
	iter := grad
	if p.gpus > 1 {
		sync := nat[1] * max(0, 1+nat[2]*(k-2))
		if across(p, f.ctx.gpusPerNode) {
			sync = nat[8] * max(0, 1+nat[9]*(k-2))
		}
		sync *= max(0, min(1, k-1)) // no exchange when one GPU does the work
		hi, lo := max(grad, sync), min(grad, sync)
		iter = hi * math.Exp(math.Log1p(math.Exp(nat[3]*math.Log(lo/hi)))/nat[3])
	}
	return iter / (batch * k)
}
