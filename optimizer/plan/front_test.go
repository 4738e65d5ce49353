package plan

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/sla"
)

func at(seconds, usd, resource float64) Candidate {
	same := func(v float64) sla.Interval { return sla.Interval{P5: v, P50: v, P95: v} }
	return Candidate{Seconds: same(seconds), CostUSD: same(usd), Resource: resource, Chance: 1, Feasible: true}
}

func TestFront(t *testing.T) {
	nan := math.NaN()
	cases := map[string]struct {
		points []Candidate
		want   []int
	}{
		"empty":                     {nil, nil},
		"one":                       {[]Candidate{at(1, 1, 1)}, []int{0}},
		"identical all on it":       {[]Candidate{at(1, 1, 1), at(1, 1, 1), at(1, 1, 1)}, []int{0, 1, 2}},
		"identical but dominated":   {[]Candidate{at(2, 2, 1), at(2, 2, 1), at(1, 1, 1)}, []int{2}},
		"chain":                     {[]Candidate{at(3, 3, 3), at(2, 2, 2), at(1, 1, 1)}, []int{2}},
		"trade-off":                 {[]Candidate{at(1, 3, 2), at(2, 2, 2), at(3, 1, 2), at(3, 3, 2)}, []int{0, 1, 2}},
		"resource alone saves it":   {[]Candidate{at(1, 1, 1), at(2, 2, 0.5)}, []int{0, 1}},
		"all the same cost":         {[]Candidate{at(1, 5, 1), at(2, 5, 0.5), at(3, 5, 0.5)}, []int{0, 1}},
		"not a number is never on":  {[]Candidate{at(nan, 1, 1), at(2, 2, 1), at(1, math.Inf(1), 0)}, []int{1}},
		"tie in time, better later": {[]Candidate{at(1, 2, 1), at(1, 1, 1)}, []int{1}},
	}
	for name, c := range cases {
		if got := front(c.points); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// The sweep agrees with the definition, on small grids with many ties.
func TestFrontIsExact(t *testing.T) {
	point := rapid.Custom(func(t *rapid.T) Candidate {
		v := rapid.Float64Range(0, 5)
		grid := rapid.IntRange(0, 4)
		if rapid.Bool().Draw(t, "grid") {
			return at(float64(grid.Draw(t, "s")), float64(grid.Draw(t, "c")), float64(grid.Draw(t, "r")))
		}
		return at(v.Draw(t, "s"), v.Draw(t, "c"), v.Draw(t, "r"))
	})
	rapid.Check(t, func(t *rapid.T) {
		cs := rapid.SliceOfN(point, 0, 40).Draw(t, "points")
		var want []int
		for i := range cs {
			if !slices.ContainsFunc(cs, func(c Candidate) bool { return dominates(c, cs[i]) }) {
				want = append(want, i)
			}
		}
		if got := front(cs); !slices.Equal(got, want) {
			t.Fatalf("front %v, want %v of %v", got, want, cs)
		}
	})
}

var weights = rapid.Custom(func(t *rapid.T) Preference {
	w := rapid.IntRange(0, 4)
	return Preference{float64(w.Draw(t, "time")), float64(w.Draw(t, "cost")), float64(w.Draw(t, "resource"))}.normalised()
})

// For any candidates, the choice is an allowed one that no other allowed candidate dominates.
func TestChoiceIsNeverDominated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64Range(0, 10)
		var cs []Candidate
		for range rapid.IntRange(0, 30).Draw(t, "n") {
			c := at(v.Draw(t, "s"), v.Draw(t, "c"), v.Draw(t, "r")/10)
			c.Feasible = rapid.Bool().Draw(t, "feasible")
			if rapid.IntRange(0, 9).Draw(t, "odd") == 0 {
				c = at(math.NaN(), c.CostUSD.P50, c.Resource)
			}
			cs = append(cs, c)
		}
		among := where(cs, feasible)
		w := weights.Draw(t, "weights")
		i := choose(cs, among, w, -1)
		if i < 0 {
			if len(among) > 0 {
				t.Fatalf("nothing chosen of %d feasible", len(among))
			}
			return
		}
		if !feasible(cs[i]) {
			t.Fatalf("chosen %+v is not feasible", cs[i])
		}
		for _, j := range among {
			if dominates(cs[j], cs[i]) {
				t.Fatalf("%v dominates the choice %v", objectives(cs[j]), objectives(cs[i]))
			}
		}
		// The current allocation is kept only if the loss is negligible.
		current := rapid.IntRange(0, len(cs)-1).Draw(t, "current")
		k := choose(cs, among, w, current)
		if !feasible(cs[k]) || k != i && k != current {
			t.Fatalf("with current %d: chosen %d, without %d", current, k, i)
		}
		if loss(objectives(cs[k]), objectives(cs[i]), w) > stickiness {
			t.Fatalf("kept %v although %v is clearly better", objectives(cs[k]), objectives(cs[i]))
		}
	})
}

