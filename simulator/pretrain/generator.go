package pretrain

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// Set selects the kinds from which jobs are drawn.
type Set string

const (
	trainingSet Set = "train"    // not held out
	heldOutSet  Set = "held-out" // held out; all of Sia
	All         Set = "all"
)

// Mix contains the weights of the three classes of jobs; the zero Mix is 5 : 3 : 2.
type Mix struct {
	Measured float64 // kinds as measured; only GPUs matter
	Pipeline float64 // generated: a kind or a synthetic curve, fed by a pipeline on CPUs; GPUs and CPUs matter
	CPU      float64 // generated: no GPU
}

// GeneratorOptions select the jobs to draw. The zero value draws training jobs from the embedded kinds.
type GeneratorOptions struct {
	Set   Set    // empty: Train
	Kinds []Kind // nil: Embedded
	Seed  uint64
	Mix   Mix
	// MaxGPUs bounds the GPUs of any job, 0 means 16.
	MaxGPUs int
	// Spot is the share of GPU jobs on spot capacity; 0 means 0.2, negative none.
	Spot float64
}

// class is the class of a job.
type class string

const (
	measuredClass class = "measured"
	pipeline      class = "pipeline"
	cpuOnly       class = "cpu"
)

// job is a drawn job: the scenario to simulate, and data for the evaluation of planners.
type job struct {
	training.Scenario
	Class    class
	Kind     string // name of the kind, empty for CPU jobs
	Family   string
	Measured bool // the truth is a table, not a curve
	// Feasible is true if some candidate meets the SLA with 3 % and one restart to spare, or if the job has no SLA. It
	// is determined by evaluating all candidates, with the job's own interruptions.
	Feasible bool
	// Tight marks a feasible job in which fewer than one candidate in five meets the SLA.
	Tight bool

	onSpot   bool
	observed bool // the run has an observer
	kind     Kind // of a job with GPUs
}

// Generator draws jobs. A job depends on the options and its index alone: jobs may be drawn in any order and on any number
// of cores. A Draw is immutable and safe for concurrent use.
//
// The distribution, all draws independent:
//
//	class            measured 50 %, pipeline 30 %, CPU 20 %                    (Mix)
//	kind             a family, then one of its kinds, uniform; pipeline: half of them synthetic curves
//	GPUs allowed     1…G, G 4 / 8 / 16 with 20 / 50 / 30 %, at most as measured; cut to the numbers at which the job runs
//	batch            default per GPU (weak scaling); 25 % of kinds with a batch range: one total batch, a power of two
//	                 times the reference, for all numbers of GPUs (strong scaling)
//	CPUs allowed     measured: 4 per GPU, fixed (no knob); pipeline and CPU: 1…8, 16, 32 or 64
//	baseline         half of the users take all GPUs or CPUs, the others a uniform number
//	input pipeline   CPUs that keep one GPU busy, log-uniform 0.5–16; saturation log-uniform 4–64 CPUs; corner 4–10
//	CPU jobs         serial share log-uniform 0.5–30 %; saturation log-uniform 2–128 CPUs; half with coherency, log-uniform
//	                 10⁻⁵–10⁻³ per CPU; one in five slows down with more CPUs: coherency log-uniform 0.01–0.3 per CPU
//	observer         two of three jobs have one
//	baseline time    log-uniform 0.3–24 h; units, as the job reports them: with an observer, which counts steps, and for half
//	                 of the others, which print a line every few steps, log-uniform 400–2,000; epochs log-uniform 20–400
//	restart          that of the kind (CPU jobs: log-uniform 5–60 s) × 0.8–1.25; start-up 0.5–1 of it
//	prices           measured: machine price / GPUs; others: unit rates; spot 20 % of GPU jobs, where a spot price exists
//	spot             a trace from a random tick, or times up and away exponential with the means of drawSpot
//	noise            drawNoise
//	use              drawUsed
//	SLA              none 25 %, deadline 30 %, budget 20 %, both 25 %
//	deadline         (fastest candidate + one restart) × log-uniform 1.2…max(1.5, 1.5 × baseline / fastest)
//	budget           (cheapest candidate that meets the deadline, one restart more) × log-uniform 1.2…max(1.5, 1.3 × baseline / cheapest)
//	impossible       5 % of SLAs: one limit × 0.6–0.95 of the best
type Generator struct {
	o     GeneratorOptions
	kinds map[string][]Kind // by family
	names []string          // families, sorted
}

