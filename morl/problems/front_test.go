package problems

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/morl/pareto"
)

// TestExactFrontsHaveTheReferenceValues compares sizes and hypervolumes of the exact fronts with values computed
// independently from the published definitions.
func TestExactFrontsHaveTheReferenceValues(t *testing.T) {
	same := func(x float64, n int) []float64 { return slices.Repeat([]float64{x}, n) }
	cases := map[string]struct {
		problem   string
		gamma     float64
		size      int
		reference []float64
		want      float64
		tolerance float64
	}{
		"convex, 1, near":       {"deep-sea-treasure", 1, 10, []float64{0, -25}, 401.800, 5e-4},
		"convex, 1":             {"deep-sea-treasure", 1, 10, nil, 994.300, 5e-4},
		"convex, 0.99, near":    {"deep-sea-treasure", 0.99, 10, []float64{0, -25}, 360.401, 5e-4},
		"convex, 0.99":          {"deep-sea-treasure", 0.99, 10, nil, 854.850, 5e-4},
		"convex, 0.98, near":    {"deep-sea-treasure", 0.98, 10, []float64{0, -25}, 319.746, 5e-4},
		"convex, 0.98":          {"deep-sea-treasure", 0.98, 10, nil, 731.614, 5e-4},
		"concave, 1, near":      {"deep-sea-treasure-concave", 1, 10, []float64{0, -25}, 1155, 5e-4},
		"concave, 1":            {"deep-sea-treasure-concave", 1, 10, nil, 4255, 5e-4},
		"concave, 0.99, near":   {"deep-sea-treasure-concave", 0.99, 10, []float64{0, -25}, 1101.384, 5e-4},
		"concave, 0.99":         {"deep-sea-treasure-concave", 0.99, 10, nil, 3688.377, 5e-4},
		"tree 5, 1":             {"fruit-tree-5", 1, 32, nil, 44346.885, 5e-4},
		"tree 5, 1, zero":       {"fruit-tree-5", 1, 32, same(0, 6), 8808.419, 5e-4},
		"tree 5, 0.99":          {"fruit-tree-5", 0.99, 32, nil, 36815.955, 5e-4},
		"tree 5, 0.99, zero":    {"fruit-tree-5", 0.99, 32, same(0, 6), 6920.582, 5e-4},
		"tree 6, 1":             {"fruit-tree-6", 1, 64, nil, 58271.258, 5e-4},
		"tree 6, 1, zero":       {"fruit-tree-6", 1, 64, same(0, 6), 12575.873, 5e-4},
		"tree 6, 0.99":          {"fruit-tree-6", 0.99, 64, nil, 46034.802, 5e-4},
		"tree 6, 0.99 and zero": {"fruit-tree-6", 0.99, 64, same(0, 6), 9302.378, 5e-4},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := named(c.problem)
			front, exact := p.KnownFront(c.gamma)
			if !exact || len(front) != c.size {
				t.Fatalf("%d points (exact %v), want %d exact ones: %v", len(front), exact, c.size, front)
			}
			reference := c.reference
			if reference == nil {
				reference = p.Reference()
			}
			if got := pareto.Hypervolume(front, reference); !(math.Abs(got-c.want) <= c.tolerance) {
				t.Errorf("hypervolume %.6f, want %.4f", got, c.want)
			}
		})
	}
}

// TestExactFrontsHaveTheReferenceUtilities compares the mean utility of the best point over equally spaced linear
// preferences.
func TestExactFrontsHaveTheReferenceUtilities(t *testing.T) {
	cases := map[string]struct {
		problem string
		gamma   float64
		want    float64
	}{
		"convex, 1":     {"deep-sea-treasure", 1, 6.8138},
		"convex, 0.99":  {"deep-sea-treasure", 0.99, 5.6029},
		"convex, 0.98":  {"deep-sea-treasure", 0.98, 4.6773},
		"concave, 1":    {"deep-sea-treasure-concave", 1, 53.8114},
		"concave, 0.99": {"deep-sea-treasure-concave", 0.99, 44.3231},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			front, _ := named(c.problem).KnownFront(c.gamma)
			if got := pareto.ExpectedUtility(front, pareto.Lattice(2, 49)); !(math.Abs(got-c.want) <= 5e-5) {
				t.Errorf("expected utility %.6f, want %.4f", got, c.want)
			}
		})
	}
}

// TestNoPreferenceBeatsTheFront requires that, for any linear preference, the value found by value iteration equals
// that of the best point of the front.
func TestNoPreferenceBeatsTheFront(t *testing.T) {
	for _, p := range tables() {
		rapid.Check(t, func(r *rapid.T) {
			gamma := rapid.SampledFrom([]float64{1, 0.99, 0.9, 0.5}).Draw(r, "gamma")
			preference := make([]float64, len(p.objectives))
			for i := range preference {
				preference[i] = rapid.Float64Range(0.01, 1).Draw(r, "weight")
			}
			best := math.Inf(-1)
			front, _ := p.KnownFront(gamma)
			for _, point := range front {
				best = max(best, dot(preference, point))
			}
			_, value := plan(p, preference, gamma)
			if math.Abs(value-best) > 1e-9 {
				r.Fatalf("%s: value iteration finds %v for %v at %v, the front has %v", p.name, value, preference, gamma, best)
			}
		})
	}
}

// TestLinearPreferencesReachTheirPart compares the part of the fronts that linear preferences reach.
func TestLinearPreferencesReachTheirPart(t *testing.T) {
	cases := map[string]struct {
		problem string
		gamma   float64
		want    float64
	}{
		"convex, 1":     {"deep-sea-treasure", 1, 992.200},
		"convex, 0.99":  {"deep-sea-treasure", 0.99, 854.850},
		"convex, 0.98":  {"deep-sea-treasure", 0.98, 731.614},
		"concave, 1":    {"deep-sea-treasure-concave", 1, 3862.000},
		"concave, 0.99": {"deep-sea-treasure-concave", 0.99, 3391.566},
		"concave, 0.98": {"deep-sea-treasure-concave", 0.98, 2950.941},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := ByName[c.problem]().(*table)
			var reached [][]float64
			for k := range 300 {
				w := (float64(k) + 0.5) / 300
				policy, _ := plan(p, []float64{w, 1 - w}, c.gamma)
				reached = append(reached, p.Return(p.ask(policy), c.gamma))
			}
			if got := pareto.Hypervolume(reached, p.reference); !(math.Abs(got-c.want) <= 5e-4) {
				t.Errorf("hypervolume %.6f, want %.3f", got, c.want)
			}
		})
	}
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i := range a {
		sum += a[i] * b[i]
	}
	return sum
}

// plan is value iteration for a linear preference: it returns the best action of each state, and the value of the
// start.
func plan(p *table, preference []float64, gamma float64) (policy []int, value float64) {
	values, policy := make([]float64, p.states), make([]int, p.states)
	for range p.limit {
		next := make([]float64, p.states)
		for s := range next {
			if p.outcomes[s*p.actions] == nil {
				continue
			}
			next[s] = math.Inf(-1)
			for a := range p.actions {
				sum := 0.0
				for _, b := range p.outcomes[s*p.actions+a] {
					sum += b.probability * dot(preference, b.reward)
					if !b.done {
						sum += b.probability * gamma * values[b.next]
					}
				}
				if sum > next[s] {
					next[s], policy[s] = sum, a
				}
			}
		}
		if slices.Equal(values, next) {
			break
		}
		values = next
	}
	return policy, values[p.start]
}
