package transfer

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"

	"gonum.org/v1/gonum/mat"

	"trainopt/optimizer/history"
)

// tuning holds the hyper-parameters of one quantity.
type tuning struct {
	quantity Quantity
	hyper    [2]hyper // of near and far questions
}

// String formats the hyper-parameters as in hyper.go.
func (t tuning) String() string {
	var s strings.Builder
	for i, h := range t.hyper {
		fmt.Fprintf(&s, "\t%s: {\n", [...]string{"near", "far"}[i])
		v := reflect.ValueOf(h)
		for i := range v.NumField() {
			fmt.Fprintf(&s, "\t\t%s: %.3g,\n", v.Type().Field(i).Name, v.Field(i).Float())
		}
		s.WriteString("\t},\n")
	}
	return s.String()
}

// Fitting configures Fit.
type Fitting struct {
	Points int                  // points kept per source, model, GPU and GPU count; 0 means 2
	Sweeps int                  // maximum number of sweeps over all hyper-parameters; 0 means 20
	Logf   func(string, ...any) // called after each sweep; may be nil
}

// Fit searches for the hyper-parameters that maximise the leave-out predictive density on entries, from a start that
// does not depend on any table. It costs O(n³) per trial for n kept points, with some hundred trials per sweep:
// minutes. The error wraps ErrNoBasis if nothing can be left out.
func Fit(entries []history.Entry, q Quantity, o Fitting) (tuning, error) {
	if o.Logf == nil {
		o.Logf = func(string, ...any) {}
	}
	f := newFitting(entries, q, cmp.Or(o.Points, 2))
	if len(f.hidden) == 0 {
		return tuning{}, fmt.Errorf("fit %s: nothing can be left out of %d entries: %w", q, len(entries), ErrNoBasis)
	}
	o.Logf("%s: %d points, %d groups hidden in turn", q, len(f.points), len(f.hidden))
	out := tuning{q, [2]hyper{initialHyper(q), initialHyper(q)}}
	for i := range out.hyper {
		if slices.ContainsFunc(f.hidden, func(g hidden) bool { return slices.Contains(determined[i], g.kind) }) {
			f.search(&out.hyper[i], determined[i], cmp.Or(o.Sweeps, 20), o.Logf)
			f.calibrate(&out.hyper[i], determined[i], o.Logf)
		}
	}
	return out, nil
}

// determined lists the kinds of groups that the hyper-parameters of near and of far questions are fitted to.
var determined = [2][]string{near: {"count", "beyond", "profile", "own batch"}, far: {"device", "model", "own device"}}

// hidden is a group of points that is left out together.
type hidden struct {
	kind   string // count, beyond, device, model, profile, own batch, own device
	source string
	points []int
	scored []bool // which of the points count; nil: all
	weight float64
	hides  func(*point) bool // of any point, kept or not
}

// fitting holds the kept points of a fit and the groups to leave out.
type fitting struct {
	quantity Quantity
	index    *index
	known    map[string]device
	points   []point
	devices  []device
	hidden   []hidden
	y        []float64
	all      []point
	rough    *roughness
}

// newFitting keeps at most perCount points per source, model, GPU and count, drawn by the hash of their ids, and
// forms the groups to leave out: by GPU count, by device, by model, and by device except for one GPU.
func newFitting(entries []history.Entry, q Quantity, perCount int) *fitting {
	x := newIndex()
	f := &fitting{all: newGatherer(x, entries).gather(q)}
	f.quantity, f.index, f.known = q, x, knownDevices()
	id := func(p point) string { return entries[p.entries[0]].ID }
	drawn := slices.Clone(f.all)
	slices.SortFunc(drawn, func(a, b point) int { return cmp.Or(cmp.Compare(rank(id(a)), rank(id(b))), cmp.Compare(id(a), id(b))) })
	kept := map[string]int{}
	groups := map[string]*hidden{}
	for _, p := range drawn {
		source, _, _ := strings.Cut(id(p), "/")
		model := entries[p.entries[0]].Job.Model
		device, count := fmt.Sprint(model, "/", p.gpu), fmt.Sprint(model, "/", p.gpu, "/", math.Round(p.width*100))
		if kept[source+count]++; kept[source+count] > perCount {
			continue
		}
		n := len(f.points)
		f.points, f.y, f.devices = append(f.points, p), append(f.y, p.y), append(f.devices, f.known[p.gpu])
		for kind, name := range map[string]string{"count": count, "device": device, "model": model, "profile": device} {
			if kind == "profile" && p.width == 0 {
				continue
			}
			name = kind + " " + name
			if groups[name] == nil {
				groups[name] = &hidden{kind: kind, source: source, hides: func(q *point) bool {
					return q.trait.model == p.trait.model && (kind == "model" || q.gpu == p.gpu && (kind != "count" || q.width == p.width) && (kind != "profile" || q.width > 0))
				}}
			}
			groups[name].points = append(groups[name].points, n)
		}
	}
	f.addOwn(groups)
	f.weigh(groups)
	return f
}

