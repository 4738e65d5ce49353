package pareto

import (
	"errors"
	"fmt"
	"math"
)

// ErrEmpty says that there is no point to select from.
var ErrEmpty = errors.New("no point to select from")

// Normalisation says what counts as one whole step of an objective, so that a preference weighs shares and not units. The
// zero value takes it from the front of the points.
type Normalisation struct {
	// Ideal and Nadir are the value of each objective that scores 1 and the one that scores 0; nil: the best and the
	// worst on the front. They need not be reached.
	Ideal, Nadir []float64
	// LeastRange is the smallest step of an objective, relative to the size of its ideal: where all points are within a
	// few percent of each other, the objective hardly matters. 0: none.
	LeastRange float64
}

// Choice is the point that a preference selects.
type Choice struct {
	// Index is its position among the points given.
	Index int
	// Utility is the weighted mean of its scores: 1 is the ideal in all objectives that have weight, 0 the nadir.
	Utility float64
	// Scores are its normalised objectives, 1 at the ideal and 0 at the nadir; 1 where the front has only one value.
	Scores []float64
	// Trades has one entry an objective in which the front offers more, in the order of objectives.
	Trades []Trade
}

// Trade is a move from the choice to another point of the front that is better in one objective: of all such, the one that
// gives up the least, by the preference, per unit gained. Its rates are what a further unit costs.
type Trade struct {
	Objective int     // the one that improves
	To        int     // position of the other point among the points given
	Gained    float64 // > 0, in the unit of Objective
	// Given is what the other point has less of, by objective in its unit; negative where it has more, −Gained at Objective.
	Given []float64
	// Rates are Given per unit gained: the marginal rates of substitution between the two.
	Rates []float64
}

// Select returns the point of the front with the largest weighted mean of normalised objectives. The preference has a
// weight ≥ 0 an objective, not all 0; they are normalised. Of equal utilities (within rounding) the first point wins. A
// weighted sum finds the supported points of a front only; a point in a dent of it is never selected. Infinite
// points are not selected. ErrEmpty when nothing is left; an error too for a preference or normalisation that is none.
// O(n log n) beyond Front.
func Select(points [][]float64, preference []float64, by Normalisation) (Choice, error) {
	sc, front, w, err := by.prepare(points, preference)
	if err != nil {
		return Choice{}, fmt.Errorf("select from a front: %w", err)
	}
	const equal = 1e-12
	c := Choice{Index: -1}
	for _, i := range front {
		if u := sc.utility(points[i], w); c.Index < 0 || u > c.Utility+equal {
			c.Index, c.Utility = i, u
		}
	}
	for k, v := range points[c.Index] {
		c.Scores = append(c.Scores, sc.score(k, v))
	}
	c.Trades = sc.trades(points, front, c.Index, w)
	return c, nil
}

// Trades are the Trades of a Choice for a point that was chosen otherwise; errors are those of Select. It panics when at is
// not a position in points.
func Trades(points [][]float64, at int, preference []float64, by Normalisation) ([]Trade, error) {
	sc, front, w, err := by.prepare(points, preference)
	if err != nil {
		return nil, fmt.Errorf("trade on a front: %w", err)
	}
	return sc.trades(points, front, at, w), nil
}

// Utilities are the Utility of a Choice for every point, on the front or not, −Inf for those that are never selected; errors
// are those of Select.
func Utilities(points [][]float64, preference []float64, by Normalisation) ([]float64, error) {
	sc, _, w, err := by.prepare(points, preference)
	if err != nil {
		return nil, fmt.Errorf("utilities of a front: %w", err)
	}
	out := make([]float64, len(points))
	for i, p := range points {
		if out[i] = math.Inf(-1); finite(p) {
			out[i] = sc.utility(p, w)
		}
	}
	return out, nil
}

// prepare checks the arguments of Select and gives the finite part of the front and the weights that sum to 1.
func (by Normalisation) prepare(points [][]float64, preference []float64) (sc scale, front []int, w []float64, err error) {
	if w, err = normalised(preference); err != nil {
		return scale{}, nil, nil, err
	}
	wantLength("point", points, len(w))
	for _, i := range Front(points) {
		if finite(points[i]) {
			front = append(front, i)
		}
	}
	if len(front) == 0 {
		return scale{}, nil, nil, ErrEmpty
	}
	sc, err = by.scale(points, front)
	return sc, front, w, err
}

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

func finite(p []float64) bool {
	for _, v := range p {
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return false
		}
	}
	return true
}

// scale maps each objective to its score.
type scale struct{ ideal, step []float64 }

func (by Normalisation) scale(points [][]float64, front []int) (scale, error) {
	m := len(points[front[0]])
	ideal, nadir := by.Ideal, by.Nadir
	for i, v := range [][]float64{ideal, nadir} {
		if v != nil && (len(v) != m || !finite(v)) {
			return scale{}, fmt.Errorf("%s %v: want %d finite numbers", [...]string{"ideal", "nadir"}[i], v, m)
		}
	}
	if ideal == nil {
		ideal = extreme(points, front, math.Max)
	}
	if nadir == nil {
		nadir = extreme(points, front, math.Min)
	}
	sc := scale{ideal: ideal, step: make([]float64, m)}
	for k := range m {
		sc.step[k] = math.Max(ideal[k]-nadir[k], by.LeastRange*math.Abs(ideal[k]))
	}
	return sc, nil
}

func extreme(points [][]float64, front []int, of func(a, b float64) float64) []float64 {
	out := append([]float64(nil), points[front[0]]...)
	for _, i := range front {
		for k, v := range points[i] {
			out[k] = of(out[k], v)
		}
	}
	return out
}

// score is 1 at the ideal, falling by 1 a step; always 1 where there is no step.
func (sc scale) score(k int, v float64) float64 {
	if !(sc.step[k] > 0) {
		return 1
	}
	return 1 - (sc.ideal[k]-v)/sc.step[k]
}

func (sc scale) utility(p, w []float64) float64 {
	var sum float64
	for k, v := range p {
		if w[k] > 0 {
			sum += w[k] * sc.score(k, v)
		}
	}
	return sum
}

// trades has the trade in each objective in which the front offers more than the point.
func (sc scale) trades(points [][]float64, front []int, from int, w []float64) []Trade {
	var out []Trade
	for k := range w {
		if t, ok := sc.trade(points, front, from, k, w); ok {
			out = append(out, t)
		}
	}
	return out
}

// trade is the cheapest move from a point to one better in an objective: the least utility of the other objectives (all
// alike when the preference cares for none of them) per unit gained, then the smallest gain.
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
