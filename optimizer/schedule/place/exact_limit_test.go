package place

import (
	"context"
	"testing"

	"pgregory.net/rapid"
)

// Limits at their tightest feasible value are satisfied with default settings: lowest violation, highest share
// served, lowest cost and fewest nodes, on clusters too large for enumeration.
func TestTightestLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, o := drawProblem(t), drawObjective(t)
		factor := rapid.IntRange(1, 8).Draw(t, "factor")
		for i := range p.Types {
			p.Types[i].Count *= factor
		}
		for a := range p.Batch {
			p.Batch[a] *= factor
		}
		existing := p.Existing
		for range factor - 1 {
			p.Existing = append(p.Existing, existing...)
		}
		if p.Existing != nil && p.Validate() != nil {
			p.Existing = nil // the rows belong to nodes of other types now
		}
		for name, of := range map[string]struct {
			o     Objective
			limit func(w Metrics) Limits
		}{
			"missed": {Objective{Missed: 1}, func(w Metrics) Limits { return Limits{MaxViolation: &w.Magnitude} }},
			"share": {Objective{SLO: 1}, func(w Metrics) Limits {
				if w.SLOShare > 0 {
					return Limits{SLOShare: w.SLOShare}
				}
				return Limits{}
			}},
			"nodes": {Objective{Vacant: 1}, func(w Metrics) Limits { return Limits{Nodes: w.NodesUsed} }},
			"cost":  {Objective{Cost: 1}, func(w Metrics) Limits { return Limits{Cost: w.Cost} }},
		} {
			s, err := Exact(context.Background(), p, of.o, Limits{}, ExactSettings{Gap: -1})
			if err != nil {
				t.Fatal(err)
			}
			w, err := p.Evaluate(s.Placement)
			if err != nil {
				t.Fatal(err)
			}
			l := of.limit(w)
			kept, err := Exact(context.Background(), p, o, l, ExactSettings{})
			if err != nil {
				t.Fatalf("%s: %+v can be kept: %v", name, w, err)
			}
			if w, err = p.Evaluate(kept.Placement); err != nil || l.Check(w) != nil {
				t.Fatalf("%s: %v, %v", name, err, l.Check(w))
			}
		}
	})
}

// The minimum violation as a limit, on a cluster where rounding and 2,000 branches alone find no feasible placement.
func TestLeastMissedAsBudget(t *testing.T) {
	p := metisProblem(t, 400, 81, 16)
	least, _ := solve(t, p, Objective{Missed: 1}, Limits{}, ExactSettings{Gap: -1})
	budget := -least.Value
	s, w := solve(t, p, Objective{}, Limits{MaxViolation: &budget}, ExactSettings{Branches: 500})
	if w.Magnitude > budget || s.Gap > 0.02 {
		t.Errorf("%+v, gap %v; at most %v missed", w, s.Gap, budget)
	}
}
