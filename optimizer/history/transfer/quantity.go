package transfer

import (
	"math"

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
	for i := range entries {
		x.learnModel(entries[i].Job)
	}
	out := make([]trait, len(entries))
	for i := range entries {
		out[i] = x.trait(entries[i].Job)
	}
	return out
}

// gather returns the merged points of the entries that have a quantity. It also registers their machines and sources.
// Entries without a known width, or with neither data set nor family, are skipped.
func gather(x *index, entries []history.Entry, traits []trait, q Quantity) []point {
	var out []point
	for i := range entries {
		e := &entries[i]
		v := q.observed(e)
		if math.IsNaN(v) {
			continue
		}
		unit := ""
		if q == UnitRate {
			unit = e.Unit
		}
		s := siteOf(e, unit)
		p, ok := x.place(traits[i], ran(e), s)
		if !ok || p.trait.dataset == 0 && p.trait.family == 0 {
			continue
		}
		y := math.Log(v)
		if q.rate() {
			y -= p.width * math.Ln2
		}
		out = append(out, point{place: p, y: y, count: 1, scatter: scatter(e), entries: []int{i}, unit: unit})
		for _, name := range []string{ran(e).Machine, e.Source} {
			if k := name + "\x00" + unit; name != "" && x.machines[k] == (site{}) {
				x.machines[k] = s
			}
		}
	}
	return merge(out)
}

// scatter returns the variance of the mean of an entry's units, relative; 0 if unknown.
func scatter(e *history.Entry) float64 {
	if v := e.UnitSpread * e.UnitSpread / e.UnitCount; v > 0 && v < 1 {
		return v
	}
	return 0
}
