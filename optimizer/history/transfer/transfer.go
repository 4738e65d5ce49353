package transfer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"sync"

	"trainopt/optimizer/history"
	"trainopt/sla"
)

// ErrNoBasis reports that no measurement is similar to the query.
var ErrNoBasis = errors.New("no basis")

// Quantity names a predicted quantity.
type Quantity string

const (
	Throughput Quantity = "throughput"      // samples/s, steady state
	UnitRate   Quantity = "unit_rate"       // units of the job's own log per second, of the same training only
	Trainings  Quantity = "trainings"       // whole trainings to their target per second (entries with Seconds but without throughput)
	HostMemory Quantity = "host_memory_gib" // peak
	GPUMemory  Quantity = "gpu_memory_gib"  // peak of one GPU
	startup    Quantity = "startup_s"       // seconds from launch to the first work, of trainings with the same framework
	restart    Quantity = "restart_s"       // seconds of one restart with its checkpoint, of the same framework
)

// Options tune a model; the zero value is useful.
type Options struct {
	// Widen returns the factor on the log width of the intervals of a model family, from past predictions; nil means
	// 1.
	Widen func(family string) float64
	// Tuned replaces the hyper-parameters of the package, for evaluations.
	Tuned []tuning
}

// Query is a training and its configuration.
type Query struct {
	Job    history.Job
	Config history.Config
	Brief  bool // no basis and no extrapolations in the estimate, which costs less
}

// BasisGroup is one group of measurements that an estimate is based on.
type BasisGroup struct {
	Source     string // origin of the measurements
	Job        history.Job
	Entries    []string // ids
	Measured   string   // description: "1, 2, 4 GPUs of T4, batch 64…512"
	Similarity float64  // 0…1: prior correlation with the query
	Weight     float64  // 0…1: share in the estimate
}

// Estimate is a predicted quantity with its basis.
type Estimate struct {
	Value sla.Interval
	Basis []BasisGroup // largest weight first
	Prior float64      // 0…1: share of the estimate that is not based on measurements of similar trainings
	// Extrapolates describes the respects in which the query lies outside the measurements; empty inside.
	Extrapolates []string
}

// Model predicts quantities of trainings. Its estimates are deterministic, and it is safe for concurrent use.
type Model struct {
	entries []history.Entry
	widen   func(string) float64
	tables  map[Quantity]*table
}

// table holds the points of one quantity.
type table struct {
	quantity Quantity
	hyper    hyper
	index    *index
	points   []point
	all      []*point // pointers to points, in their order
	devices  map[string]device
	far      *table // of the same points with the hyper-parameters of far questions; nil: those of near ones

	learned  sync.Once // guards the computation of the fields below, on the first query of the quantity
	rough    *roughness
	traffic  []traffic // of each point
	variance []float64 // of each point, without the part common to all trainings
	systems  systems
}

func newTable(q Quantity, h hyper, x *index, devices map[string]device, points []point) *table {
	all := make([]*point, len(points))
	for i := range points {
		points[i].at, all[i] = i, &points[i]
	}
	return &table{quantity: q, hyper: h, index: x, devices: devices, points: points, all: all}
}

// learnedFor returns the table whose hyper-parameters answer questions about a place, with its fields computed.
func (t *table) learnedFor(p *place, points []*point) *table {
	if t.far != nil && distance(p, points) == far {
		t = t.far
	}
	t.learned.Do(t.learn)
	return t
}

// learn computes the roughness and the variances of this quantity.
func (t *table) learn() {
	t.rough = t.hyper.roughness(t.points, t.device)
	t.variance, t.traffic = make([]float64, len(t.points)), make([]traffic, len(t.points))
	own := map[string]devicePair{}
	for i := range t.points {
		p := &t.points[i]
		t.traffic[i] = t.hyper.traffic(&p.place)
		d, ok := own[p.gpu]
		if !ok {
			d = t.hyper.devices(t.device(p.gpu), t.device(p.gpu), true)
			own[p.gpu] = d
		}
		c := t.hyper.covariance(&p.place, &p.place, jobPair{1, 1, 1}, d)
		t.variance[i] = c.similar + c.own
	}
}

