package metis

import (
	"context"
	"testing"

	"trainopt/optimizer/schedule/place"
)

func solveExact(t testing.TB, p *place.Problem, o place.Objective, l place.Limits, s place.ExactSettings) (place.Solution, place.Metrics) {
	t.Helper()
	found, err := place.Exact(context.Background(), p, o, l, s)
	if err != nil {
		t.Fatal(err)
	}
	return found, worthOf(t, p, found.Placement)
}

// Per batch, the results of HiGHS with a gap of 0.0001 for RPS, for each SLO and for Medea's objective, and the bound
// of its linear relaxation. Where the reference omitted patterns, it may be below ours.
func TestReferenceResults(t *testing.T) {
	for method, check := range map[string]func(p *place.Problem, r publishedResult){
		"lp_bound": func(p *place.Problem, r publishedResult) {
			if s, _ := solveExact(t, p, place.Objective{}, place.Limits{}, place.ExactSettings{Branches: -1}); s.Bound > r.RPS+2e-6 {
				t.Errorf("%+v: bound %v is above the relaxation's", r, s.Bound)
			}
		},
		"ilp_truth": func(p *place.Problem, r publishedResult) {
			s, _ := solveExact(t, p, place.Objective{}, place.Limits{}, place.ExactSettings{})
			if s.Bound < r.RPS-1e-6 {
				t.Errorf("%+v: bound %v is below what was found", r, s.Bound)
			}
			if s.Gap > 0.001 || s.Value < r.RPS*(1-0.001) {
				t.Errorf("%+v: got %v, gap %v", r, s.Value, s.Gap)
			}
		},
		"medea": func(p *place.Problem, r publishedResult) {
			s, w := solveExact(t, p, place.Objective{Missed: 1}, place.Limits{}, place.ExactSettings{})
			if w.Magnitude != r.Magnitude || s.Bound != s.Value {
				t.Errorf("%+v: got %v, bound %v", r, w.Magnitude, s.Bound)
			}
		},
		"slo90":  func(p *place.Problem, r publishedResult) { served(t, p, r.Size, 0.9, r.SLO90) },
		"slo95":  func(p *place.Problem, r publishedResult) { served(t, p, r.Size, 0.95, r.SLO95) },
		"slo100": func(p *place.Problem, r publishedResult) { served(t, p, r.Size, 1, r.SLO100) },
	} {
		for _, r := range publishedResults(t, method) {
			check(metisProblem(t, r.Size, r.Nodes, r.Group), r)
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
	s, w := solveExact(t, p, place.Objective{SLO: 1}, place.Limits{}, place.ExactSettings{Branches: 100})
	if w.SLOShare < share-1.5/float64(size) || s.Bound < share-1e-6 {
		t.Errorf("%d containers, SLO %v: got %v, bound %v, want %v", size, slo, w.SLOShare, s.Bound, share)
	}
}
