package transfer

import (
	"cmp"
	"flag"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gonum.org/v1/gonum/mat"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/measured"
)

var (
	fitQuantity = flag.String("fit", "", "fit the hyper-parameters of this quantity on the tables and print them")
	fitData     = flag.String("data", "../../../../shared/data", "folder with the tables")
	fitTime     = flag.Duration("fit-time", 3*time.Minute, "how long to search")
	fitPoints   = flag.Int("fit-points", 2, "points kept of one GPU count of one model on one GPU")
)

// TestFit is no test: it prints hyper-parameters. Run it as
//
//	go test ./optimizer/history/transfer -run TestFit -fit throughput -fit-time 5m -timeout 1h -v
func TestFit(t *testing.T) {
	if *fitQuantity == "" {
		t.Skip("asked for by -fit only")
	}
	entries, err := measured.Load(*fitData)
	if err != nil {
		t.Fatal(err)
	}
	q := Quantity(*fitQuantity)
	f := newFitting(entries, q)
	h := hypers[q]
	t.Logf("%d points, %d hidden groups", len(f.points), len(f.hidden))
	f.search(&h, time.Now().Add(*fitTime), t.Logf)
	v := reflect.ValueOf(h)
	for i := range v.NumField() {
		fmt.Printf("\t\t%s: %.3g,\n", v.Type().Field(i).Name, v.Field(i).Float())
	}
}

type hidden struct {
	kind   string // count, beyond, device, model, profile
	source string
	points []int
	weight float64
}

type fitting struct {
	points  []point
	devices []device
	hidden  []hidden
	y       []float64
	all     []point
	rough   map[int]float64
}

func newFitting(entries []history.Entry, q Quantity) *fitting {
	x := newIndex()
	f := &fitting{all: gather(x, entries, x.traits(entries), q)}
	id := func(p point) string { return entries[p.entries[0]].ID }
	drawn := slices.Clone(f.all)
	slices.SortFunc(drawn, func(a, b point) int { return cmp.Or(cmp.Compare(rank(id(a)), rank(id(b))), cmp.Compare(id(a), id(b))) })
	peaks := measured.Devices()
	kept := map[string]int{}
	groups := map[string]*hidden{}
	for _, p := range drawn {
		source, _, _ := strings.Cut(id(p), "/")
		model := entries[p.entries[0]].Job.Model
		device, count := fmt.Sprint(model, "/", p.gpu), fmt.Sprint(model, "/", p.gpu, "/", math.Round(p.width*100))
		if kept[source+count]++; kept[source+count] > *fitPoints {
			continue
		}
		n := len(f.points)
		f.points, f.y, f.devices = append(f.points, p), append(f.y, p.y), append(f.devices, newDevice(p.gpu, peaks))
		for kind, name := range map[string]string{"count": count, "device": device, "model": model, "profile": device} {
			if kind == "profile" && p.width == 0 {
				continue
			}
			name = kind + " " + name
			if groups[name] == nil {
				groups[name] = &hidden{kind: kind, source: source}
			}
			groups[name].points = append(groups[name].points, n)
		}
	}
	f.weigh(groups)
	return f
}

func rank(s string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(s))
	return h.Sum32()
}

// weigh gives each kind its share of the score, and within it each source the root of its number of points.
func (f *fitting) weigh(groups map[string]*hidden) {
	total := map[string]float64{}
	for _, g := range groups {
		if g.kind == "count" && edge(f.points, g.points[0]) {
			g.kind = "beyond"
		}
		total[g.kind+g.source] += float64(len(g.points))
	}
	share := map[string]float64{"count": 0.35, "beyond": 0.3, "device": 0.15, "model": 0.05, "profile": 0.15}
	for _, n := range slices.Sorted(maps.Keys(groups)) {
		g := *groups[n]
		g.weight = share[g.kind] / math.Sqrt(total[g.kind+g.source])
		f.hidden = append(f.hidden, g)
	}
}

// edge reports whether a point is of the smallest or the largest GPU count of its model on its GPU.
func edge(points []point, i int) bool {
	p, below, above := &points[i], false, false
	for l := range points {
		if q := &points[l]; q.trait.model == p.trait.model && q.device == p.device {
			below, above = below || q.width < p.width, above || q.width > p.width
		}
	}
	return !below || !above
}

