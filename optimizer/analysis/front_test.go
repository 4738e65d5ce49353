package analysis

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

func at(seconds, usd, resource float64) point {
	same := func(v float64) sla.Interval { return sla.Interval{P5: v, P50: v, P95: v} }
	return point{Name: "p", Seconds: same(seconds), CostUSD: same(usd), Resource: resource, Feasible: true}
}

func namedPoint(name string, p point) point { p.Name = name; return p }

var (
	balanced = plan.Preference{Time: 1. / 3, Cost: 1. / 3, Resource: 1. / 3}
	fastest  = plan.Preference{Time: 1}
	cheapest = plan.Preference{Cost: 1}
)

// four is a set of four points, one of them dominated.
func four() FrontPoints {
	return FrontPoints{Subject: "four", Source: "measured", Points: []point{
		namedPoint("d", at(12000, 8.97, 0.12)), namedPoint("a", at(3600, 21.28, 1)), namedPoint("waste", at(9000, 53, 1)),
		namedPoint("c", at(6900, 10.25, 0.25)), namedPoint("b", at(4200, 12.44, 0.5))}}
}

func TestChoose(t *testing.T) {
	nan := math.NaN()
	breaks := at(10, 1, 0.1)
	breaks.Feasible = false
	cases := map[string]struct {
		points     []point
		preference plan.Preference
		want       string // of the chosen point
		onFront    int
		note       string
	}{
		"the fastest":           {four().Points, fastest, "a", 4, ""},
		"the cheapest":          {four().Points, cheapest, "d", 4, ""},
		"balanced":              {four().Points, balanced, "c", 4, ""},
		"the least":             {four().Points, plan.Preference{Resource: 1}, "d", 4, ""},
		"one point":             {[]point{namedPoint("x", at(1, 1, 1))}, balanced, "x", 1, "only one point"},
		"one best":              {[]point{namedPoint("y", at(2, 2, 1)), namedPoint("x", at(1, 1, 1))}, balanced, "x", 1, "every preference"},
		"identical":             {[]point{namedPoint("y", at(1, 1, 1)), namedPoint("x", at(1, 1, 1))}, balanced, "x", 1, "x and y are the same"},
		"not known is left out": {[]point{namedPoint("y", at(1, nan, 1)), namedPoint("x", at(2, 2, 1))}, balanced, "x", 1, ""},
		"may miss the SLA":      {[]point{namedPoint("y", breaks), namedPoint("x", at(20, 2, 0.2))}, balanced, "x", 1, ""},
		"all may break it":      {[]point{namedPoint("y", breaks)}, balanced, "y", 1, "no point is sure"},
		// One percent slower and a third cheaper: scaled by their ranges alone, both ends would be equal.
		"small ranges weigh little": {[]point{namedPoint("y", at(100, 60, 1)), namedPoint("x", at(101.5, 40, 1))}, plan.Preference{Time: 0.5, Cost: 0.5}, "x", 2, ""},
		// Within one percent in time, the cheaper point is chosen.
		"tie": {[]point{namedPoint("y", at(100, 9, 1)), namedPoint("x", at(100.5, 1, 0.5))}, fastest, "x", 2, ""},
	}
	for name, c := range cases {
		f, err := ChooseFront(FrontPoints{Subject: "s", Points: c.points}, c.preference)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := f.Points[f.Chosen]; got.Name != c.want || !got.Chosen || !got.OnFront || len(f.labelled()) != c.onFront {
			t.Errorf("%s: chosen %+v of %d on the front, want %s of %d", name, got, len(f.labelled()), c.want, c.onFront)
		}
		if notes := strings.Join(f.Notes, "; "); !strings.Contains(notes, c.note) {
			t.Errorf("%s: notes %q, want %q", name, notes, c.note)
		}
	}
}