// New builds a model from entries, in any order. It costs O(n log n) for n entries; the first query of a quantity
// adds a tenth of a millisecond per group of measurements of one training on one kind of device.
func New(entries []history.Entry, o Options) *Model {
	m := &Model{entries: slices.Clone(entries), widen: o.Widen, tables: map[Quantity]*table{}}
	slices.SortStableFunc(m.entries, func(a, b history.Entry) int { return cmp.Compare(a.ID, b.ID) })
	devices := knownDevices()
	x := newIndex()
	tuned, farther := maps.Clone(hypers), maps.Clone(farHypers)
	for _, t := range o.Tuned {
		tuned[t.quantity], farther[t.quantity] = t.hyper[near], t.hyper[far]
	}
	g := newGatherer(x, m.entries)
	for _, q := range []Quantity{Throughput, UnitRate, Trainings, HostMemory, GPUMemory, startup, restart} {
		t := newTable(q, tuned[q], x, devices, g.gather(q))
		if h, ok := farther[q]; ok {
			t.far = newTable(q, h, x, devices, t.points)
		}
		m.tables[q] = t
	}
	x.frozen = true
	return m
}

// device returns the features of a GPU model; an unknown one has no known peaks.
func (t *table) device(name string) device { return t.devices[name] }

// Predict predicts a quantity. The error wraps ErrNoBasis if no measurement is similar to the query: the job has no
// name, hash or family; the width is unknown; or no measurement is of the same model or family within 1.5 decades of
// parameters, divided over GPUs in the same way and, for rates, on CPUs or GPUs as the query. A unit rate requires measurements of the same training. It costs O(n) for n entries, plus a few
// milliseconds if no earlier query used the same points.
func (m *Model) Predict(q Query, what Quantity) (Estimate, error) {
	t, ok := m.tables[what]
	if !ok {
		return Estimate{}, fmt.Errorf("predict %q: no such quantity: %w", what, ErrNoBasis)
	}
	fail := func(why string) (Estimate, error) {
		return Estimate{}, fmt.Errorf("predict %s of %s: %s: %w", what, jobName(q.Job), why, ErrNoBasis)
	}
	if len(t.points) == 0 {
		return fail("it was never measured")
	}
	p, ok := t.index.place(t.index.trait(q.Job), q.Config, site{})
	if !ok {
		return fail("the number of GPUs or CPUs is missing in the question")
	}
	points := t.candidates(&p)
	if why := missingBasis(&p, points, what); why != "" && (what != UnitRate && !what.overhead() || len(points) == 0 || why == distantBatch) {
		return fail(why)
	}
	other := t.far
	t = t.learnedFor(&p, points)
	t.settle(&p, points[0].unit, q.Config.Machine)
	g := t.regress(&p, points)
	if other != nil && other != t {
		// The first measurement on a device changes the hyper-parameters, but does not widen the interval without it.
		other.learned.Do(other.learn)
		if elsewhere := slices.DeleteFunc(slices.Clone(points), p.measuredBy); len(elsewhere) > 0 {
			g.variance = min(g.variance, other.regress(&p, elsewhere).variance*sq(other.hyper.Width/t.hyper.Width))
		}
	}
	return m.estimate(q, t, &p, points, g), nil
}

// candidates returns the points that a query may use: all points, but for unit rates those of the same training (the
// same script by its hash, or the same model and data set if a hash is unknown) in the unit with the most entries, and
// for start-ups and restarts those with the same framework.
func (t *table) candidates(p *place) []*point {
	if t.quantity != UnitRate && !t.quantity.overhead() {
		return t.all
	}
	var out []*point
	units := map[string]int{}
	for i := range t.points {
		q := &t.points[i]
		if t.quantity == UnitRate && !sameTraining(p.trait, q.trait) || t.quantity.overhead() && p.trait.framework != q.trait.framework {
			continue
		}
		units[q.unit] += len(q.entries)
		out = append(out, q)
	}
	if t.quantity != UnitRate || len(units) < 2 {
		return out
	}
	var best string
	for u, n := range units {
		if n > units[best] || n == units[best] && u < best {
			best = u
		}
	}
	return slices.DeleteFunc(out, func(q *point) bool { return q.unit != best })
}

