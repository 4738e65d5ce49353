package solve

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// levelsByProgram is water filling by its definition: raise all that are not full, then ask for each whether it could have more.
func levelsByProgram(t *rapid.T, s Sharing, weight []float64) []float64 {
	n := len(s.Rate)
	floor := make([]float64, n)
	full := make([]bool, n)
	for i := range full {
		row := newReference(s).done(s, i)
		top := 0.0
		for _, v := range row {
			top = max(top, v)
		}
		full[i] = weight[i] == 0 || top == 0
	}
	for {
		rising := make([]float64, n)
		any := false
		for i, w := range weight {
			if !full[i] {
				rising[i] = w
				any = true
			}
		}
		if !any {
			return floor
		}
		v, err := solver(maxMinReference(s, rising, floor))
		if err != nil {
			t.Fatal(err)
		}
		for i := range floor {
			if !full[i] {
				floor[i] = v / weight[i] * (1 - solverSlack)
			}
		}
		froze := false
		for i := range floor {
			if full[i] {
				continue
			}
			r := newReference(s)
			copy(r.cost, r.done(s, i))
			r.floors(s, floor)
			most, err := solver(r)
			if err != nil {
				t.Fatal(err)
			}
			if most <= floor[i]*(1+1e-6) {
				full[i], froze = true, true
			}
		}
		if !froze {
			t.Fatalf("nobody is full at %v", floor)
		}
	}
}

func TestWaterFillAgainstReference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := drawSharing(t)
		if len(s.Rate) <= 12 && rapid.Bool().Draw(t, "pairs") {
			drawPairs(t, &s)
		}
		weight := drawList(t, len(s.Rate), "weight", 0, 1, 1, 1, 2, 0.1)
		sol, err := WaterFill(s, weight)
		if err != nil && (len(s.Pairs) == 0 || !errors.Is(err, ErrUnfinished)) {
			t.Fatal(err)
		}
		if err := feasible(s, sol); err != nil {
			t.Fatal(err)
		}
		if err != nil {
			return // with pairs, seldom: levels that leave no room
		}
		done := doneBy(s, sol)
		tolerance := 1e-6 + 1e4*solverSlack
		if len(s.Pairs) > 0 {
			tolerance = 1e-3
		}
		for i, want := range levelsByProgram(t, s, weight) {
			// What the first levels miss by a rounding, a job that is much faster makes more of.
			if weight[i] > 0 && math.Abs(done[i]-want) > 1e-5*max(want, 1e-3)+tolerance*max(s.best(i), want) {
				t.Fatalf("job %d gets %.9g done, the reference %.9g (gap %g)", i, done[i], want, sol.Gap)
			}
		}
	})
}

func TestWaterFillByHand(t *testing.T) {
	// Kind 0 is what jobs 0 and 1 can use, kind 1 what 2 and 3 can; job 3 can use little of it.
	s := Sharing{
		Rate:    [][]float64{{1, 0}, {1, 0}, {0, 1}, {0, 0.25}},
		Scale:   []float64{1, 1, 1, 1},
		Devices: []float64{1, 2},
	}
	sol, err := WaterFill(s, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{0.5, 0.5, 1, 0.25} {
		if got := doneBy(s, sol)[i]; math.Abs(got-want) > 1e-8 {
			t.Errorf("job %d gets %g done, want %g", i, got, want)
		}
	}
	if math.Abs(sol.Value-0.25) > 1e-8 {
		t.Errorf("value %g, want 0.25", sol.Value)
	}
}

func TestWaterFillEntities(t *testing.T) {
	one := func(n int) Sharing {
		s := Sharing{Devices: []float64{1}}
		for range n {
			s.Rate, s.Scale = append(s.Rate, []float64{1}), append(s.Scale, 1)
		}
		return s
	}
	slow := one(3)
	slow.Rate[0], slow.Devices[0] = []float64{0.1}, 2
	wide := one(4)
	wide.Devices[0] = 2
	for name, c := range map[string]struct {
		sharing  Sharing
		entities []Entity
		want     []float64
	}{
		"by entity, not by job":        {one(3), []Entity{{Weight: 1, Jobs: []int{0}}, {Weight: 1, Jobs: []int{1, 2}}}, []float64{0.5, 0.25, 0.25}},
		"weights of entities":          {one(2), []Entity{{Weight: 3, Jobs: []int{0}}, {Weight: 1, Jobs: []int{1}}}, []float64{0.75, 0.25}},
		"parts of jobs":                {one(3), []Entity{{Weight: 1, Jobs: []int{0, 1}, Part: []float64{3, 1}}, {Weight: 1, Jobs: []int{2}}}, []float64{0.375, 0.125, 0.5}},
		"first come, first served":     {one(3), []Entity{{Weight: 1, Jobs: []int{0, 1}, FIFO: true}, {Weight: 1, Jobs: []int{2}}}, []float64{0.5, 0, 0.5}},
		"what one cannot use":          {wide, []Entity{{Weight: 3, Jobs: []int{0, 1}, FIFO: true}, {Weight: 1, Jobs: []int{2, 3}}}, []float64{1, 0.5, 0.25, 0.25}},
		"a full job leaves its entity": {slow, []Entity{{Weight: 1, Jobs: []int{0, 1}}, {Weight: 0, Jobs: []int{2}}}, []float64{0.1, 1, 0}},
		"no entities":                  {one(2), nil, []float64{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			sol, err := WaterFillEntities(c.sharing, nil, c.entities)
			if err != nil {
				t.Fatal(err)
			}
			if err := feasible(c.sharing, sol); err != nil {
				t.Fatal(err)
			}
			for i, got := range doneBy(c.sharing, sol) {
				if name != "no entities" && math.Abs(got-c.want[i]) > 1e-8 {
					t.Errorf("job %d gets %g done, want %v", i, got, c.want)
				}
			}
		})
	}
	for name, entities := range map[string][]Entity{
		"no such job":     {{Weight: 1, Jobs: []int{7}}},
		"two owners":      {{Weight: 1, Jobs: []int{0}}, {Weight: 1, Jobs: []int{0}}},
		"negative weight": {{Weight: -1}},
		"parts and jobs":  {{Weight: 1, Jobs: []int{0}, Part: []float64{1, 1}}},
	} {
		if _, err := WaterFillEntities(one(2), nil, entities); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
