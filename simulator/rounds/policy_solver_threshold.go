package rounds

import "math"

// bounds are two numbers between which something is.
type bounds struct{ lo, hi float64 }

func (b bounds) and(c bounds) bounds { return bounds{max(b.lo, c.lo), min(b.hi, c.hi)} }

func (b bounds) middle() float64 { return b.lo + (b.hi-b.lo)/2 }

// probe is what demands at one level tell: how many times all of them can be met, and where that makes the level lie at which they
// can be met exactly once.
type probe struct {
	factor float64
	within bounds
}

const (
	levelGap  = 1e-9 // relative
	maxProbes = 100  // halving the bounds takes less
)

// threshold finds the level, within bounds, at which demands can be met exactly once. try is asked about levels: the first; then
// where the line through the logarithms of the last two factors says; the middle, where that is out of bounds.
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
		within = within.and(got.within)
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
