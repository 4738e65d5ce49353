package history

import (
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/internal/stat"
)

const (
	// maxKept bounds the number of values kept per segment and kind; of more, a uniform sample is kept.
	maxKept = 1024
	// outlierFactor is the factor from the median beyond which a value is not steady state but a pause, a restart or a stall.
	outlierFactor = 3
	// minRecurring is the minimum number of such values that form a pattern.
	minRecurring = 3
	// seed of the sampling: the same log yields the same bytes.
	seed = 0x10_95
)

// samples holds the measured values of one kind (seconds per unit, samples/s) of a segment in bounded memory: the
// first value, which is warm-up if there are others, and a uniform random sample of the rest (reservoir, Vitter 1985,
// algorithm R).
type samples struct {
	first float64
	kept  []float64
	n     int // number of accepted values, including the first
	cold  bool
	rng   *rand.Rand
}

// add records a positive, finite value; other values are ignored, and so is the first value after begin.
func (s *samples) add(v float64) {
	if !(v > 0) || math.IsInf(v, 0) {
		return
	}
	cold := s.cold
	s.cold = false
	switch {
	case s.n == 0:
		s.first = v
	case cold:
		return
	case len(s.kept) < maxKept:
		s.kept = append(s.kept, v)
	default:
		if s.rng == nil {
			s.rng = rand.New(rand.NewPCG(seed, maxKept))
		}
		if at := s.rng.IntN(s.n); at < maxKept {
			s.kept[at] = v
		}
	}
	s.n++
}

// markWarmup marks the next value as warm-up: the job was restarted, or has returned to this allocation.
func (s *samples) markWarmup() { s.cold = s.n > 0 }

// values returns the steady values; the warm-up value only if there is no other.
func (s *samples) values() []float64 {
	if len(s.kept) == 0 && s.n > 0 {
		return []float64{s.first}
	}
	return s.kept
}

// steady returns the mean of the steady values, their relative standard deviation (NaN for fewer than two) and their
// number. Values above three times the median or below a third of it are excluded, so that a pause does not distort
// the mean. If three or more of the excluded values are similar to each other, they are recurring work, such as an
// evaluation every thousand steps, and are included. If values were sampled, the number is scaled to all measured
// values.
func (s *samples) steady() (mean, spread, count float64) {
	all := s.values()
	middle := stat.Median(all)
	var slow, fast []float64
	var m moments
	for _, v := range all {
		switch {
		case v > outlierFactor*middle:
			slow = append(slow, v)
		case v < middle/outlierFactor:
			fast = append(fast, v)
		default:
			m.add(v)
		}
	}
	for _, odd := range [][]float64{slow, fast} {
		if alike := like(odd, stat.Median(odd)); len(alike) >= minRecurring {
			for _, v := range alike {
				m.add(v)
			}
		}
	}
	if m.n == 0 {
		return math.NaN(), math.NaN(), math.NaN()
	}
	spread, count = math.NaN(), m.n
	if m.n > 1 {
		spread = math.Sqrt(m.m2/(m.n-1)) / m.mean
	}
	if measured := s.n - 1; measured > len(all) {
		count = math.Round(float64(measured) * m.n / float64(len(all)))
	}
	return m.mean, spread, count
}

// like returns the values within the factor pause of middle.
func like(values []float64, middle float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v > outlierFactor*middle || v < middle/outlierFactor })
}

// moments holds a running mean and sum of squared deviations (Welford 1962).
type moments struct{ n, mean, m2 float64 }

func (m *moments) add(v float64) {
	m.n++
	d := v - m.mean
	m.mean += d / m.n
	m.m2 += d * (v - m.mean)
}

// counter is a cumulative value of a log (time_so_far, cost_so_far). Its total is the last value, or more if the
// value decreased.
type counter struct{ last, total float64 }

func newCounter() counter { return counter{last: math.NaN(), total: math.NaN()} }

// advance records the next value and returns the increment. A decrease means that the job was restarted: a value
// below half of the previous one is counted from zero; a larger one was restored from a checkpoint and adds nothing,
// because the work done since the checkpoint has been counted already.
func (c *counter) advance(v float64) (added float64) {
	switch {
	case math.IsNaN(c.last):
		added, c.total = v, 0
	case v >= c.last:
		added = v - c.last
	case v < c.last/2:
		added = v
	}
	c.last = v
	c.total += added
	return added
}

// pace converts a clock and a position into seconds per unit: the time between the first rows at two successive
// positions.
type pace struct {
	at, from float64
	set      bool
}

// advance returns the seconds of one unit; ok if both position and clock have advanced. While a coarse clock (whole
// seconds, many rows in each) does not advance, the position is accumulated until its next tick, so that no unit
// seems longer than it was.
func (p *pace) advance(clock, position float64) (seconds float64, ok bool) {
	switch {
	case math.IsNaN(clock), math.IsNaN(position):
		return 0, false
	case p.set && clock > p.at && position > p.from:
		seconds, ok = (clock-p.at)/(position-p.from), true
	case p.set && clock >= p.at && position >= p.from:
		return 0, false
	}
	p.at, p.from, p.set = clock, position, true
	return seconds, ok
}
