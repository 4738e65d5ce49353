package exact

import (
	"context"
	"errors"
	"math"
	"testing"

	"trainopt/optimizer/schedule/place"
	"trainopt/optimizer/schedule/place/placetest"
)

func solve(t testing.TB, p *place.Problem, o place.Objective, l place.Limits, s Settings) (place.Solution, place.Metrics) {
	t.Helper()
	found, err := Solve(context.Background(), p, o, l, s)
	if err != nil {
		t.Fatal(err)
	}
	return found, placetest.Worth(t, p, found.Placement)
}

// Two containers of each service on six nodes: Medea's placement has 0.94 with 4 violations, Metis's 1.17 with 6
// (table I of the paper: 0.93 and 1.16); the optimum is 1.2214 with 3, and the lowest magnitude is 4.
func TestSixNodes(t *testing.T) {
	p := placetest.SixNodes()
	s, w := solve(t, p, place.Objective{}, place.Limits{}, Settings{Gap: -1, Branches: 20_000})
	if math.Abs(w.MeanRPS-1.2214) > 5e-5 || w.Instances != 3 || s.Gap > 1e-6 {
		t.Errorf("got %+v with a gap of %v, want 1.2214 with 3 violated, proven", w, s.Gap)
	}
	least, _ := solve(t, p, place.Objective{Missed: 1}, place.Limits{}, Settings{})
	budget := -least.Value
	best, w := solve(t, p, place.Objective{}, place.Limits{MaxViolation: &budget}, Settings{})
	if budget != 4 || w.Magnitude > budget || w.MeanRPS > s.Value || best.Value < 0.98 {
		t.Errorf("at most %v missed: got %+v", budget, w)
	}
}

// Per batch, the results of HiGHS with a gap of 0.0001 for RPS, for each SLO and for Medea's objective, and the bound
// of its linear relaxation. Where the reference omitted patterns, it may be below ours.
func TestReferenceResults(t *testing.T) {
	for method, check := range map[string]func(p *place.Problem, r placetest.Result){
		"lp_bound": func(p *place.Problem, r placetest.Result) {
			if s, _ := solve(t, p, place.Objective{}, place.Limits{}, Settings{Branches: -1}); s.Bound > r.RPS+2e-6 {
				t.Errorf("%+v: bound %v is above the relaxation's", r, s.Bound)
			}
		},
		"ilp_truth": func(p *place.Problem, r placetest.Result) {
			s, _ := solve(t, p, place.Objective{}, place.Limits{}, Settings{})
			if s.Bound < r.RPS-1e-6 {
				t.Errorf("%+v: bound %v is below what was found", r, s.Bound)
			}
			if s.Gap > 0.001 || s.Value < r.RPS*(1-0.001) {
				t.Errorf("%+v: got %v, gap %v", r, s.Value, s.Gap)
			}
		},
		"medea": func(p *place.Problem, r placetest.Result) {
			s, w := solve(t, p, place.Objective{Missed: 1}, place.Limits{}, Settings{})
			if w.Magnitude != r.Magnitude || s.Bound != s.Value {
				t.Errorf("%+v: got %v, bound %v", r, w.Magnitude, s.Bound)
			}
		},
		"slo90":  func(p *place.Problem, r placetest.Result) { served(t, p, r.Size, 0.9, r.SLO90) },
		"slo95":  func(p *place.Problem, r placetest.Result) { served(t, p, r.Size, 0.95, r.SLO95) },
		"slo100": func(p *place.Problem, r placetest.Result) { served(t, p, r.Size, 1, r.SLO100) },
	} {
		for _, r := range placetest.Results(t, method) {
			check(placetest.Metis(t, r.Size, r.Nodes, r.Group), r)
		}
	}
}

// served compares the share of containers served with the reference, to within one and a half containers.
func served(t *testing.T, p *place.Problem, size int, slo, share float64) {
	t.Helper()
	if size > 300 {
		return // slow
	}
	p.SLO = slo
	s, w := solve(t, p, place.Objective{SLO: 1}, place.Limits{}, Settings{Branches: 100})
	if w.SLOShare < share-1.5/float64(size) || s.Bound < share-1e-6 {
		t.Errorf("%d containers, SLO %v: got %v, bound %v, want %v", size, slo, w.SLOShare, s.Bound, share)
	}
}

// Every limit is satisfied, and the value does not exceed the bound without it.
func TestLimits(t *testing.T) {
	p := placetest.Metis(t, 200, 81, 0)
	p.Types[0].Cost = 2
	free, loose := solve(t, p, place.Objective{}, place.Limits{}, Settings{})
	missed, none := 80.0, 0.0
	for name, l := range map[string]place.Limits{
		"missed": {MaxViolation: &missed}, "share": {SLOShare: 0.8}, "nodes": {Nodes: 60}, "cost": {Cost: 110},
		"all": {MaxViolation: &missed, SLOShare: 0.6, Nodes: 75, Cost: 152},
	} {
		t.Run(name, func(t *testing.T) {
			s, w := solve(t, p, place.Objective{}, l, Settings{})
			if err := l.Check(w); err != nil || l.Check(loose) == nil {
				t.Errorf("%v; without the limit %v", err, l.Check(loose))
			}
			if s.Value > free.Bound || s.Gap > 0.01 {
				t.Errorf("value %v, gap %v; without the limit at most %v", s.Value, s.Gap, free.Bound)
			}
			t.Logf("%+v, gap %.2g, %v", w, s.Gap, s.Notes)
		})
	}
	for name, l := range map[string]place.Limits{"no node": {Cost: 1}, "too few nodes": {Nodes: 24}, "nothing missed": {MaxViolation: &none}} {
		if _, err := Solve(context.Background(), p, place.Objective{}, l, Settings{}); !errors.Is(err, place.ErrInfeasible) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Mean optima of the batches; the published medians of Metis are 1.162, 1.092 and 1.028 (8 minutes).
func TestMeanOfGroups(t *testing.T) {
	for _, c := range []struct {
		size, nodes, groups int
		want                float64
	}{{200, 81, 30, 1.233}, {300, 81, 30, 1.188}, {400, 81, 30, 1.153}, {1000, 729, 5, 1.2505}, {2000, 729, 5, 1.2164}} {
		sum, worst := 0.0, 0.0
		for group := range c.groups {
			s, _ := solve(t, placetest.Metis(t, c.size, c.nodes, group), place.Objective{}, place.Limits{}, Settings{})
			sum, worst = sum+s.Value, max(worst, s.Gap)
		}
		mean := sum / float64(c.groups)
		t.Logf("%d containers on %d nodes: mean RPS %.5f of %d groups, gap at most %.2g", c.size, c.nodes, mean, c.groups, worst)
		if mean < c.want*(1-0.0005) || worst > 0.0011 {
			t.Errorf("%d containers: mean RPS %v, want %v; gap up to %v", c.size, mean, c.want, worst)
		}
	}
}

// A search on too few patterns does not report its result as the optimum.
func TestBoundOfFewPatterns(t *testing.T) {
	p := placetest.Metis(t, 200, 81, 1)
	best, _ := solve(t, p, place.Objective{}, place.Limits{}, Settings{})
	few, _ := solve(t, p, place.Objective{}, place.Limits{}, Settings{Columns: 1})
	if few.Value >= best.Value || few.Bound < best.Value {
		t.Errorf("value %v, bound %v; with all patterns %v", few.Value, few.Bound, best.Value)
	}
}
