package place

import (
	"context"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// The proven value does not depend on the order of node types and nodes.
func TestOrderOfNodes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := drawProblem(t), drawObjective(t)
		q := &Problem{Batch: p.Batch, Constraints: p.Constraints, SLO: p.SLO}
		first := 0
		for _, k := range p.Types {
			q.Types = append([]NodeType{k}, q.Types...)
			if p.Existing != nil {
				nodes := slices.Clone(p.Existing[first : first+k.Count])
				slices.Reverse(nodes)
				q.Existing = append(nodes, q.Existing...)
			}
			first += k.Count
		}
		all := ExactSettings{Gap: -1, Branches: 100_000}
		a, err := Exact(context.Background(), p, o, Limits{}, all)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Exact(context.Background(), q, o, Limits{}, all)
		if err != nil {
			t.Fatal(err)
		}
		if d := a.Value - b.Value; d > 1e-9 || d < -1e-9 {
			t.Fatalf("%v, the other way round %v", a, b)
		}
	})
}

// Two node types with different existing load on each: every bound holds and the placement is close to it.
func TestLoadedClusterOfTwoTypes(t *testing.T) {
	slow, err := NewTable(MetisApps(), 8, func(counts []uint8, rps []float64) {
		m := MetisTable()
		copy(rps, m.RPS(m.Index(counts)))
		for i := range rps {
			rps[i] *= 0.8
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	p := metisProblem(t, 200, 81, 1)
	p.Types = []NodeType{{Count: 50, Table: MetisTable(), Cost: 3}, {Count: 31, Table: slow, Cost: 1}}
	for n := range 81 {
		row := make([]uint8, 7)
		row[n%7], row[n*n%7] = uint8(n%3), uint8(n%2)
		p.Existing = append(p.Existing, row)
	}
	for name, o := range map[string]Objective{"rps": {}, "cost": {RPS: 1, Cost: 0.001}, "mixed": {RPS: 1, SLO: 1, Missed: 0.001}} {
		s, w := solve(t, p, o, Limits{}, ExactSettings{Branches: 300})
		t.Logf("%s: value %v, gap %.2g, %+v, %v", name, s.Value, s.Gap, w, s.Notes)
		if s.Gap > 0.002 {
			t.Errorf("%s: value %v, bound %v", name, s.Value, s.Bound)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := Exact(ctx, metisProblem(t, 200, 81, 0), Objective{}, Limits{}, ExactSettings{}); err != context.Canceled {
		t.Errorf("got %v", err)
	}
}