func TestChooseRefuses(t *testing.T) {
	for name, points := range map[string][]point{"nothing": nil, "nothing known": {at(math.NaN(), 1, 1), at(1, math.Inf(1), 1)}} {
		if _, err := ChooseFront(FrontPoints{Subject: "s", Points: points}, balanced); !errors.Is(err, errNoPoint) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhatIsGivenUp(t *testing.T) {
	f, err := ChooseFront(four(), balanced)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Trades) != 3 || f.Trades[0].Objective != "time" || f.Trades[0].To != "B" || f.Trades[1].To != "D" {
		t.Fatalf("trades %+v: want C to B for time, C to D for cost and resources", f.Trades)
	}
	b := f.Trades[0]
	if b.Gained != 2700 || math.Abs(float64(b.Given.CostUSD)-2.19) > 1e-9 || math.Abs(float64(b.PerUnit.CostUSD)-2.19/2700) > 1e-12 {
		t.Errorf("C to B: %+v", b)
	}
	want := []string{
		"C to B, b: 45 m 00 s less for $2.19 and 25 points of the resources more; each minute less costs $0.0487 and 0.556 points of the resources more",
		"C to D, d: $1.28 less and 13 points of the resources less for 1 h 25 m more; each dollar less takes 1 h 06 m more"}
	if got := f.tradeLines(); !slices.Equal(got, want) {
		t.Errorf("in words:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if len(f.Steps) != 3 || f.Steps[2].From != "B" || f.Steps[2].To != "A" || math.Abs(float64(f.Steps[2].USDPerHour)-8.84*6) > 1e-9 {
		t.Errorf("steps %+v", f.Steps)
	}
}

// Short jobs cost fractions of a cent; their rates must remain readable.
func TestWordsOfSmallAmounts(t *testing.T) {
	f, err := ChooseFront(FrontPoints{Subject: "s", Points: []point{namedPoint("slow", at(72.8, 0.000848, 0.27)), namedPoint("quick", at(49.8, 0.00105, 0.27))}}, cheapest)
	if err != nil {
		t.Fatal(err)
	}
	want := "B to A, quick: 23 s less for $0.000202 more; that is $0.0316 per hour"
	if got := f.tradeLines(); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// A front and a plan of the same candidates select the same point.
func TestChoosesAsThePlanner(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		serial, parallel := rapid.Float64Range(0.05, 2).Draw(t, "serial"), rapid.Float64Range(0.5, 20).Draw(t, "parallel")
		var obs []perf.Observation
		for _, cpus := range []int{1, 2, 4} {
			u := serial + parallel/float64(cpus)
			obs = append(obs, perf.Observation{Allocation: resources.Allocation{CPUs: cpus, Memory: 4}, UnitSeconds: []float64{u, u * 1.02, u * 0.99}, PeakMemoryGiB: math.NaN()})
		}
		m, err := perf.Fit(obs, perf.FitOptions{Seed: 1})
		if err != nil {
			t.Skip(err)
		}
		w := [3]float64{}
		for i := range w {
			w[i] = float64(rapid.IntRange(0, 4).Draw(t, "weight"))
		}
		sum := w[0] + w[1] + w[2]
		if sum == 0 {
			t.Skip("no weight")
		}
		s := plan.Snapshot{Host: resources.Host{CPUs: 16, Memory: 32}, Limits: resources.Limits{CPUs: resources.Range{Min: 1, Max: 16}, MemoryMin: 1, MemoryMax: 32},
			Rates: cost.Rates{CPUHour: 0.04, GiBHour: cost.USD(rapid.Float64Range(0, 0.5).Draw(t, "GiB"))}, Preference: plan.Preference{Time: w[0] / sum, Cost: w[1] / sum, Resource: w[2] / sum},
			Model: m, Total: 100, Baseline: resources.Allocation{CPUs: 17, Memory: 8}, // not allowed, so that plans are not compared with it
			GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN()}
		if rapid.Bool().Draw(t, "deadline") {
			s.Spec = sla.Spec{TimeMax: time.Duration((serial + parallel/4) * 100 * float64(time.Second))}
		}
		p, err := plan.Planners["model"].Decide(s)
		if err != nil {
			t.Skip("infeasible")
		}
		set := FrontPoints{Subject: "plan"}
		for _, c := range p.Candidates {
			set.Points = append(set.Points, ofCandidate(c, c.Allocation.Same(p.Allocation)))
		}
		f, err := ChooseFront(set, s.Preference)
		if err != nil {
			t.Fatal(err)
		}
		if got := f.Points[f.Chosen]; !got.Taken {
			t.Fatalf("%v: the front selects %s, the planner %s", s.Preference, got.Name, p.Allocation)
		}
	})
}
