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

// MaximumUtilityLoss returns the largest deficit in utility of the points relative to the reference front, over the
// weights (Zintgraf et al. 2015); negative if the points are better under every weight. NaN without points, front or
// weights.
func MaximumUtilityLoss(points, front, weights [][]float64) float64 {
	worst := math.Inf(-1)
	for _, w := range weights {
		worst = math.Max(worst, bestUtility(front, w)-bestUtility(points, w)) // Max preserves a NaN
	}
	if len(weights) == 0 {
		return math.NaN()
	}
	return worst
}

// bestUtility returns the largest w·p; NaN without points. Rejected points are ignored.
func bestUtility(points [][]float64, w []float64) float64 {
	wantLength("point", points, len(w))
	best := math.NaN()
	for _, p := range points {
		if u := dot(w, p); !refused(p) && !(u <= best) {
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

// InvertedGenerationalDistance returns the mean Euclidean distance from each point of the reference front to the
// nearest of the points: 0 if the whole front is reached (Coello Coello, Reyes Sierra 2004). Scale the objectives
// first if their units differ. NaN without points or front. O(points·front·m).
func InvertedGenerationalDistance(points, front [][]float64) float64 {
	var sum float64
	n := 0
	for _, r := range front {
		wantLength("point", points, len(r))
		if refused(r) {
			continue
		}
		nearest := math.NaN()
		for _, p := range points {
			if d := distance(p, r); !refused(p) && !(d >= nearest) {
				nearest = d
			}
		}
		sum += nearest
		n++
	}
	if n == 0 {
		return math.NaN()
	}
	return sum / float64(n)
}

// distance returns the Euclidean distance.
func distance(p, q []float64) float64 {
	var d float64
	for i, v := range p {
		if v != q[i] { // equal infinities have distance 0
			d = math.Hypot(d, v-q[i])
		}
	}
	return d
}