// ownMeasurements is the number of measurements of a job that the groups of addOwn leave visible.
const ownMeasurements = 2

// addOwn adds the groups of jobs of a user's own: a whole model is hidden but for two measurements, and those at other
// batch sizes on the same GPUs, or on another GPU type, are scored. Points are in the order in which they were drawn.
func (f *fitting) addOwn(groups map[string]*hidden) {
	type key struct {
		kind, gpu            string
		model, source, count int // count: hundredths of octaves of GPUs
		octave               int // of the batch per GPU
		nodes                float64
	}
	asked := map[key][]int{}
	for i := range f.points {
		p := &f.points[i]
		if p.nodes == 0 && f.devices[i].known {
			k := key{kind: "own device", gpu: p.gpu, model: p.trait.dataset, source: p.source, octave: octave(p)}
			asked[k] = append(asked[k], i)
		}
		k := key{kind: "own batch", gpu: p.gpu, model: p.trait.dataset, source: p.source, count: int(math.Round(p.width * 100)), nodes: p.nodes}
		asked[k] = append(asked[k], i)
	}
	for k, points := range asked {
		own := points
		if k.kind == "own device" {
			own = nil
			for i := range f.points {
				if p := &f.points[i]; p.trait.dataset == k.model && p.source == k.source && p.gpu != k.gpu && octave(p) == k.octave && p.nodes == 0 && f.devices[i].known {
					own = append(own, i)
				}
			}
		}
		if len(own) < ownMeasurements || k.kind == "own batch" && len(own) == ownMeasurements {
			continue
		}
		own = own[:ownMeasurements]
		g := &hidden{kind: k.kind, source: fmt.Sprint(k.source), hides: func(q *point) bool {
			return q.trait.model == f.points[points[0]].trait.model && !slices.ContainsFunc(own, func(i int) bool { return f.points[i].entries[0] == q.entries[0] })
		}}
		for i := range f.points {
			if !g.hides(&f.points[i]) {
				continue
			}
			g.points, g.scored = append(g.points, i), append(g.scored, slices.Contains(points, i))
		}
		groups[fmt.Sprint(k)] = g
	}
}

// octave returns the batch per GPU rounded to octaves, 0 if unknown.
func octave(p *point) int {
	if math.IsNaN(p.batch) {
		return 0
	}
	return int(math.Round(p.batch))
}

// size returns the number of scored points.
func (g *hidden) size() (n int) {
	for i := range g.points {
		if g.scored == nil || g.scored[i] {
			n++
		}
	}
	return n
}

func rank(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

// weigh gives each kind its share of the score, and each source within it a weight of the root of its number of
// points.
func (f *fitting) weigh(groups map[string]*hidden) {
	total := map[string]float64{}
	for _, g := range groups {
		if g.kind == "count" && edge(f.points, g.points[0]) {
			g.kind = "beyond"
		}
		total[g.kind+g.source] += float64(g.size())
	}
	share := map[string]float64{"count": 0.25, "beyond": 0.2, "device": 0.1, "model": 0.07, "profile": 0.1, "own batch": 0.12, "own device": 0.16}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		g := *groups[n]
		g.weight = share[g.kind] / math.Sqrt(total[g.kind+g.source])
		f.hidden = append(f.hidden, g)
	}
}

// edge reports whether a point has the smallest or the largest GPU count of its model on its GPU.
func edge(points []point, i int) bool {
	p, below, above := &points[i], false, false
	for l := range points {
		if q := &points[l]; q.trait.model == p.trait.model && q.device == p.device {
			below, above = below || q.width < p.width, above || q.width > p.width
		}
	}
	return !below || !above
}

