package report

import (
	"math"
	"strconv"
)

// scale maps data to pixels along one axis.
type scale struct {
	min, max float64
	log      bool
	from, to float64 // pixels
	ticks    []float64
	label    func(float64) string
	unit     string // in words, for the title of the axis
}

func (s *scale) at(v float64) float64 {
	lo, hi := s.min, s.max
	if s.log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(v)
	}
	if hi == lo {
		return s.from
	}
	return s.from + (v-lo)/(hi-lo)*(s.to-s.from)
}

// newScale makes an axis over values; zero asks for 0 to be on it, headroom for room above. About n ticks.
func newScale(values []float64, n int, zero, log bool) *scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if known(v) && (!log || v > 0) {
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	if lo > hi {
		lo, hi = 0, 1
		if log {
			lo = 0.1
		}
	}
	s := &scale{min: lo, max: hi, log: log}
	if log {
		s.logTicks()
		return s
	}
	if zero {
		s.min, s.max = math.Min(0, lo), math.Max(0, hi)
	}
	s.widen()
	step := niceStep((s.max - s.min) / float64(n))
	s.ticksEvery(step)
	return s
}

// widen gives room to values that are all the same, or so close that floating point cannot count between them.
func (s *scale) widen() {
	size := math.Max(math.Abs(s.min), math.Abs(s.max))
	if s.max-s.min > 1e-9*size {
		return
	}
	if size < 1e-100 {
		s.min, s.max = 0, 1
		return
	}
	s.min, s.max = s.min-.1*size, s.max+.1*size
}

// ticksEvery widens the axis to whole steps and sets ticks there.
func (s *scale) ticksEvery(step float64) {
	first, last := math.Floor(s.min/step+1e-9), math.Ceil(s.max/step-1e-9)
	s.min, s.max, s.ticks = first*step, last*step, nil
	for i := range min(int(last-first+.5)+1, 50) {
		s.ticks = append(s.ticks, (first+float64(i))*step)
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	s.label = func(v float64) string {
		if decimals == 0 {
			return thousands(v)
		}
		return strconv.FormatFloat(v, 'f', decimals, 64)
	}
}

// niceStep is 1, 2 or 5 times a power of ten, at least v.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// logTicks sets ticks at 1, 2 and 5 times powers of ten, and the ends at the ticks around the data.
func (s *scale) logTicks() {
	var all []float64
	for e := math.Floor(math.Log10(s.min)) - 1; e <= math.Ceil(math.Log10(s.max)); e++ {
		for _, m := range []float64{1, 2, 5} {
			all = append(all, m*math.Pow(10, e))
		}
	}
	lo, hi := 0, len(all)-1
	for i, t := range all {
		if t <= s.min*(1+1e-9) {
			lo = i
		}
		if t >= s.max*(1-1e-9) && i < hi {
			hi = i
		}
	}
	s.ticks = all[lo : max(hi, lo+1)+1]
	s.min, s.max = s.ticks[0], s.ticks[len(s.ticks)-1]
	s.label = func(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
	for len(s.ticks) > 8 { // only the powers of ten, or every other tick
		var fewer []float64
		for i, t := range s.ticks {
			if i%2 == 0 {
				fewer = append(fewer, t)
			}
		}
		s.ticks = fewer
	}
}

// newTimeScale is an axis of seconds with ticks at whole seconds, minutes, hours or days. When tight,
// it ends where the data ends.
func newTimeScale(values []float64, n int, zero, tight bool) *scale {
	s := newScale(values, n, zero, false)
	lo, hi := minOf(values), maxOf(values)
	if zero {
		lo = math.Min(lo, 0)
	}
	if lo > hi || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		lo, hi = 0, 1
	}
	ends := &scale{min: lo, max: hi}
	ends.widen()
	lo, hi = ends.min, ends.max
	s.unit = "seconds"
	unit := 1.0
	switch {
	case hi > 3*86400:
		unit, s.unit = 86400, "days"
	case hi > 3*3600:
		unit, s.unit = 3600, "hours"
	case hi > 180:
		unit, s.unit = 60, "minutes"
	}
	step := (hi - lo) / float64(n)
	for _, nice := range []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400} {
		if nice >= step*(1-1e-9) {
			step = nice
			break
		}
	}
	if hi-lo < float64(n) {
		step = niceStep((hi - lo) / float64(n))
	}
	if step > 86400 || step < (hi-lo)/float64(n)*(1-1e-9) {
		step = niceStep((hi-lo)/float64(n)/86400) * 86400
	}
	s.min, s.max = lo, hi
	s.ticksEvery(step)
	if tight {
		s.min, s.max = lo, hi
		var inside []float64
		for _, t := range s.ticks {
			if t >= lo-1e-9 && t <= hi+1e-9 {
				inside = append(inside, t)
			}
		}
		s.ticks = inside
	}
	s.label = func(v float64) string {
		if v /= unit; v == math.Trunc(v) {
			return thousands(v)
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return s
}
