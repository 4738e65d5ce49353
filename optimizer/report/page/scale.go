package page

import (
	"math"
	"slices"
	"strconv"
	"strings"
)

// Scale maps data values to pixels along one axis.
type Scale struct {
	Min, Max float64
	Log      bool
	From, To float64 // pixels
	Ticks    []float64
	Label    func(float64) string
	Unit     string // spelled out, for the axis title
}

// At returns the pixel position of a value.
func (s *Scale) At(v float64) float64 {
	lo, hi := s.Min, s.Max
	if s.Log {
		lo, hi, v = math.Log(lo), math.Log(hi), math.Log(max(v, leastOfLog))
	}
	if hi == lo {
		return s.From
	}
	return s.From + (v-lo)/(hi-lo)*(s.To-s.From)
}

// value returns the value at a fraction of the axis; the inverse of At.
func (s *Scale) value(fraction float64) float64 {
	if s.Log {
		return s.Min * math.Pow(s.Max/s.Min, fraction)
	}
	return s.Min + fraction*(s.Max-s.Min)
}

// leastOfLog is the least value of a logarithmic axis: those below are drawn there. Powers of ten of subnormal numbers
// are not exact.
const leastOfLog = 1e-300

// NewScale returns an axis over the known values with about n ticks. If zero is set, the axis includes 0.
func NewScale(values []float64, n int, zero, log bool) *Scale {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		if Known(v) && (!log || v > 0) {
			if log {
				v = max(v, leastOfLog)
			}
			lo, hi = math.Min(lo, v), math.Max(hi, v)
		}
	}
	if lo > hi {
		lo, hi = 0, 1
		if log {
			lo = 0.1
		}
	}
	s := &Scale{Min: lo, Max: hi, Log: log}
	if log {
		s.logTicks()
		return s
	}
	if zero {
		s.Min, s.Max = math.Min(0, lo), math.Max(0, hi)
	}
	s.widen()
	step := niceStep((s.Max - s.Min) / float64(n))
	s.ticksEvery(step)
	return s
}

// widen extends an axis whose values are equal or too close to be distinguished in floating point.
func (s *Scale) widen() {
	size := math.Max(math.Abs(s.Min), math.Abs(s.Max))
	if s.Max-s.Min > 1e-9*size {
		return
	}
	if size < 1e-100 {
		s.Min, s.Max = 0, 1
		return
	}
	s.Min, s.Max = s.Min-.1*size, s.Max+.1*size
}

// ticksEvery extends the axis to multiples of step and sets ticks there.
func (s *Scale) ticksEvery(step float64) {
	first, last := math.Floor(s.Min/step+1e-9), math.Ceil(s.Max/step-1e-9)
	s.Min, s.Max, s.Ticks = first*step, last*step, nil
	for i := range min(int(last-first+.5)+1, 50) {
		s.Ticks = append(s.Ticks, (first+float64(i))*step)
	}
	decimals := max(0, -int(math.Floor(math.Log10(step)+1e-9)))
	s.Label = func(v float64) string {
		text := Thousands(v)
		switch {
		case decimals > 8:
			text = strconv.FormatFloat(v, 'g', 6, 64)
		case decimals > 0:
			text = Fixed(v, decimals)
		}
		return strings.Replace(text, "-", "−", 1)
	}
}

// niceStep returns the smallest 1, 2 or 5 times a power of ten that is at least v.
func niceStep(v float64) float64 {
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 5} {
		if m*p >= v*(1-1e-9) {
			return m * p
		}
	}
	return 10 * p
}

// logTicks sets ticks at 1, 2 and 5 times powers of ten and the ends of the axis at the ticks around the data.
func (s *Scale) logTicks() {
	var all []float64
	for e := math.Floor(math.Log10(s.Min)) - 1; e <= math.Ceil(math.Log10(s.Max)); e++ {
		for _, m := range []float64{1, 2, 5} {
			all = append(all, m*math.Pow(10, e))
		}
	}
	lo, hi := 0, len(all)-1
	for i, t := range all {
		if t <= s.Min*(1+1e-9) {
			lo = i
		}
		if t >= s.Max*(1-1e-9) && i < hi {
			hi = i
		}
	}
	s.Ticks = all[lo : max(hi, lo+1)+1]
	s.Min, s.Max = s.Ticks[0], s.Ticks[len(s.Ticks)-1]
	s.Label = func(v float64) string {
		if v >= 1000 && v < 1e7 {
			return Thousands(v)
		}
		return strconv.FormatFloat(v, 'g', 6, 64)
	}
	for len(s.Ticks) > 8 {
		s.Ticks = everyOther(s.Ticks)
	}
}

// everyOther returns the first, third, fifth … tick.
func everyOther(ticks []float64) []float64 {
	n := 0
	return slices.DeleteFunc(ticks, func(float64) bool { n++; return n%2 == 0 })
}

// newTimeScale returns an axis of seconds with ticks at whole seconds, minutes, hours or days. If tight is set, it ends
// where the data ends.
func newTimeScale(values []float64, n int, zero, tight bool) *Scale {
	s := NewScale(values, n, zero, false)
	lo, hi := least(values), most(values)
	if zero {
		lo = math.Min(lo, 0)
	}
	if lo > hi || math.IsInf(lo, 0) || math.IsInf(hi, 0) {
		lo, hi = 0, 1
	}
	ends := &Scale{Min: lo, Max: hi}
	ends.widen()
	lo, hi = ends.Min, ends.Max
	unit, name := timeUnit(hi)
	s.Unit = name
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
	s.Min, s.Max = lo, hi
	s.ticksEvery(step)
	if tight {
		s.Min, s.Max = lo, hi
		s.Ticks = slices.DeleteFunc(s.Ticks, func(t float64) bool { return t < lo-1e-9 || t > hi+1e-9 })
	}
	s.Label = func(v float64) string {
		if v /= unit; v == math.Trunc(v) {
			return Thousands(v)
		}
		return strconv.FormatFloat(v, 'g', 4, 64)
	}
	return s
}

// timeUnit returns the unit for an axis that ends at most seconds, and its length in seconds.
func timeUnit(most float64) (seconds float64, name string) {
	switch {
	case most > 3*86400:
		return 86400, "days"
	case most > 3*3600:
		return 3600, "hours"
	case most > 180:
		return 60, "minutes"
	}
	return 1, "seconds"
}

// newLogTimeScale returns a logarithmic axis of seconds with round numbers of one unit.
func newLogTimeScale(values []float64) *Scale {
	unit, name := timeUnit(most(values))
	inUnit := make([]float64, len(values))
	for i, v := range values {
		inUnit[i] = v / unit
	}
	s := NewScale(inUnit, 0, false, true)
	s.Unit, s.Min, s.Max = name, s.Min*unit, s.Max*unit
	for i := range s.Ticks {
		s.Ticks[i] *= unit
	}
	label := s.Label
	s.Label = func(v float64) string { return label(v / unit) }
	return s
}
