package solve

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

func TestMaxMinAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t)
		if rapid.Bool().Draw(t, "pairs") {
			drawPairs(t, &s)
		}
		n := len(s.Rate)
		weight := drawList(t, n, "weight", 0, 1, 1, 1, 2, 0.01)
		floor := drawFloors(t, s)
		method := rapid.SampledFrom([]func(Sharing, []float64, []float64) (Solution, error){MaxMin, Central}).Draw(t, "method")
		sol, err := method(s, weight, floor)
		r := maxMinReference(s, weight, floor)
		want, refErr := solver(r)
		if refErr != nil {
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("the reference says %v, not %v (value %g)", refErr, err, sol.Value)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		done := doneBy(s, sol)
		for i, f := range floor {
			if done[i] < f*(1-2*slackOf(s)) {
				t.Fatalf("job %d gets %.17g done, asked %g", i, done[i], f)
			}
		}
		if want == unbounded {
			want = 0
		} else if got := worst(weight, done); sol.Value > got*(1+1e-12) {
			t.Fatalf("value %.17g, but the shares give %.17g", sol.Value, got)
		}
		if !near(sol.Value, want, toleranceOf(s)) || sol.Gap > toleranceOf(s) {
			t.Fatalf("value %.12g with gap %g, reference %.12g", sol.Value, sol.Gap, want)
		}
	})
}

// At the centre, a job must not be co-located with itself either: three equal jobs, of which one has no weight, on three
// devices that two of them share without loss.
func TestCentralSeparatesJobs(t *testing.T) {
	s := Sharing{Devices: []float64{3}, Rate: [][]float64{{1}, {1}, {1}}, Scale: []float64{1, 1, 1}}
	for _, ab := range [][2]int{{0, 1}, {0, 2}, {1, 2}} {
		s.Pairs = append(s.Pairs, Pair{A: ab[0], B: ab[1], RateA: []float64{2}, RateB: []float64{2}})
	}
	sol, err := Central(s, []float64{0, 1, 2}, nil)
	if err != nil || !near(sol.Value, 2, toleranceOf(s)) {
		t.Errorf("value %g, %v, want 2", sol.Value, err)
	}
}

func TestMaxSumAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t)
		if rapid.Bool().Draw(t, "pairs") {
			drawPairs(t, &s)
		}
		n, J := len(s.Rate), len(s.Devices)
		floor := drawFloors(t, s)
		value := make([][]float64, n)
		r := newReference(s)
		for i := range value {
			value[i] = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 1, 3, -1, 1e4, 0.01}), J, J).Draw(t, "value")
			copy(r.cost[i*J:], value[i])
		}
		pairValue := make([][]float64, len(s.Pairs))
		for q := range pairValue {
			pairValue[q] = rapid.SliceOfN(rapid.SampledFrom([]float64{0, 1, 3, -1}), J, J).Draw(t, "pair value")
			copy(r.cost[(n+q)*J:], pairValue[q])
		}
		r.floors(s, floor)
		sol, err := MaxSum(s, value, pairValue, floor)
		want, refErr := solver(r)
		if refErr != nil {
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("the reference says %v, not %v (value %g)", refErr, err, sol.Value)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		got := 0.0
		for i, row := range sol.X {
			for j, x := range row {
				got += value[i][j] * x
			}
		}
		for q, row := range sol.Pairs {
			for j, x := range row {
				got += pairValue[q][j] * x
			}
		}
		if !near(got, want, toleranceOf(s)) || !near(sol.Value, want, toleranceOf(s)) {
			t.Fatalf("value %.12g (the shares give %.12g) with gap %g, reference %.12g", sol.Value, got, sol.Gap, want)
		}
	})
}

func TestDemandAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t)
		if rapid.Bool().Draw(t, "pairs") {
			drawPairs(t, &s)
		}
		n := len(s.Rate)
		asked := drawList(t, n, "demand", 0, 0.1, 0.1, 0.5, 0.01, 2)
		r := newReference(s)
		r.floors(s, asked)
		sol, err := Demand(s, asked)
		if _, refErr := solver(r); refErr != nil {
			if !errors.Is(err, ErrInfeasible) {
				t.Fatalf("the reference says %v, not %v (value %g)", refErr, err, sol.Value)
			}
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		for i, v := range doneBy(s, sol) {
			if v < asked[i]*(1-2*slackOf(s)) {
				t.Fatalf("job %d gets %.17g done, asked %g", i, v, asked[i])
			}
		}
	})
}

// The Karush-Kuhn-Tucker conditions need no reference solver: no small feasible change of the shares increases the
// sum of logarithms.
func TestNashCannotBeImproved(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t)
		if rapid.Bool().Draw(t, "pairs") {
			drawPairs(t, &s)
		}
		n := len(s.Rate)
		weight := drawList(t, n, "weight", 0, 1, 1, 2)
		sol, err := Nash(s, weight)
		if err != nil {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		// Linearized at the solution, no feasible point is better: Σ X'_i/X_i ≤ number of jobs.
		r := newReference(s)
		jobs := 0.0
		for i, v := range doneBy(s, sol) {
			if weight[i] > 0 && v > 0 {
				jobs++
				for k, c := range r.done(s, i) {
					r.cost[k] += c / v
				}
			}
		}
		best, err := solver(r)
		if err != nil {
			t.Fatal(err)
		}
		if best > jobs*(1+1e-6) {
			t.Fatalf("Σ X'/X can be %.9g for %g jobs", best, jobs)
		}
	})
}

// No job is paired with itself: both jobs of a class of two spend the same time co-located, whatever their weights.
func TestNobodyRunsBesideItself(t *testing.T) {
	s := Sharing{
		Rate: [][]float64{{1}, {1}}, Scale: []float64{1, 1}, Devices: []float64{1},
		Pairs: []Pair{{A: 0, B: 1, RateA: []float64{0.9}, RateB: []float64{0.9}}},
	}
	sol := solved(t)(MaxMin(s, []float64{1, 3}, nil))
	// With x shared time and y time of job 0 alone: 0.9x + y = 3 · 0.9x and x + y = 1 give x = 1/2.8.
	if want := 0.9 * 3 / 2.8; !near(sol.Value, want, 1e-8) {
		t.Errorf("value %.10g, want %.10g", sol.Value, want)
	}
	if err := feasible(s, sol); err != nil {
		t.Error(err)
	}
}

func TestInputsWithoutSense(t *testing.T) {
	nan, inf := math.NaN(), math.Inf(1)
	one := func() Sharing {
		return Sharing{Rate: [][]float64{{1, 2}}, Scale: []float64{1}, Devices: []float64{1, 1}}
	}
	for name, spoil := range map[string]func(s *Sharing){
		"no number":          func(s *Sharing) { s.Rate[0][1] = nan },
		"endless rate":       func(s *Sharing) { s.Rate[0][1] = inf },
		"negative rate":      func(s *Sharing) { s.Rate[0][1] = -1 },
		"too few rates":      func(s *Sharing) { s.Rate[0] = s.Rate[0][:1] },
		"no scale":           func(s *Sharing) { s.Scale[0] = 0 },
		"too few scales":     func(s *Sharing) { s.Scale = nil },
		"negative devices":   func(s *Sharing) { s.Devices[0] = -1 },
		"pair with itself":   func(s *Sharing) { s.Pairs = []Pair{{0, 0, s.Rate[0], s.Rate[0]}} },
		"pair with nobody":   func(s *Sharing) { s.Pairs = []Pair{{0, 1, s.Rate[0], s.Rate[0]}} },
		"pair without rates": func(s *Sharing) { s.Pairs = []Pair{{0, 0, nil, nil}} },
	} {
		s := one()
		spoil(&s)
		for what, solve := range map[string]func() (Solution, error){
			"MaxMin":    func() (Solution, error) { return MaxMin(s, nil, nil) },
			"WaterFill": func() (Solution, error) { return WaterFill(s, nil) },
			"Nash":      func() (Solution, error) { return Nash(s, nil) },
			"Demand":    func() (Solution, error) { return Demand(s, nil) },
			"MaxSum":    func() (Solution, error) { return MaxSum(s, s.Rate, nil, nil) },
		} {
			if _, err := solve(); err == nil {
				t.Errorf("%s, %s: no error", name, what)
			}
		}
	}
	for name, list := range map[string][]float64{"weights of nobody": {1, 1}, "a weight below 0": {-1}, "no number for a weight": {nan}} {
		if _, err := MaxMin(one(), list, nil); err == nil {
			t.Errorf("%s: no error", name)
		}
		if _, err := Demand(one(), list); err == nil {
			t.Errorf("%s as demand: no error", name)
		}
	}
}