func sameTraining(a, b trait) bool {
	if a.script != 0 && b.script != 0 {
		return a.script == b.script
	}
	return a.dataset == b.dataset && a.dataset > 0
}

// anotherSize is the ratio of parameter counts, in decades, from which two trainings of one family are not comparable.
const anotherSize = 1.5

// anotherBatch is the ratio of batches per GPU, in octaves, from which two measurements are not comparable.
const anotherBatch = 8

const distantBatch = "every comparable measurement has less than 1/256 or more than 256 times its batch"

// missingBasis returns the reason why points are no basis for a quantity, "" if they are: a basis is a measurement of
// the same model or family, at a comparable number of parameters, divided over GPUs in the same way, and for a rate on
// the same kind of processor at a comparable batch. A parameter count alone is none, and neither is the family of a
// model whose size is unknown. A script of a family is asked about before its model is built: it has a basis.
func missingBasis(asked *place, points []*point, what Quantity) string {
	a := asked.trait
	if a.model == 0 && a.family == 0 {
		return "neither its model, family nor script is known"
	}
	var unsized, size, division, processor, batch bool // what excludes measurements of the same model or family
	for _, p := range points {
		t := p.trait
		switch {
		case (t.model != a.model || t.model <= 0) && (t.family != a.family || t.family <= 0):
		case t.model != a.model && a.script == 0 && a.size[0] == unknown:
			unsized = true
		case t.size[0] != unknown && a.size[0] != unknown && math.Abs(t.size[0]-a.size[0]) >= anotherSize:
			size = true
		case t.division != a.division:
			division = true
		case what.rate() && p.cpu != asked.cpu:
			processor = true
		case !what.overhead() && math.Abs(p.batch-asked.batch) > anotherBatch:
			batch = true
		default:
			return ""
		}
	}
	switch ratio := math.Pow(10, anotherSize); {
	case batch:
		return distantBatch
	case processor:
		return "its model and family were measured on " + map[bool]string{true: "GPUs only, and it uses CPUs only", false: "CPUs only, and it uses GPUs"}[asked.cpu]
	case division:
		return "its model is divided over GPUs in another way than every measurement of its family"
	case unsized:
		return "its number of parameters is not known, and models of its family differ in it (--params)"
	case size:
		return fmt.Sprintf("every measurement of its family has less than 1/%.0f or more than %.0f times its parameters", ratio, ratio)
	}
	return "nothing of the same model or family was measured"
}

// settle assigns the site of the query: the named machine or publication if it has measurements, else a new machine
// of the user's, of which only the part common to all the user's machines is known.
func (t *table) settle(p *place, unit, named string) {
	s, ok := t.index.machines[named+"\x00"+unit]
	if !ok {
		s = site{own: true, name: named, unit: unit}
	}
	t.index.assignSite(p, s)
}

// estimate converts a regression to the units of the quantity and adds its basis.
func (m *Model) estimate(q Query, t *table, p *place, points []*point, g regression) Estimate {
	width := math.Sqrt(g.variance) * t.hyper.Width
	if m.widen != nil {
		if f := m.widen(q.Job.Family); f > 0 && !math.IsInf(f, 0) {
			width *= f
		}
	}
	middle := g.mean
	if t.quantity.rate() {
		middle += p.width * math.Ln2
	}
	up := intervalSigma
	if t.quantity == HostMemory || t.quantity == GPUMemory {
		up *= memoryUp
	}
	e := Estimate{Value: sla.Interval{P5: math.Exp(middle - intervalSigma*width), P50: math.Exp(middle), P95: math.Exp(middle + up*width)}}
	e.Prior = max(0, min(1, g.left))
	if !q.Brief {
		e.Basis, e.Extrapolates = m.grounds(g, 1-e.Prior), t.extrapolates(p, points)
	}
	return e
}

// intervalSigma is the standard normal quantile of 95 %.
const intervalSigma = 1.6449

// memoryUp widens the upper half of memory intervals: too little memory kills a job, too much costs little.
const memoryUp = 1.25

// jobName returns the name of a job for error messages.
func jobName(j history.Job) string {
	return cmp.Or(j.Model, j.Script, j.Family, "an unnamed training")
}