// NewGenerator validates the options and returns a Generator. The error joins all problems; it wraps errNoKinds if the options
// exclude all kinds.
func NewGenerator(o GeneratorOptions) (*Generator, error) {
	o.Set = cmp.Or(o.Set, trainingSet)
	if o.Kinds == nil {
		o.Kinds = Embedded()
	}
	if o.Mix == (Mix{}) {
		o.Mix = Mix{5, 3, 2}
	}
	o.Spot = cmp.Or(o.Spot, 0.2)
	o.MaxGPUs = cmp.Or(o.MaxGPUs, 16)
	var problems []error
	if !slices.Contains([]Set{trainingSet, heldOutSet, All}, o.Set) {
		problems = append(problems, fmt.Errorf("set %q is none of %s, %s, %s", o.Set, trainingSet, heldOutSet, All))
	}
	if m := o.Mix; !(m.Measured >= 0 && m.Pipeline >= 0 && m.CPU >= 0 && m.Measured+m.Pipeline+m.CPU > 0) {
		problems = append(problems, fmt.Errorf("mix %v: want weights from 0, one above", m))
	}
	if o.MaxGPUs < 1 || !(o.Spot <= 1) {
		problems = append(problems, fmt.Errorf("at most %d GPUs, spot share %g: want 1 GPU at least, a share up to 1", o.MaxGPUs, o.Spot))
	}
	d := &Generator{o: o, kinds: map[string][]Kind{}}
	for _, k := range o.Kinds {
		if o.Set == trainingSet && k.HeldOut || o.Set == heldOutSet && !k.HeldOut || k.Irregular || k.MaxGPUs < 2 {
			continue
		}
		if d.kinds[k.Family] == nil {
			d.names = append(d.names, k.Family)
		}
		d.kinds[k.Family] = append(d.kinds[k.Family], k)
	}
	slices.Sort(d.names)
	if len(d.names) == 0 && o.Mix.Measured+o.Mix.Pipeline > 0 {
		problems = append(problems, fmt.Errorf("set %q of %d kinds: %w", o.Set, len(o.Kinds), errNoKinds))
	}
	if err := errors.Join(problems...); err != nil {
		return nil, fmt.Errorf("draw jobs: %w", err)
	}
	return d, nil
}

// errNoKinds is returned when the options exclude all kinds.
var errNoKinds = errors.New("no kind is left")

// Scenarios draws n jobs and returns the parts required by a simulation; seed replaces o.Seed.
func Scenarios(n int, seed uint64, o GeneratorOptions) ([]training.Scenario, error) {
	o.Seed = seed
	d, err := NewGenerator(o)
	if err != nil {
		return nil, err
	}
	out := make([]training.Scenario, n)
	for i := range out {
		out[i] = d.At(i).Scenario
	}
	return out, nil
}

// At returns job i, counted from 0.
func (d *Generator) At(i int) job {
	rng := rand.New(rand.NewPCG(d.o.Seed, uint64(i)+0x10b5))
	for {
		j, ok := d.try(rng)
		if ok {
			j.Name = fmt.Sprintf("%s#%d", j.Name, i)
			return j
		}
	}
}

// try draws one job; false if the draws are incompatible (a batch that does not fit).
func (d *Generator) try(rng *rand.Rand) (job, bool) {
	var j job
	var work func(samples float64) training.Workload // units of the given number of samples
	m := d.o.Mix
	switch x := rng.Float64() * (m.Measured + m.Pipeline + m.CPU); {
	case x < m.Measured:
		j.Class = measuredClass
		work = d.measured(rng, &j)
	case x < m.Measured+m.Pipeline:
		j.Class = pipeline
		work = d.pipeline(rng, &j)
	default:
		j.Class = cpuOnly
		work = d.cpu(rng, &j)
	}
	j.Workload = work(1)
	if !j.runnable() {
		return j, false
	}
	j.Baseline = drawBaseline(rng, j.Limits, j.Baseline.BatchSize)
	seconds := 3600 * logUniform(rng, 0.3, 24)
	j.observed = rand.New(rand.NewPCG(math.Float64bits(seconds), 0x05ed)).IntN(3) > 0
	epochs, steps := logUniform(rng, 20, 400), 0.0
	if rng.IntN(2) == 0 {
		steps = logUniform(rng, 400, 2000)
	} else if j.observed {
		steps = 400 * math.Pow(epochs/20, math.Log(5)/math.Log(20)) // the same quantile of 400–2,000
	}
	j.Units = math.Round(cmp.Or(steps, epochs))
	j.UnitSamples = seconds / j.Units / j.Workload.UnitSeconds(j.Baseline)
	j.Workload = work(j.UnitSamples)
	j.Restart *= logUniform(rng, 0.8, 1.25)
	j.Startup = j.Restart * (0.5 + 0.5*rng.Float64())
	j.Noise = drawNoise(rng)
	d.drawInterruptions(rng, &j)
	drawSLA(rng, &j)
	j.Used = drawUsed(&j)
	return j, true
}

// kind draws a family, then one of its kinds.
func (d *Generator) kind(rng *rand.Rand) Kind {
	family := d.kinds[d.names[rng.IntN(len(d.names))]]
	return family[rng.IntN(len(family))]
}