// randomScene is a CPU or GPU job with random pace, prices and SLA.
func randomScene(t *rapid.T) scene {
	s := cpuScene()
	if rapid.Bool().Draw(t, "gpu") {
		s = gpuScene()
	}
	scale, serial := rapid.Float64Range(0.1, 100).Draw(t, "scale"), rapid.Float64Range(0, 1).Draw(t, "serial")
	s.pace = func(a resources.Allocation) float64 {
		n := float64(a.CPUs)
		if a.GPUs > 0 {
			n = float64(a.GPUs)
		}
		return scale * (serial + (1-serial)/n)
	}
	s.Rates = cost.Rates{GPUHour: cost.USD(rapid.Float64Range(0, 5).Draw(t, "gpu$")), CPUHour: cost.USD(rapid.Float64Range(0, 1).Draw(t, "cpu$"))}
	s.measured = s.measured[:rapid.IntRange(1, len(s.measured)).Draw(t, "measured")]
	s.Preference = weights.Draw(t, "weights")
	if rapid.Bool().Draw(t, "deadline") {
		s.Spec.TimeMax = minutes(rapid.Float64Range(0.1, 100).Draw(t, "minutes"))
	}
	if rapid.Bool().Draw(t, "budget") {
		s.Spec.CostMaxUSD = rapid.Float64Range(0.001, 10).Draw(t, "usd")
	}
	return s
}

// Invariants of a decision, over random jobs.
func TestDecisionHoldsItsPromises(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s := randomScene(r).snapshot(t)
		p, err := Model{}.Decide(s)
		if err != nil {
			no, ok := err.(*Infeasible)
			if !ok {
				r.Fatal(err)
			}
			p = no.Plan
			if len(where(p.Candidates, feasible)) != 0 || no.Why == "" || no.Nearest.Feasible || len(no.Nearest.Breaks) == 0 {
				r.Fatalf("infeasible %+v although something is feasible, or without reason", no)
			}
		} else if p.Recourse == nil && (!p.Chosen.Feasible || p.Chosen.Chance < feasibleProbability-1e-9) || p.Recourse != nil && (p.Chosen.Feasible || p.Chosen.Chance < likelyChance) {
			r.Fatalf("chosen %+v is not feasible; way back %v", p.Chosen, p.Recourse)
		}
		if !p.Predicted || len(p.Options) != 4 || p.Binding == "" || p.Reason == "" {
			r.Fatalf("plan lacks options, binding or reason: %+v", p)
		}
		b := newEvaluation(s)
		eligible := b.eligible()
		chosen := b.forecast.outcome(p.Allocation)
		if i := b.baseline; i >= 0 && p.Recourse == nil {
			if own := b.outcomes[i].odds(); own >= likelyChance && chosen.odds() < min(own, feasibleProbability)-1e-9 {
				r.Fatalf("%v meets the SLA with probability %.3f, the baseline with %.3f", p.Allocation, chosen.odds(), own)
			}
		}
		open := func(a resources.Allocation) bool {
			return slices.ContainsFunc(eligible, func(i int) bool { return b.cs[i].Allocation.SameShape(a) })
		}
		for _, c := range p.Candidates {
			// A choice other than the baseline must be better than it with high probability: the others are not open.
			if c.Feasible && dominates(c, p.Chosen) && err == nil && !p.Chosen.Allocation.SameShape(s.Baseline) && open(c.Allocation) {
				r.Fatalf("%v dominates the choice %v", c.Allocation, p.Allocation)
			}
			if c.Chance < 0 || c.Chance > 1 || c.Resource < 0 || c.Resource > 1 || c.Seconds.P5 > c.Seconds.P50 || c.CostUSD.P50 > c.CostUSD.P95 || c.CostUSD.P5 < 0 {
				r.Fatalf("odd candidate %+v", c)
			}
		}
		l := s.Limits
		if a := p.Allocation; a.CPUs < l.CPUs.Min || a.CPUs > l.CPUs.Max || a.GPUs < l.GPUs.Min || a.GPUs > l.GPUs.Max || a.Memory > l.MemoryMax {
			r.Fatalf("%v is outside the limits %+v", a, l)
		}
	})
}

// A larger budget never makes the choice for time slower, beyond the 1 % within which candidates count as equal.
func TestMoreBudgetIsNeverSlower(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		sc := randomScene(r)
		sc.Preference = Preference{Time: 1}
		s := sc.snapshot(t)
		last := math.Inf(1)
		for _, budget := range []float64{0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 100, 0} {
			s.Spec.CostMaxUSD = budget
			p, err := Model{}.Decide(s)
			if err != nil {
				if !math.IsInf(last, 1) {
					r.Fatalf("budget %g is infeasible, a smaller one was not", budget)
				}
				continue
			}
			if p.Chosen.Seconds.P50 > last*(1+tie+1e-9) {
				r.Fatalf("budget %g: %g s, a smaller one gave %g s", budget, p.Chosen.Seconds.P50, last)
			}
			last = p.Chosen.Seconds.P50
		}
	})
}