// leaveOut calls each with the residual and the predictive variance of every point of every hidden group. It inverts
// the covariance of all points once and obtains the groups from blocks of the inverse. It returns false if a matrix
// is not positive definite.
func (f *fitting) leaveOut(h *hyper, each func(g *hidden, point int, residual, variance float64)) bool {
	n := len(f.points)
	k := mat.NewSymDense(n, nil)
	jobs, devices := map[[2]int]jobPair{}, map[[2]int]devicePair{}
	r := mat.NewVecDense(n, nil)
	for i := range f.points {
		a := &f.points[i]
		r.SetVec(i, f.y[i]-h.mean(&a.place, f.devices[i]))
		rough := f.rough.of(&a.place)
		for l := i; l < n; l++ {
			b := &f.points[l]
			j, ok := jobs[[2]int{a.job, b.job}]
			if !ok {
				j = h.jobs(a.trait, b.trait)
				jobs[[2]int{a.job, b.job}] = j
			}
			d, ok := devices[[2]int{a.device, b.device}]
			if !ok {
				d = h.devices(f.devices[i], f.devices[l], a.device == b.device)
				devices[[2]int{a.device, b.device}] = d
			}
			v := h.covariance(&a.place, &b.place, j, d).total(rough)
			if i == l {
				v += h.noise(a) * sq(rough)
			}
			k.SetSym(i, l, v)
		}
	}
	var c mat.Cholesky
	if !c.Factorize(k) {
		return false
	}
	var inv mat.SymDense
	if c.InverseTo(&inv) != nil {
		return false
	}
	var alpha mat.VecDense
	alpha.MulVec(&inv, r)
	for gi := range f.hidden {
		g := &f.hidden[gi]
		m := len(g.points)
		a := mat.NewSymDense(m, nil)
		ag := mat.NewVecDense(m, nil)
		for i, pi := range g.points {
			ag.SetVec(i, alpha.AtVec(pi))
			for l := i; l < m; l++ {
				a.SetSym(i, l, inv.At(pi, g.points[l]))
			}
		}
		var ca mat.Cholesky
		if !ca.Factorize(a) {
			return false
		}
		var s mat.SymDense
		var res mat.VecDense
		if ca.InverseTo(&s) != nil || ca.SolveVecTo(&res, ag) != nil {
			return false
		}
		for i, pi := range g.points {
			if g.scored == nil || g.scored[i] {
				each(g, pi, res.AtVec(i), s.At(i, i))
			}
		}
	}
	return true
}

// roughen estimates the roughness of all groups for h.
func (f *fitting) roughen(h *hyper) {
	f.rough = h.roughness(f.all, func(name string) device { return f.known[name] })
}

// loss returns the weighted mean of the negative log density (Student, 5 degrees of freedom) of the hidden points of
// some kinds; +Inf if it cannot be evaluated.
func (f *fitting) loss(h *hyper, kinds []string) float64 {
	var sum, weight float64
	ok := f.leaveOut(h, func(g *hidden, _ int, r, v float64) {
		if slices.Contains(kinds, g.kind) {
			sum -= g.weight * logStudent(r, v)
			weight += g.weight
		}
	})
	if !ok || math.IsNaN(sum) || weight == 0 {
		return math.Inf(1)
	}
	return sum / weight
}

// assumed lists the hyper-parameters that are not fitted, since the tables do not determine them.
var assumed = []string{"Width", "ExactShare", "SourceJob", "SourceLevel", "GroupLevel", "Noise", "Single", "Memory", "MeanCompute", "MeanSingle", "MeanBandwidth"}

// shifted returns a parameter after one step, on the scale and within the bounds of that parameter.
func shifted(name string, x, step float64) float64 {
	switch {
	case name == "Mean" || name == "MeanHalf":
		return x + step
	case name == "MeanBatch": // doubling the batch at most doubles the time of a step
		return max(0, min(0.5, x+step))
	case name == "MeanParams": // the work grows at most in proportion to the parameters
		return max(-1, min(0, x+step))
	case name == "MeanCompute" || name == "MeanSingle" || name == "MeanBandwidth":
		return max(0, min(1, x+step))
	case strings.HasPrefix(name, "Mean"):
		return max(-0.5, min(0, x+step))
	case name == "ShapeGeneral" || name == "DeviceOwn" || name == "LossBatch":
		return 1 / (1 + (1/x-1)*math.Exp(-step))
	case strings.HasSuffix(name, "Length"):
		return min(20, x*math.Exp(step))
	}
	return x * math.Exp(step)
}

