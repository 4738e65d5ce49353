package solve

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestAssign(t *testing.T) {
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		cost [][]float64
		want []int
	}{
		"no rows":                {nil, []int{}},
		"one":                    {[][]float64{{3}}, []int{0}},
		"documented with scipy":  {[][]float64{{4, 1, 3}, {2, 0, 5}, {3, 2, 2}}, []int{1, 0, 2}},
		"all equal: identity":    {[][]float64{{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, []int{0, 1, 2}},
		"equal, more columns":    {[][]float64{{0, 0, 0, 0}, {0, 0, 0, 0}}, []int{0, 1}},
		"negative costs":         {[][]float64{{-1, -3}, {-2, -5}}, []int{0, 1}},
		"forbidden":              {[][]float64{{inf, 1}, {2, inf}}, []int{1, 0}},
		"only forbidden":         {[][]float64{{1, inf}, {1, inf}}, nil},
		"more rows than columns": {[][]float64{{1}, {1}}, nil},
		"ragged":                 {[][]float64{{1, 2}, {1}}, nil},
		"no number":              {[][]float64{{math.NaN(), 1}}, []int{1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Assign(c.cost)
			if !slices.Equal(got, c.want) || (got == nil) != (c.want == nil) {
				t.Errorf("columns %v, want %v", got, c.want)
			}
		})
	}
}

func TestAssignIsCheapest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cols := rapid.IntRange(1, 6).Draw(t, "columns")
		rows := rapid.IntRange(1, cols).Draw(t, "rows")
		value := rapid.OneOf(rapid.Float64Range(-10, 10), rapid.SampledFrom([]float64{0, 1, 2}))
		cost := make([][]float64, rows)
		for i := range cost {
			cost[i] = rapid.SliceOfN(value, cols, cols).Draw(t, "cost")
		}
		got, seen := 0.0, map[int]bool{}
		for i, j := range Assign(cost) {
			if seen[j] {
				t.Fatalf("column %d twice", j)
			}
			seen[j] = true
			got += cost[i][j]
		}
		if want := cheapest(cost, 0, 0); math.Abs(got-want) > 1e-12*max(1, math.Abs(want)) {
			t.Fatalf("cost %g, the cheapest is %g", got, want)
		}
	})
}

// cheapest returns the minimum cost by enumeration of all assignments.
func cheapest(cost [][]float64, row int, taken uint) float64 {
	if row == len(cost) {
		return 0
	}
	best := math.Inf(1)
	for j, c := range cost[row] {
		if taken&(1<<j) == 0 {
			best = min(best, c+cheapest(cost, row+1, taken|1<<j))
		}
	}
	return best
}
