// Package stat has the order statistics and shares that several packages need in one definition each. Moments of weighted samples
// and distributions are in gonum's stat.
//
//	lo, hi := stat.Wilson(9, 10) // 0.596, 0.982
package stat

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"
)

// Median returns the median of v, the mean of the middle two of an even number; NaN without values. v is not modified.
// O(n log n).
func Median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	s := slices.Sorted(slices.Values(v))
	h := len(s) / 2
	if len(s)%2 == 1 {
		return s[h]
	}
	return s[h-1]/2 + s[h]/2 // the sum of both may overflow
}

// Quantile returns the q-quantile, 0…1, of ascending values, linear between the order statistics (type 7 of Hyndman and Fan
// 1996); NaN without values. O(1).
func Quantile(sorted []float64, q float64) float64 {
	if len(sorted) == 0 {
		return math.NaN()
	}
	h := q * float64(len(sorted)-1)
	i := int(h)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + float64((h-float64(i))*(sorted[i+1]-sorted[i]))
}

// Mean returns the sum of v, taken in order, divided by its length; NaN without values.
func Mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// Count returns the number of elements of v for which ok is true.
func Count[T any](v []T, ok func(T) bool) (n int) {
	for _, x := range v {
		if ok(x) {
			n++
		}
	}
	return n
}

// Wilson returns the 95 % score interval of the share of k in n > 0 (Wilson 1927).
func Wilson(k, n int) (lo, hi float64) {
	z, N := distuv.UnitNormal.Quantile(0.975), float64(n)
	p := float64(k) / N
	middle := (p + z*z/(2*N)) / (1 + z*z/N)
	half := z / (1 + z*z/N) * math.Sqrt(p*(1-p)/N+z*z/(4*N*N))
	lo, hi = middle-half, middle+half
	if k == 0 {
		lo = 0 // exact: the formula leaves a rounding error
	}
	if k == n {
		hi = 1
	}
	return lo, hi
}
