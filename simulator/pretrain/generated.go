package pretrain

import (
	"math"
	"math/rand/v2"

	"trainopt/resources"
	"trainopt/simulator/training"
)

// pipelined is GPU work fed by an input pipeline on CPUs: the slower of the two, with a rounded corner.
//
//	t = (C^p + I^p)^(1/p),  I = CPU seconds of a unit / effective CPUs
//
// C is the time of the GPUs alone. The effective CPUs grow with the CPUs up to a saturation (readers, disks, locks),
// with a rounded corner as well.
type pipelined struct {
	compute    training.Workload
	cpuSeconds float64 // of a unit
	saturation float64 // CPUs
	corner     float64 // p
}

// UnitSeconds returns the seconds of a unit; NaN without CPUs or where the GPUs alone cannot run.
func (w pipelined) UnitSeconds(a resources.Allocation) float64 {
	c := w.compute.UnitSeconds(a)
	if !(c > 0) || a.CPUs < 1 {
		return math.NaN()
	}
	return roundedMax(c, w.cpuSeconds/roundedMin(float64(a.CPUs), w.saturation, w.corner), w.corner)
}

// Watts returns the power of the GPU work.
func (w pipelined) Watts(a resources.Allocation) float64 { return w.compute.Watts(a) }

// amdahl is work on CPUs alone: a serial share, a share that spreads over the CPUs until they saturate, and a cost
// that grows with their number (Gunther's universal scalability law, coherency term). If fewer threads than CPUs are
// configured, only that number of CPUs is used.
type amdahl struct {
	one        float64 // seconds of a unit on one CPU
	serial     float64 // share
	saturation float64 // CPUs
	coherency  float64 // share per CPU beyond the first
	corner     float64
}

// UnitSeconds returns the seconds of a unit; NaN without CPUs.
func (w amdahl) UnitSeconds(a resources.Allocation) float64 {
	if a.CPUs < 1 {
		return math.NaN()
	}
	n := float64(a.CPUs)
	if a.Threads > 0 {
		n = min(n, float64(a.Threads))
	}
	return w.one * (w.serial + (1-w.serial)/roundedMin(n, w.saturation, w.corner) + w.coherency*(n-1))
}

// Watts returns NaN: the power is unknown.
func (amdahl) Watts(resources.Allocation) float64 { return math.NaN() }

// contention draws the coherency of a job that more CPUs or threads slow down, such as spinning pools, locks and tiny
// models; one job in five is contended. The draw is a function of the earlier draws and leaves the generator of later
// ones unchanged.
func (w amdahl) contention() (perCPU float64, contended bool) {
	rng := rand.New(rand.NewPCG(math.Float64bits(w.serial), math.Float64bits(w.saturation)))
	return logUniform(rng, 0.01, 0.3), rng.IntN(5) == 0
}

// roundedMax is a smooth maximum: the p-norm of x and y.
func roundedMax(x, y, p float64) float64 {
	hi, lo := max(x, y), min(x, y)
	return hi * math.Pow(1+math.Pow(lo/hi, p), 1/p)
}

// roundedMin is a smooth minimum, below both arguments, scaled so that one CPU counts as one.
func roundedMin(n, limit, p float64) float64 {
	at := func(x float64) float64 { return 1 / roundedMax(1/x, 1/limit, p) }
	return at(n) / at(1)
}

// syntheticGPUs are the machines of synthetic GPU jobs.
var syntheticGPUs = []struct {
	gpu     string
	perNode int
}{{"T4", 4}, {"V100 16GB", 8}, {"A100 40GB", 8}}

// syntheticLink is the median rate, in bytes/s, at which two GPUs exchange gradients in synthetic jobs. In the tables of models.json
// with a known number of parameters it is 1.3, 2.8 and 5.1e9.
const syntheticLink = 2e9

// synthetic draws a data-parallel GPU job of the form of StepCurve, with parameters over the range of the fits in
// models.json and slightly beyond. One step of one GPU takes one second at the default batch.
func synthetic(rng *rand.Rand) Kind {
	g := syntheticGPUs[rng.IntN(len(syntheticGPUs))]
	const batch = 64
	exponent := 0.85 + 0.3*rng.Float64()
	fixed := 0.05 + 0.55*rng.Float64()
	local := logUniform(rng, 0.01, 1)
	across := local * logUniform(rng, 1, 12)
	curve := StepCurve{
		Fixed: fixed, PerBatch: (1 - fixed) / math.Pow(batch, exponent), Exponent: exponent,
		Local: local, LocalPerGPU: local * logUniform(rng, 0.02, 0.5), NodesPerGPU: across * logUniform(rng, 0.005, 0.1),
		OverlapPower: 1 + 5*rng.Float64(),
	}
	for i := range curve.Nodes {
		curve.Nodes[i] = across * math.Exp(0.1*rng.NormFloat64())
	}
	k := Kind{
		Name: "synthetic", Family: "synthetic", Source: "generated", GPU: g.gpu, GPUsPerNode: g.perNode, MaxGPUs: 16, DefaultBatch: batch,
		Batch: resources.Range{Min: 16, Max: 256}, TotalBatch: resources.Range{Min: batch, Max: 64 * batch},
		Restart: logUniform(rng, 15, 250),
	}
	k.Parameters = local * syntheticLink / 4 * math.Exp(0.7*rand.New(rand.NewPCG(math.Float64bits(local), 0x9ad5)).NormFloat64())
	k.step = fittedSteps{curve, g.perNode, noiseScale{batch * logUniform(rng, 10, 3000), batch}}
	return k
}
