package pareto

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestFront(t *testing.T) {
	nan := math.NaN()
	cases := map[string]struct {
		points [][]float64
		want   []int
	}{
		"none":                 {nil, nil},
		"one":                  {[][]float64{{1, 2}}, []int{0}},
		"only NaN":             {[][]float64{{1, nan}, {nan, 2}}, nil},
		"no objective":         {[][]float64{{}, {}}, nil},
		"first of equals":      {[][]float64{{0, 0}, {1, 2}, {1, 2}, {2, 1}}, []int{1, 3}},
		"first of equals, 3-D": {[][]float64{{1, 2, 3}, {1, 2, 3}, {3, 2, 1}}, []int{0, 2}},
		"all equal":            {[][]float64{{1, 1, 1}, {1, 1, 1}}, []int{0}},
		"best of one":          {[][]float64{{1}, {3}, {2}, {3}}, []int{1}},
		"vertical":             {[][]float64{{1, 1}, {1, 3}, {1, 2}}, []int{1}},
		"infinite":             {[][]float64{{1, math.Inf(1)}, {2, 0}, {1, 5}}, []int{0, 1}},
		"convex sea":           {seaFront(convex, 1), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		"same plane":           {[][]float64{{5, 1, 2}, {5, 2, 1}, {5, 2, 2}, {4, 2, 2}}, []int{2}},
	}
	for name, c := range cases {
		if got := Front(c.points); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestFrontIsByDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t, rapid.IntRange(1, 5).Draw(t, "m"), 30)
		if len(points) > 0 && rapid.Bool().Draw(t, "spoil") {
			points[0][0] = math.NaN()
		}
		var want []int
		for i, p := range points {
			on := !hasNaN(p)
			for j, q := range points {
				if !hasNaN(q) && (dominates(q, p) || j < i && slices.Equal(p, q)) {
					on = false
				}
			}
			if on {
				want = append(want, i)
			}
		}
		if got := Front(points); !slices.Equal(got, want) {
			t.Fatalf("%v, want %v", got, want)
		}
	})
}

func TestFrontOfManyPoints(t *testing.T) {
	shell := sphere(6000, 3, 3)
	var points [][]float64
	for _, p := range shell {
		points = append(points, []float64{p[0] * 0.5, p[1] * 0.5, p[2] * 0.5}, p)
	}
	got := Front(points)
	if len(got) != len(shell) {
		t.Fatalf("%d points, want the %d of the shell", len(got), len(shell))
	}
	for k, i := range got {
		if i != 2*k+1 {
			t.Fatalf("position %d is %d, want %d", k, i, 2*k+1)
		}
	}
}

func BenchmarkFront(b *testing.B) {
	for name, c := range map[string]struct{ n, m int }{"2-D 100000": {100_000, 2}, "3-D 10000": {10_000, 3}, "6-D 1000": {1000, 6}} {
		points := sphere(c.n, c.m, 1)
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				Front(points)
			}
		})
	}
}

// dominates reports whether a is at least as good as b in all objectives and better in one.
func dominates(a, b []float64) bool {
	better := false
	for i, v := range a {
		if v < b[i] {
			return false
		}
		better = better || v > b[i]
	}
	return better
}
