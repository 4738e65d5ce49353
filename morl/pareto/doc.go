// Package pareto measures and selects multi-objective outcomes: the non-dominated front, its exact hypervolume and
// expected utility, weights on the simplex, and the point that a preference selects
// with its trade-offs.
//
// It is not a solver: it creates no points and attaches no meaning to them. A point is a []float64 with one value per
// objective; all objectives are maximised. A point dominates another if it is at least as good in all objectives and
// better in one. A point with a NaN is rejected everywhere: it is on no front, contributes nothing and is never
// selected. Points of different lengths in one call are a programming error and cause a panic.
//
// All results are functions of the set of points: the order of the input has no effect, except on indices.
//
// Example:
//
//	points := [][]float64{ // minus minutes, minus USD
//		{-60, -2.0}, // 1 GPU
//		{-20, -2.5}, // 4 GPUs
//		{-30, -9.0}, // 8 old GPUs: dominated
//	}
//	front := pareto.Front(points) // 0, 1
//	volume := pareto.Hypervolume(points, []float64{-100, -10})
//	choice, err := pareto.Select(points, []float64{0.5, 0.5}, pareto.Normalisation{})
package pareto

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// covers reports whether a is at least as good as b in all objectives.
func covers(a, b []float64) bool {
	for i, v := range a {
		if v < b[i] {
			return false
		}
	}
	return true
}

// compare orders points by the first objective that differs.
func compare(a, b []float64) int {
	for i, v := range a {
		if c := cmp.Compare(v, b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// hasNaN reports whether a point has a NaN.
func hasNaN(p []float64) bool {
	return slices.ContainsFunc(p, math.IsNaN)
}

// wantLength panics unless all points have n objectives.
func wantLength(points [][]float64, n int) {
	for i, p := range points {
		if len(p) != n {
			panic(fmt.Sprintf("pareto: point %d has %d objectives, want %d", i, len(p), n))
		}
	}
}
