package metis

import (
	"cmp"
	"math"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// view is a run with derived values required by all formats.
type view struct {
	*Report
	worth     place.Metrics
	predicted place.Metrics // by Told; MeanRPS is NaN without Told
	names     []string      // of the apps
	groups    []group       // by type, then by descending number of nodes; empty nodes last
	groupOf   []int         // index in groups by node
	apps      []app
}

// group is the set of nodes of a type with equal content.
type group struct {
	kind, pattern int
	counts        []uint8
	nodes         int
	size, served  int
	rps           float64 // sum over the containers of one node
	missed        float64
}

// app is the total of all containers of an app.
type app struct {
	name               string
	containers, served int
	rps                float64 // sum
}

func (a *app) mean() float64  { return ratio(a.rps, a.containers) }
func (a *app) share() float64 { return ratio(float64(a.served), a.containers) }

// newView evaluates the placement, with the measured and, if different, the predicted throughputs, and computes the
// groups and the totals by app.
func newView(r *Report) (*view, error) {
	v := &view{Report: r, predicted: place.Metrics{MeanRPS: math.NaN()}}
	var err error
	if v.worth, err = r.Problem.Evaluate(r.Placement); err != nil {
		return nil, err
	}
	if r.Told != nil {
		if v.predicted, err = r.Told.Evaluate(r.Placement); err != nil {
			return nil, err
		}
	}
	v.names = r.Problem.Types[0].Table.Apps()
	v.group()
	for _, name := range v.names {
		v.apps = append(v.apps, app{name: name})
	}
	for _, g := range v.groups {
		for a, k := range g.counts {
			rps := r.Problem.Types[g.kind].Table.RPS(g.pattern)[a]
			n := int(k) * g.nodes
			v.apps[a].containers += n
			if k > 0 {
				v.apps[a].rps += float64(n) * rps
			}
			if rps >= r.Problem.Threshold() {
				v.apps[a].served += n
			}
		}
	}
	return v, nil
}

// group groups nodes of equal type and content.
func (v *view) group() {
	type key struct{ kind, pattern int }
	at := map[key]int{}
	keys := make([]key, len(v.Placement))
	for n, kind := range v.Problem.TypeOf() {
		t := v.Problem.Types[kind].Table
		k := key{kind, t.Index(v.Placement[n])}
		keys[n] = k
		i, ok := at[k]
		if !ok {
			g := group{kind: kind, pattern: k.pattern, counts: t.Counts(k.pattern), rps: t.Throughput(k.pattern), served: v.Problem.Served(t, k.pattern)}
			for _, c := range g.counts {
				g.size += int(c)
			}
			g.missed, _ = v.Problem.Violation(g.counts)
			i = len(v.groups)
			v.groups, at[k] = append(v.groups, g), i
		}
		v.groups[i].nodes++
	}
	slices.SortFunc(v.groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(min(b.size, 1), min(a.size, 1)), cmp.Compare(b.nodes, a.nodes), cmp.Compare(a.pattern, b.pattern))
	})
	for i, g := range v.groups {
		at[key{g.kind, g.pattern}] = i
	}
	for _, k := range keys {
		v.groupOf = append(v.groupOf, at[k])
	}
}
