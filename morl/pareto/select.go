package pareto

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// errEmpty reports that no point is available for selection.
var errEmpty = errors.New("no point to select from")

// Normalisation defines the unit step of each objective, so that a preference weighs relative rather than absolute
// differences. The zero value derives it from the front of the points.
type Normalisation struct {
	// Relative makes the magnitude of the best value the step of each objective; otherwise it is the distance between the
	// best and the worst value on the front.
	Relative bool
}

// choice is the point that a preference selects.
type choice struct {
	// Index is the index of the point in the input.
	Index int
	// Utility is the weighted mean of its scores: 1 is the ideal in all objectives with weight, 0 the nadir.
	Utility float64
	// Scores are its normalised objectives, 1 at the ideal and 0 at the nadir; 1 if the front has a single value.
	Scores []float64
}

// Trade is a move from the choice to another point of the front that is better in one objective: among all such
// points, the one with the smallest loss of utility per unit gained. Its rates are the cost of a further unit.
type Trade struct {
	Objective int     // the objective that improves
	To        int     // index of the other point in the input
	Gained    float64 // above 0, in the unit of Objective
	// Given is the loss in each objective, in its unit; negative for a gain, −Gained at Objective.
	Given []float64
	// Rates are Given per unit gained: the marginal rates of substitution between the two points.
	Rates []float64
}

// Select returns the point of the front with the largest weighted mean of normalised objectives. The preference has
// one weight ≥ 0 per objective, not all 0; the weights are normalised. Of equal utilities (within rounding) the first
// point is selected. A weighted sum only finds the supported points of a front; a point in a concave part is never
// selected, nor are infinite points. The error wraps errEmpty if no point remains; an invalid preference or
// normalisation is an error too. O(n log n) in addition to Front.
func Select(points [][]float64, preference []float64, by Normalisation) (choice, error) {
	sc, front, w, err := by.prepare(points, preference)
	if err != nil {
		return choice{}, fmt.Errorf("select from a front: %w", err)
	}
	const equal = 1e-12
	c := choice{Index: -1}
	for _, i := range front {
		if u := sc.utility(points[i], w); c.Index < 0 || u > c.Utility+equal {
			c.Index, c.Utility = i, u
		}
	}
	for k, v := range points[c.Index] {
		c.Scores = append(c.Scores, sc.score(k, v))
	}
	return c, nil
}

// Trades returns one trade from the point at per objective in which the front contains a better point, in the order of
// objectives. Errors are those of Select. It panics if at is not an index of points.
func Trades(points [][]float64, at int, preference []float64, by Normalisation) ([]Trade, error) {
	sc, front, w, err := by.prepare(points, preference)
	if err != nil {
		return nil, fmt.Errorf("trade on a front: %w", err)
	}
	var out []Trade
	for k := range w {
		if t, ok := sc.trade(points, front, at, k, w); ok {
			out = append(out, t)
		}
	}
	return out, nil
}

// prepare validates the arguments of Select and returns the finite part of the front and the weights, normalised to
// sum 1.
func (by Normalisation) prepare(points [][]float64, preference []float64) (sc scale, front []int, w []float64, err error) {
	if w, err = normalised(preference); err != nil {
		return scale{}, nil, nil, err
	}
	wantLength(points, len(w))
	for _, i := range Front(points) {
		if finite(points[i]) {
			front = append(front, i)
		}
	}
	if len(front) == 0 {
		return scale{}, nil, nil, errEmpty
	}
	return by.scale(points, front), front, w, nil
}

// normalised returns the preference divided by its sum.
func normalised(preference []float64) ([]float64, error) {
	var sum float64
	for _, v := range preference {
		if !(v >= 0) {
			return nil, fmt.Errorf("preference %v: want weights ≥ 0", preference)
		}
		sum += v
	}
	if !(sum > 0) || math.IsInf(sum, 0) {
		return nil, fmt.Errorf("preference %v: the weights sum to %g", preference, sum)
	}
	out := make([]float64, len(preference))
	for i, v := range preference {
		out[i] = v / sum
	}
	return out, nil
}

// finite reports whether all components are finite numbers.
func finite(p []float64) bool {
	return !slices.ContainsFunc(p, func(v float64) bool { return math.IsInf(v, 0) || math.IsNaN(v) })
}

// scale maps each objective to its score.
type scale struct{ ideal, step []float64 }

// scale derives the scale from the normalisation and the front.
func (by Normalisation) scale(points [][]float64, front []int) scale {
	ideal, nadir := extreme(points, front, math.Max), extreme(points, front, math.Min)
	sc := scale{ideal: ideal, step: make([]float64, len(ideal))}
	for k := range ideal {
		if sc.step[k] = ideal[k] - nadir[k]; by.Relative {
			sc.step[k] = math.Abs(ideal[k])
		}
	}
	return sc
}

// extreme returns the extreme value of each objective over the front.
func extreme(points [][]float64, front []int, of func(a, b float64) float64) []float64 {
	out := append([]float64(nil), points[front[0]]...)
	for _, i := range front {
		for k, v := range points[i] {
			out[k] = of(out[k], v)
		}
	}
	return out
}

// score returns 1 at the ideal and 1 less per step; always 1 if the step is 0.
func (sc scale) score(k int, v float64) float64 {
	if !(sc.step[k] > 0) {
		return 1
	}
	return 1 - (sc.ideal[k]-v)/sc.step[k]
}

// utility returns the weighted sum of scores over objectives with weight.
func (sc scale) utility(p, w []float64) float64 {
	var sum float64
	for k, v := range p {
		if w[k] > 0 {
			sum += w[k] * sc.score(k, v)
		}
	}
	return sum
}

// trade returns the cheapest move to a point that is better in an objective: the smallest loss of utility in the
// other objectives (equally weighted if the preference gives none of them weight) per unit gained, then the smallest
// gain.
func (sc scale) trade(points [][]float64, front []int, from, objective int, w []float64) (Trade, bool) {
	others := make([]float64, len(w))
	var sum float64
	for k, v := range w {
		if k != objective {
			others[k] = v
			sum += v
		}
	}
	for k := range others {
		if k != objective && sum == 0 {
			others[k] = 1
		}
	}
	p := points[from]
	t, least := Trade{Objective: objective, To: -1}, 0.0
	for _, i := range front {
		gained := points[i][objective] - p[objective]
		if !(gained > 0) {
			continue
		}
		price := (sc.utility(p, others) - sc.utility(points[i], others)) / gained
		if t.To < 0 || price < least || price == least && gained < t.Gained {
			t.To, t.Gained, least = i, gained, price
		}
	}
	if t.To < 0 {
		return t, false
	}
	for k, v := range p {
		given := v - points[t.To][k]
		t.Given = append(t.Given, given)
		t.Rates = append(t.Rates, given/t.Gained)
	}
	return t, true
}
