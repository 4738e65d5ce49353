package plan

import (
	"cmp"
	"slices"
)

// objectives returns the three coordinates of the front; lower is better.
func objectives(c Candidate) [3]float64 {
	return [3]float64{c.Seconds.P50, c.CostUSD.P50, c.Resource}
}

// front returns the positions of the candidates that are not dominated in (median seconds, median cost, resource
// share), ascending. Equal points are all included; points that are not finite are not. It sweeps by time over a
// staircase of (cost, resource): O(n log n) comparisons (Kung, Luccio, Preparata 1975).
func front(cs []Candidate) []int {
	var order []int
	for i, c := range cs {
		if finite(c) {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(i, j int) int {
		a, b := objectives(cs[i]), objectives(cs[j])
		return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1]), cmp.Compare(a[2], b[2]))
	})
	var stairs []stair // ascending cost, descending resource
	var out []int
	for k, i := range order {
		p := objectives(cs[i])
		if k > 0 && p == objectives(cs[order[k-1]]) { // a duplicate is included exactly when the first one is
			if n := len(out); n > 0 && out[n-1] == order[k-1] {
				out = append(out, i)
			}
			continue
		}
		at, _ := slices.BinarySearchFunc(stairs, p[1], func(s stair, cost float64) int {
			if s.cost <= cost {
				return -1
			}
			return 1
		})
		if at > 0 && stairs[at-1].resource <= p[2] {
			continue // dominated by the stair with the least resources among those of at most this cost
		}
		out = append(out, i)
		end := at
		for end < len(stairs) && stairs[end].resource >= p[2] {
			end++
		}
		if at > 0 && stairs[at-1].cost == p[1] {
			at--
		}
		stairs = slices.Replace(stairs, at, end, stair{p[1], p[2]})
	}
	slices.Sort(out)
	return out
}

// stair is a step of the sweep: no point seen so far has at most this cost and fewer resources.
type stair struct{ cost, resource float64 }

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