// leaveOut calls with the residual and the predictive variance of each point of each hidden group.
func (f *fitting) leaveOut(h *hyper, each func(g *hidden, point int, residual, variance float64)) bool {
	n := len(f.points)
	k := mat.NewSymDense(n, nil)
	jobs := map[[2]int]jobPair{}
	r := mat.NewVecDense(n, nil)
	for i := range f.points {
		a := &f.points[i]
		r.SetVec(i, f.y[i]-h.mean(&a.place, f.devices[i]))
		for l := i; l < n; l++ {
			b := &f.points[l]
			j, ok := jobs[[2]int{a.job, b.job}]
			if !ok {
				j = h.jobs(a.trait, b.trait)
				jobs[[2]int{a.job, b.job}] = j
			}
			v := h.covariance(&a.place, &b.place, j, h.devices(f.devices[i], f.devices[l], a.device == b.device)).total(f.rough[a.group])
			if i == l {
				v += h.noise(a) * sq(f.rough[a.group])
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
			each(g, pi, res.AtVec(i), s.At(i, i))
		}
	}
	return true
}

func (f *fitting) roughen(h *hyper) {
	peaks := measured.Devices()
	f.rough, _ = h.roughness(f.all, func(name string) device { return newDevice(name, peaks) })
}

// loss is the weighted mean of minus the log density (Student, 5 degrees of freedom) of what is hidden.
func (f *fitting) loss(h *hyper) float64 {
	var sum, weight float64
	ok := f.leaveOut(h, func(g *hidden, _ int, r, v float64) {
		sum -= g.weight * logStudent(r, v)
		weight += g.weight
	})
	if !ok || math.IsNaN(sum) {
		return math.Inf(1)
	}
	return sum / weight
}

// assumed are not fitted: the tables cannot tell them.
var assumed = []string{"Width", "ExactShare", "SourceJob", "SourceLevel", "GroupLevel", "Noise", "MeanCompute", "MeanBandwidth"}

// shifted is a parameter one step away, on the scale and within the bounds that suit it.
func shifted(name string, x, step float64) float64 {
	switch {
	case name == "Mean":
		return x + step
	case name == "MeanBatch": // a step of twice the batch takes up to twice the time
		return max(0, min(0.5, x+step))
	case name == "MeanParams": // at most as much more work as there are parameters
		return max(-1, min(0, x+step))
	case strings.HasPrefix(name, "Mean"):
		return max(-0.5, min(0, x+step))
	case name == "ShapeGeneral" || name == "DeviceOwn" || name == "LossBatch":
		return 1 / (1 + (1/x-1)*math.Exp(-step))
	case strings.HasSuffix(name, "Length"):
		return min(20, x*math.Exp(step))
	}
	return x * math.Exp(step)
}

// search is a compass search, one parameter at a time, with steps that grow and shrink; after each round roughness is learned
// anew.
func (f *fitting) search(h *hyper, until time.Time, logf func(string, ...any)) {
	v := reflect.ValueOf(h).Elem()
	step := make([]float64, v.NumField())
	for i := range step {
		step[i] = 0.5
	}
	f.roughen(h)
	start := *h
	v0 := reflect.ValueOf(start)
	// Where the tables say little a parameter stays where it was put.
	prior := func() (sum float64) {
		for i := range v.NumField() {
			a, b := v.Field(i).Float(), v0.Field(i).Float()
			if strings.HasPrefix(v.Type().Field(i).Name, "Mean") {
				sum += sq(a - b)
			} else {
				sum += sq(math.Log(a / b))
			}
		}
		return 0.002 * sum
	}
	score := func() float64 { return f.loss(h) + prior() }
	best := score()
	logf("start %.4f", best)
	least, winner := best, *h
	for sweep := 0; time.Now().Before(until); sweep++ {
		moved := false
		for i := range step {
			if slices.Contains(assumed, v.Type().Field(i).Name) || step[i] < 0.04 || time.Now().After(until) {
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
