package share

import "math"

// bounds is an interval that contains an unknown.
type bounds struct{ lo, hi float64 }

func (b bounds) middle() float64 { return b.lo + (b.hi-b.lo)/2 }

// probe is the result of evaluating demands at one level: the common factor by which they can be multiplied, and the
// bounds that it implies for the level at which the factor is 1.
type probe struct {
	factor float64
	within bounds
}

const (
	levelGap  = 1e-9 // relative
	maxProbes = 100  // bisection converges earlier
)

// threshold finds the level, within bounds, at which the factor of the demands is 1. It evaluates first, then follows
// the secant through the logarithms of the last two factors, and bisects where that leaves the bounds.
func threshold(within bounds, first float64, try func(level float64) (probe, error)) (float64, error) {
	level := first
	var before, logBefore float64
	for k := range maxProbes {
		got, err := try(level)
		if err != nil {
			return 0, err
		}
		if math.Abs(got.factor-1) <= levelGap {
			return level, nil
		}
		within = bounds{max(within.lo, got.within.lo), min(within.hi, got.within.hi)}
		if within.hi-within.lo <= levelGap*math.Abs(within.hi) {
			break
		}
		log := math.Log(got.factor)
		next := math.NaN()
		if k > 0 {
			next = level - log*(level-before)/(log-logBefore)
		}
		before, logBefore = level, log
		if !(next > within.lo && next < within.hi) {
			next = within.middle()
		}
		level = next
	}
	return within.middle(), nil
}
