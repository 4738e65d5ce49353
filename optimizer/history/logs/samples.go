package logs

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// maxKept bounds how many values of one kind are held of a stretch; of more, a uniform sample is.
	maxKept = 1024
	// pause is the factor beyond which a value is no steady state but a pause, a restart or a stalled machine.
	pause = 3
	// recurs is how many values beyond that make a pattern.
	recurs = 3
	// seed of the samples: the same log gives the same bytes.
	seed = 0x10_95
)

// samples are the measured values of one kind (seconds of a unit, samples/s) of a stretch, in bounded memory: the first,
// which is warm-up when there are others, and a uniform random sample of the rest (reservoir, Vitter 1985, algorithm R).
type samples struct {
	first float64
	kept  []float64
	n     int // values taken, the first included
	cold  bool
	rng   *rand.Rand
}

// add takes a positive, finite value; anything else is no data.
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

// begin says that the next value is warm-up again: the job was started anew, or came back to this allocation.
func (s *samples) begin() { s.cold = s.n > 0 }

// values are what is known of the steady state, warm-up left out where there is anything else.
func (s *samples) values() []float64 {
	if len(s.kept) == 0 && s.n > 0 {
		return []float64{s.first}
	}
	return s.kept
}

// median of the steady values; NaN when there are none.
func (s *samples) median() float64 { return median(s.values()) }

// steady is the mean of the steady values, their relative standard deviation (NaN for fewer than two) and how many were
// measured. A value beyond three times the median, or below a third of it, is left out: a pause does not ruin the mean. But
// where three or more of those are alike they are work that recurs, such as an evaluation after each thousand steps, and
// count.
func (s *samples) steady() (mean, spread, count float64) {
	all := s.values()
	middle := median(all)
	var slow, fast []float64
	var m moments
	for _, v := range all {
		switch {
		case v > pause*middle:
			slow = append(slow, v)
		case v < middle/pause:
			fast = append(fast, v)
		default:
			m.add(v)
		}
	}
	for _, odd := range [][]float64{slow, fast} {
		if alike := like(odd, median(odd)); len(alike) >= recurs {
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

// like are the values within the factor pause of the middle.
func like(values []float64, middle float64) []float64 {
	return slices.DeleteFunc(slices.Clone(values), func(v float64) bool { return v > pause*middle || v < middle/pause })
}

// moments are an online mean and sum of squared deviations (Welford 1962).
type moments struct{ n, mean, m2 float64 }

func (m *moments) add(v float64) {
	m.n++
	d := v - m.mean
	m.mean += d / m.n
	m.m2 += d * (v - m.mean)
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(v))
	h := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[h]
	}
	return sorted[h-1]/2 + sorted[h]/2
}

// counter is a number that a log counts up over a run (time_so_far, cost_so_far): its total is what it says last, and more
// only where it went back.
type counter struct{ last, total float64 }

func newCounter() counter { return counter{last: math.NaN(), total: math.NaN()} }

// advance takes the next value and gives what was added. Where the number goes back, the job was started again: nearer to
// zero than to where it stood, it counts from zero; else it was restored from a checkpoint, and the first value after it adds
// nothing, for what was done since the checkpoint had been counted.
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

// pace turns a clock and a position into seconds per unit: the time between the first rows that stand at two positions.
type pace struct {
	at, from float64
	set      bool
}

// advance gives the seconds of one unit, ok when the position and the clock have both moved on. A clock that stands still
// (whole seconds, many rows in each) waits for its next tick, so that no unit seems to take longer than it did.
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
