package problems

import (
	"math"
	"slices"
	"testing"
)

func sorted(points [][]float64) [][]float64 {
	slices.SortFunc(points, slices.Compare[[]float64])
	return points
}

func samePoints(t *testing.T, got, want [][]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d points, want %d\n%v\n%v", len(got), len(want), got, want)
	}
	for i := range got {
		if !near(got[i], want[i], 1e-9) {
			t.Errorf("point %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func near(a, b []float64, tolerance float64) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !(math.Abs(a[i]-b[i]) <= tolerance) {
			return false
		}
	}
	return true
}
