package pareto

import "math"

// ExpectedUtility returns the mean over the weights of the largest weighted sum of a point (Zintgraf et al. 2015,
// "Quality assessment of MORL algorithms"), in the units of the objectives. NaN without points or weights.
// O(points·weights·m).
func ExpectedUtility(points, weights [][]float64) float64 {
	var sum float64
	for _, w := range weights {
		sum += bestUtility(points, w)
	}
	if len(weights) == 0 {
		return math.NaN()
	}
	return sum / float64(len(weights))
}

// bestUtility returns the largest w·p; NaN without points. Rejected points are ignored.
func bestUtility(points [][]float64, w []float64) float64 {
	wantLength(points, len(w))
	best := math.NaN()
	for _, p := range points {
		if u := dot(w, p); !hasNaN(p) && !(u <= best) {
			best = u
		}
	}
	return best
}

// dot skips objectives of weight 0, which may be infinite.
func dot(w, p []float64) float64 {
	var sum float64
	for i, v := range w {
		if v != 0 {
			sum += v * p[i]
		}
	}
	return sum
}
