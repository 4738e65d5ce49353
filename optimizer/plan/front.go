package plan

import (
	"math"

	"trainopt/morl/pareto"
)

// objectives returns the three coordinates of the front; lower is better.
func objectives(c Candidate) [3]float64 {
	return [3]float64{c.Seconds.P50, c.CostUSD.P50, c.Resource}
}

// front returns the positions of the candidates that are not dominated in (median seconds, median cost, resource
// share), ascending. Equal points are all included; points that are not finite are not. O(n log n).
func front(cs []Candidate) []int {
	points, coordinates := make([][]float64, len(cs)), make([]float64, 0, 3*len(cs))
	for i, c := range cs {
		ok := finite(c)
		for _, x := range objectives(c) {
			if !ok {
				x = math.NaN() // rejected
			}
			coordinates = append(coordinates, -x) // package pareto maximises
		}
		points[i] = coordinates[3*i : 3*i+3]
	}
	best := map[[3]float64]bool{}
	for _, i := range pareto.Front(points) {
		best[objectives(cs[i])] = true
	}
	return where(cs, func(c Candidate) bool { return finite(c) && best[objectives(c)] })
}

// dominates reports whether a is at least as good as b in every objective and better in one.
func dominates(a, b Candidate) bool {
	p, q := objectives(a), objectives(b)
	better := false
	for i := range p {
		if !(p[i] <= q[i]) {
			return false
		}
		better = better || p[i] < q[i]
	}
	return better
}
