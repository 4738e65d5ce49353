package transfer

import (
	"cmp"
	"math"
	"slices"

	"trainopt/optimizer/history"
)

// rate reports whether a quantity is a speed, which the kernel models per GPU or CPU.
func (q Quantity) rate() bool { return q == Throughput || q == UnitRate || q == Trainings }

// overhead reports whether a quantity is a time that the framework determines rather than the model.
func (q Quantity) overhead() bool { return q == startup || q == restart }

// observed returns the value of a quantity in an entry; NaN if unknown.
func (q Quantity) observed(e *history.Entry) float64 {
	v := math.NaN()
	switch q {
	case Throughput:
		v = e.Throughput
		if math.IsNaN(v) && e.Unit == "step" {
			v = e.Observed.Batch / e.UnitTime
		}
	case UnitRate:
		v = 1 / e.UnitTime
	case Trainings:
		finished := e.Kind == history.Table || e.Kind == history.Run && e.State == "done"
		if finished && math.IsNaN(e.Throughput) {
			v = 1 / e.Seconds
		}
	case HostMemory:
		v = e.PeakMemoryGiB
	case GPUMemory:
		v = e.GPUMemoryGiB
	case startup:
		v = e.Startup
	case restart:
		v = e.Restart
	}
	if !(v > 0) || math.IsInf(v, 0) {
		return math.NaN()
	}
	return v
}

// ran returns the configuration of an entry: the observed one, completed by the requested one.
func ran(e *history.Entry) history.Config {
	c, r := e.Observed, e.Requested
	if math.IsNaN(c.GPUs) {
		c.GPUs = r.GPUs
	}
	if c.GPU == "" {
		c.GPU = r.GPU
	}
	if math.IsNaN(c.CPUs) {
		c.CPUs = r.CPUs
	}
	if math.IsNaN(c.Batch) {
		c.Batch = r.Batch
	}
	if c.Nodes == 0 {
		c.Nodes = r.Nodes
	}
	if c.Machine == "" {
		c.Machine = r.Machine
	}
	return c
}

// site is the origin of a measurement: one publication, or one machine of the user's ("" without a name). Different
// units are treated as different sites.
type site struct {
	own        bool
	name, unit string
}

func siteOf(e *history.Entry, unit string) site {
	if e.Kind == history.Table {
		return site{name: e.Source, unit: unit}
	}
	return site{own: true, name: ran(e).Machine, unit: unit}
}

// traits returns the features of the jobs of all entries.
func (x *index) traits(entries []history.Entry) []trait {
	type key struct {
		script, hash, model, dataset, family, framework string
		size                                            [sizes]uint64
	}
	first := make([]int, len(entries)) // entry with the same job
	seen := map[key]int{}
	for i := range entries {
		j := &entries[i].Job
		k := key{j.Script, j.ScriptSHA256, j.Model, j.Dataset, j.Family, j.Framework,
			[sizes]uint64{math.Float64bits(j.Params), math.Float64bits(j.Layers), math.Float64bits(j.DataCount), math.Float64bits(j.DataSizeMB)}}
		at, ok := seen[k]
		if !ok {
			at, seen[k] = i, i
			x.learnModel(*j)
		}
		first[i] = at
	}
	out := make([]trait, len(entries))
	for i, at := range first {
		if out[i] = out[at]; at == i {
			out[i] = x.trait(entries[i].Job)
		}
	}
	return out
}

// gatherer derives the points of several quantities from the same entries. Most entries have several quantities: what
// does not depend on the quantity is computed once.
type gatherer struct {
	index   *index
	entries []history.Entry
	traits  []trait
	numbers []int    // 0…n−1, whose parts are the entries of points
	placed  []placed // of each entry outside a unit
	order   []int    // entries in the order of the points of the last quantity
	points  []point  // memory for those of one quantity, before they are merged
}

// placed is the place of an entry; usable is false without a known width, or with neither data set nor family.
type placed struct {
	place         place
	known, usable bool
}

func newGatherer(x *index, entries []history.Entry) *gatherer {
	g := &gatherer{index: x, entries: entries, traits: x.traits(entries), numbers: make([]int, len(entries)), placed: make([]placed, len(entries))}
	for i := range g.numbers {
		g.numbers[i] = i
	}
	return g
}

// gather returns the merged points of the entries that have a quantity. It also registers their machines and sources.
// Entries without a known width, or with neither data set nor family, are skipped.
func (g *gatherer) gather(q Quantity) []point {
	if g.points == nil {
		g.points = make([]point, 0, len(g.entries))
	}
	out := g.points[:0]
	for i := range g.entries {
		e := &g.entries[i]
		v := q.observed(e)
		if math.IsNaN(v) {
			continue
		}
		unit, at := "", &g.placed[i]
		if q == UnitRate && e.Unit != "" {
			unit, at = e.Unit, new(placed)
		}
		if !at.known {
			g.place(i, unit, at)
		}
		if !at.usable {
			continue
		}
		y := math.Log(v)
		if q.rate() {
			y -= at.place.width * math.Ln2
		}
		out = append(out, point{place: at.place, y: y, count: 1, scatter: scatter(e), entries: g.numbers[i : i+1 : i+1], unit: unit})
	}
	return g.merge(out)
}

// place computes the place of an entry, and registers its machine and source.
func (g *gatherer) place(i int, unit string, at *placed) {
	e := &g.entries[i]
	c, s := ran(e), siteOf(e, unit)
	at.known = true
	at.place, at.usable = g.index.place(g.traits[i], c, s)
	if at.usable = at.usable && (at.place.trait.dataset != 0 || at.place.trait.family != 0); !at.usable {
		return
	}
	for _, name := range []string{c.Machine, e.Source} {
		if k := name + "\x00" + unit; name != "" && g.index.machines[k] == (site{}) {
			g.index.machines[k] = s
		}
	}
}

// merge replaces equal places by one point, their median, so that repetitions add no cost and an outlier has no
// effect. Points are given in the order of their entries. Sorting starts from the order of the previous quantity,
// which is usually the same.
func (g *gatherer) merge(points []point) []point {
	at := make([]int, len(g.entries)) // 1 + position of the point of an entry
	for i := range points {
		at[points[i].entries[0]] = 1 + i
	}
	order := make([]int, 0, len(points))
	for _, list := range [][]int{g.order, g.numbers} {
		for _, e := range list {
			if at[e] > 0 {
				order, at[e] = append(order, at[e]-1), 0
			}
		}
	}
	slices.SortFunc(order, func(a, b int) int { // indices: a point is large to move
		return cmp.Or(comparePlaces(&points[a].place, &points[b].place), cmp.Compare(a, b))
	})
	distinct := 0
	for i, n := range order {
		if i == 0 || !points[n].beside(&points[order[i-1]].place) {
			distinct++
		}
	}
	out, equal := make([]point, 0, distinct), []point(nil)
	for from := 0; from < len(order); {
		first := &points[order[from]]
		equal = append(equal[:0], *first)
		for from++; from < len(order); from++ {
			p := &points[order[from]]
			if p.job != first.job || !p.beside(&first.place) {
				break
			}
			equal = append(equal, *p)
		}
		out = append(out, middle(equal))
	}
	for i, from := range order {
		order[i] = points[from].entries[0]
	}
	g.order = order
	return out
}

// scatter returns the variance of the mean of an entry's units, relative; 0 if unknown.
func scatter(e *history.Entry) float64 {
	if v := e.UnitSpread * e.UnitSpread / e.UnitCount; v > 0 && v < 1 {
		return v
	}
	return 0
}
