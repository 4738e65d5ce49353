package plan

import (
	"math"
	"testing"

	"trainopt/sla"
)

// TestSelect checks the rule shared by plans, fronts and predictions, case by case.
func TestSelect(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		points [][3]float64
		prefer Preference
		want   int
	}{
		"nothing":                          {nil, Preference{Time: 1}, -1},
		"the fastest":                      {[][3]float64{{1, 9, 9}, {5, 5, 5}, {9, 1, 1}}, Preference{Time: 1}, 0},
		"the cheapest":                     {[][3]float64{{1, 9, 9}, {5, 5, 5}, {9, 1, 1}}, Preference{Cost: 1}, 2},
		"the knee":                         {[][3]float64{{1, 9, 0}, {2, 2, 0}, {9, 1, 0}}, Preference{Time: 0.5, Cost: 0.5}, 1},
		"as fast within 1 %: cheaper":      {[][3]float64{{1, 9, 1}, {1.009, 5, 1}}, Preference{Time: 1}, 1},
		"slower by more than that":         {[][3]float64{{1, 9, 1}, {1.02, 5, 1}}, Preference{Time: 1}, 0},
		"as cheap within 1 %: faster":      {[][3]float64{{9, 1, 1}, {5, 1.009, 1}}, Preference{Cost: 1}, 1},
		"time and cost lead alike: faster": {[][3]float64{{9, 1, 1}, {8.999, 1.0001, 1}}, Preference{Time: 0.45, Cost: 0.45, Resource: 0.1}, 1},
		"nothing leads: cheaper":           {[][3]float64{{9, 1, 1}, {8.999, 1.0001, 1}}, Preference{Time: 1. / 3, Cost: 1. / 3, Resource: 1. / 3}, 0},
		"no preference is balanced":        {[][3]float64{{1, 9, 9}, {2, 2, 2}, {9, 1, 1}}, Preference{}, 1},
		"not finite":                       {[][3]float64{{inf, 0, 0}, {math.NaN(), 0, 0}, {5, 5, 5}}, Preference{Cost: 1}, 2},
		"equal ones: the first":            {[][3]float64{{1, 1, 1}, {1, 1, 1}}, Preference{Time: 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			all := make([]int, len(c.points))
			for i := range all {
				all[i] = i
			}
			if got := Select(c.points, all, c.prefer); got != c.want {
				t.Errorf("%d is selected, want %d", got, c.want)
			}
		})
	}
}

// TestPreferring checks that each returned preference selects its candidate, and that only candidates on the front which
// meet the SLA are returned.
func TestPreferring(t *testing.T) {
	at := func(seconds, usd, resource float64, front bool) Candidate {
		return Candidate{Seconds: sla.Interval{P50: seconds}, CostUSD: sla.Interval{P50: usd}, Resource: resource, OnFront: front, Feasible: true}
	}
	cs := []Candidate{at(100, 10, 1, true), at(150, 6, .6, true), at(400, 3, .25, true), at(500, 11, 1, false), at(90, 30, 1, true)}
	cs[4].Feasible, cs[4].Breaks = false, []sla.Objective{sla.Cost}
	cs[2].Feasible, cs[2].Slower = false, true // excluded by the present preference only
	got := Preferring(cs)
	if got[0] != (Preference{Time: 1}) || got[2] != (Preference{Cost: 1}) || len(got) != 3 {
		t.Errorf("%v, want time for the first, cost for the third, weights for the second", got)
	}
	points := pointsOf(cs)
	for i, w := range got {
		if chosen := Select(points, []int{0, 1, 2}, w); chosen != i {
			t.Errorf("%v selects %d, want %d", w, chosen, i)
		}
	}
	if got := Preferring(nil); len(got) != 0 {
		t.Errorf("%v without candidates", got)
	}
}