// search is a compass search over one parameter at a time, with adaptive steps; roughness is re-estimated after each
// round. A step that lowers the score grows by 1.4, one that fails in both directions shrinks by 0.45 and ends below
// 0.04. The best parameters of all rounds are kept, because re-estimating the roughness changes the score.
func (f *fitting) search(h *hyper, kinds []string, sweeps int, logf func(string, ...any)) {
	v := reflect.ValueOf(h).Elem()
	step := make([]float64, v.NumField())
	for i := range step {
		step[i] = 0.5
	}
	f.roughen(h)
	start := *h
	v0 := reflect.ValueOf(start)
	// Keep parameters that the tables hardly determine near their start.
	prior := func() (sum float64) {
		for i := range v.NumField() {
			a, b := v.Field(i).Float(), v0.Field(i).Float()
			if a == b {
				continue
			}
			if strings.HasPrefix(v.Type().Field(i).Name, "Mean") {
				sum += sq(a - b)
			} else {
				sum += sq(math.Log(a / b))
			}
		}
		return 0.004 * sum
	}
	score := func() float64 { return f.loss(h, kinds) + prior() }
	best := score()
	logf("start %.4f", best)
	least, winner := best, *h
	for sweep := range sweeps {
		moved := false
		for i := range step {
			if slices.Contains(assumed, v.Type().Field(i).Name) || step[i] < 0.04 {
				continue
			}
			name := v.Type().Field(i).Name
			old := v.Field(i).Float()
			try := func(s float64) bool {
				x := shifted(name, old, s)
				v.Field(i).SetFloat(x)
				l := score()
				if l < best-1e-5 {
					best = l
					return true
				}
				v.Field(i).SetFloat(old)
				return false
			}
			if try(step[i]) || try(-step[i]) {
				step[i] *= 1.4
				moved = true
			} else {
				step[i] *= 0.45
			}
		}
		logf("sweep %d: %.4f", sweep, best)
		f.roughen(h)
		if best = score(); best < least {
			least, winner = best, *h
		}
		if !moved {
			break
		}
	}
	*h = winner
	f.roughen(h)
	logf("best %.4f", least)
}

// initialHyper returns the start of a search: hyper-parameters of the right order of magnitude.
func initialHyper(q Quantity) hyper {
	h := hyper{
		Mean: 4, MeanParams: -0.8, MeanCompute: 0, MeanSingle: 0.5, MeanBandwidth: 0.5, MeanBatch: 0.1, MeanStart: -0.2, MeanWidth: -0.1,
		General: 0.3, JobLevel: 0.7, DeviceLevel: 0.3, JobDevice: 0.5, SourceLevel: 0.2, SourceJob: 0.15, GroupLevel: 0.1, DeviceSlope: 0.2, Single: 1, Tensor: 0.2, Memory: 0.3,
		BatchPace: 0.3, BatchSlope: 0.7, BatchCurve: 0.3, BatchDevice: 0.5, BatchGroup: 0.15, BatchLength: 4, BatchGroupLength: 2,
		LossPace: 0.2, LossLink: 0.2, LossWork: 0.1, LossSize: 0.1,
		LossGeneral: 0.02, LossCluster: 0.02, LossJob: 0.02, LossJobDevice: 0.02, LossGroup: 0.06,
		Start: 8, Smooth: 0.5, Nodes: 3, Step: 12, LossBatch: 0.9, LossBatchLength: 3,
		OddCluster: 0.01, OddGroup: 0.06, OddBatchLength: 2.5, Noise: 0.085,
		ExactShare: 0.5, DatasetShare: 0.2, ModelShare: 0.5, FamilyShare: 8, SizeLength: 1.5, ShapeGeneral: 0.5,
		DeviceOwn: 0.05, DeviceLength: 4, Width: 1,
	}
	if q == Trainings {
		h.Mean, h.MeanParams, h.MeanBatch, h.Noise, h.SourceJob, h.GroupLevel, h.ExactShare = -10, -1, 0, 0.046, 0.05, 0.05, 0.1
		h.Tensor, h.Memory = 1, 0
	}
	return h
}