// applyKind sets the fields of the job that follow from its kind.
func (d *Generator) applyKind(rng *rand.Rand, j *job, k Kind) {
	j.kind = k
	j.Name, j.Kind, j.Family, j.Scenario.GPUsPerNode, j.Measured, j.Restart = k.Name, k.Name, k.Family, k.GPUsPerNode, k.Measured, k.Restart
	g := [10]int{4, 4, 8, 8, 8, 8, 8, 16, 16, 16}[rng.IntN(10)]
	g = min(g, k.MaxGPUs, d.o.MaxGPUs)
	j.Limits.GPUs = resources.Range{Min: 1, Max: g}
	if rng.Float64() < 0.25 && k.TotalBatch.Max > 0 {
		j.Baseline.BatchSize = k.TotalBatch.Min << rng.IntN(6)
	}
}

// measured draws a job of a kind as measured, with a fixed number of CPUs, and returns the constructor of its
// workload.
func (d *Generator) measured(rng *rand.Rand, j *job) func(float64) training.Workload {
	k := d.kind(rng)
	d.applyKind(rng, j, k)
	cpus := 4 * j.Limits.GPUs.Max
	j.Limits.CPUs = resources.Range{Min: cpus, Max: cpus}
	j.prices(rng, d.o.Spot, func(spot bool) (cost.Rates, bool) {
		r, ok, err := gpuRates(k.GPU, spot)
		if err != nil {
			return cost.Default(k.GPU), !spot
		}
		return r, ok
	})
	return k.WorkloadOf
}

// pipeline draws a job whose GPUs are fed by an input pipeline on CPUs and returns the constructor of its workload.
func (d *Generator) pipeline(rng *rand.Rand, j *job) func(float64) training.Workload {
	k := d.kind(rng)
	if s := synthetic(rng); rng.IntN(2) == 0 {
		k = s
	}
	d.applyKind(rng, j, k)
	j.Name += "+input"
	j.Limits.CPUs = resources.Range{Min: 1, Max: 8 << rng.IntN(4)}
	one := k.WorkloadOf(1).UnitSeconds(resources.Allocation{GPUs: 1}) // seconds per sample on one GPU
	perSample := one * logUniform(rng, 0.5, 16)
	w := pipelined{saturation: logUniform(rng, 4, 64), corner: 4 + 6*rng.Float64()}
	j.prices(rng, d.o.Spot, func(spot bool) (cost.Rates, bool) { return unitPrices(k.GPU, spot) })
	return func(samples float64) training.Workload {
		w.compute, w.cpuSeconds = k.WorkloadOf(samples), perSample*samples
		return w
	}
}

// cpu draws a job without GPUs and returns the constructor of its workload.
func (d *Generator) cpu(rng *rand.Rand, j *job) func(float64) training.Workload {
	j.Name, j.Family = "cpu", "cpu"
	j.Limits.CPUs = resources.Range{Min: 1, Max: 8 << rng.IntN(4)}
	j.Restart = logUniform(rng, 5, 60)
	w := amdahl{serial: logUniform(rng, 0.005, 0.3), saturation: logUniform(rng, 2, 128), corner: 4 + 6*rng.Float64()}
	if c := logUniform(rng, 1e-5, 1e-3); rng.IntN(2) == 0 {
		w.coherency = c
	}
	if c, contended := w.contention(); contended {
		w.coherency = c
		j.Name = "cpu-contended"
	}
	j.Rates = cost.Default("")
	return func(samples float64) training.Workload {
		w.one = samples
		return w
	}
}

// runnable reduces the GPU limits to the longest contiguous range at which the job runs; false if it offers no choice.
func (j *job) runnable() bool {
	if j.Limits.GPUs.Max == 0 {
		return true
	}
	var best, now resources.Range
	a := resources.Allocation{CPUs: j.Limits.CPUs.Max, BatchSize: j.Baseline.BatchSize}
	for a.GPUs = j.Limits.GPUs.Min; a.GPUs <= j.Limits.GPUs.Max; a.GPUs++ {
		switch runs := j.Workload.UnitSeconds(a) > 0; {
		case !runs:
			now = resources.Range{}
			continue
		case now.Max == 0:
			now.Min = a.GPUs
		}
		now.Max = a.GPUs
		if now.Max-now.Min > best.Max-best.Min || best.Max == 0 {
			best = now
		}
	}
	j.Limits.GPUs = best
	return best.Max > best.Min
}

// own draws the baseline: the configuration the user runs without optimize.
func drawBaseline(rng *rand.Rand, l resources.Limits, batch int) resources.Allocation {
	pick := func(r resources.Range) int {
		all, some := rng.IntN(2) == 0, r.Min+rng.IntN(r.Max-r.Min+1)
		if all {
			return r.Max
		}
		return some
	}
	return resources.Allocation{GPUs: pick(l.GPUs), CPUs: pick(l.CPUs), BatchSize: batch}
}