// Degenerate inputs (no capacity, no jobs, no usable device) yield a solution without NaN.
func TestNothingToShare(t *testing.T) {
	for name, s := range map[string]Sharing{
		"no jobs":         {Devices: []float64{2, 2}},
		"no kinds":        {Rate: [][]float64{{}, {}}, Scale: []float64{1, 1}},
		"no devices":      {Rate: [][]float64{{1, 1}}, Scale: []float64{1}, Devices: []float64{0, 0}},
		"no rates":        {Rate: [][]float64{{0, 0}, {0, 0}}, Scale: []float64{1, 1}, Devices: []float64{1, 1}},
		"larger than all": {Rate: [][]float64{{1, 2}}, Scale: []float64{64}, Devices: []float64{1, 0}},
	} {
		for what, solve := range map[string]func() (Solution, error){
			"MaxMin":    func() (Solution, error) { return MaxMin(s, nil, nil) },
			"Central":   func() (Solution, error) { return Central(s, nil, nil) },
			"WaterFill": func() (Solution, error) { return WaterFill(s, nil) },
			"Nash":      func() (Solution, error) { return Nash(s, nil) },
			"Demand":    func() (Solution, error) { return Demand(s, make([]float64, len(s.Rate))) },
			"MaxSum":    func() (Solution, error) { return MaxSum(s, s.Rate, nil, nil) },
		} {
			sol, err := solve()
			if err != nil || math.IsNaN(sol.Value) || math.IsNaN(sol.Gap) || math.IsInf(sol.Value, 0) {
				t.Errorf("%s, %s: value %g, gap %g, %v", name, what, sol.Value, sol.Gap, err)
				continue
			}
			if len(s.Rate) > 0 {
				if err := feasible(s, sol); err != nil {
					t.Errorf("%s, %s: %v", name, what, err)
				}
			}
		}
	}
	asked := Sharing{Rate: [][]float64{{0}}, Scale: []float64{1}, Devices: []float64{1}}
	if _, err := Demand(asked, []float64{1}); !errors.Is(err, ErrInfeasible) {
		t.Errorf("a demand of a job that gets nothing done: %v", err)
	}
}

// TestListedTwice requires that listing the times of pairs leaves them as they are, and that of two entries for the same
// jobs the first receives the time.
func TestListedTwice(t *testing.T) {
	p := pairTimes{kinds: 1, at: map[[2]int]int{}}
	p.add(1, 0, 0, 0.5)
	s := &Sharing{Devices: []float64{1}, Pairs: []Pair{{A: 0, B: 1}, {A: 1, B: 0}, {A: 1, B: 2}}}
	for range 2 {
		if got := p.listed(s); got[0][0] != 0.5 || got[1][0] != 0 || got[2][0] != 0 {
			t.Errorf("%v, want 0.5 for the first pair alone", got)
		}
	}
}
