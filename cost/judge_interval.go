package cost

import "math"

// Factors is an interval of the factor by which something changes, now / before; 1 is no change.
type Factors struct{ Low, High float64 }

// JudgeIntervals judges as Judge does, but grants a change only as far as the whole interval shows it: each factor counts
// as the value of its interval that is nearest to no change. An end that is not positive or not finite is unknown.
func JudgeIntervals(cost, time Factors) Quality { return Judge(cost.sure(), time.sure()) }

// sure is the factor nearest to 1 in the interval, NaN when an end is unknown.
func (f Factors) sure() float64 {
	if !(f.Low > 0) || !(f.High > 0) || math.IsInf(f.Low, 0) || math.IsInf(f.High, 0) {
		return math.NaN()
	}
	return min(max(1, min(f.Low, f.High)), max(f.Low, f.High))
}
