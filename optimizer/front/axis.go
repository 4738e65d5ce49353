package front

import (
	"math"
	"strconv"
)

// axis maps values to 0…1, with about n ticks at round numbers. Where the values span more than wide-fold it is logarithmic.
type axis struct {
	lo, hi float64
	log    bool
	ticks  []float64
	label  func(float64) string
	unit   string
}

const wide = 25

func (a axis) at(v float64) float64 {
	if a.log {
		return (math.Log(v) - math.Log(a.lo)) / (math.Log(a.hi) - math.Log(a.lo))
	}
	return (v - a.lo) / (a.hi - a.lo)
}

// newAxis covers the values with some room. The steps allowed are 1, 2, 5 times a power of ten of the unit.
func newAxis(values []float64, n int, size float64, label func(float64) string, unit string) axis {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range values {
		lo, hi = min(lo, v/size), max(hi, v/size)
	}
	a := axis{lo: lo, hi: hi, unit: unit, label: label}
	switch {
	case lo > 0 && hi/lo > wide:
		a.log = true
		a.lo, a.hi = lo/1.3, hi*1.3
		for e := math.Floor(math.Log10(a.lo)); e <= math.Ceil(math.Log10(a.hi)); e++ {
			for _, m := range []float64{1, 3} {
				if t := m * math.Pow(10, e); t >= a.lo && t <= a.hi && (m == 1 || a.hi/a.lo < 1000) {
					a.ticks = append(a.ticks, t)
				}
			}
		}
	default:
		room := (hi - lo) * 0.07
		if !(hi-lo > 1e-9*math.Abs(hi)) {
			if room = math.Abs(hi) * 0.1; room == 0 {
				room = 1
			}
		}
		a.lo, a.hi = lo-room, hi+room
		if lo >= 0 && a.lo < (a.hi-a.lo)*0.15 {
			a.lo = 0
		}
		step := niceStep((a.hi - a.lo) / float64(n))
		for k := math.Ceil(a.lo/step - 1e-9); k*step <= a.hi*(1+1e-12) && len(a.ticks) < 50; k++ {
			a.ticks = append(a.ticks, k*step+0)
		}
	}
	a.lo, a.hi = a.lo*size, a.hi*size
	for i := range a.ticks {
		a.ticks[i] *= size
	}
	return a
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

func plain(v float64) string {
	if v >= 1e5 || v != 0 && math.Abs(v) < 1e-4 {
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	return strconv.FormatFloat(math.Round(v*1e6)/1e6+0, 'f', -1, 64) // +0: no "-0"
}

// axes are time and cost over all points.
func (f *Front) axes(nx, ny int) (x, y axis) {
	var seconds, cost []float64
	longest := 0.0
	for _, p := range f.Points {
		seconds, cost = append(seconds, p.Seconds.P50), append(cost, p.CostUSD.P50)
		longest = max(longest, p.Seconds.P50)
	}
	u := unit{1, "seconds"}
	switch {
	case longest > 3*86400:
		u = unit{86400, "days"}
	case longest > 3*3600:
		u = unit{3600, "hours"}
	case longest > 180:
		u = unit{60, "minutes"}
	}
	x = newAxis(seconds, nx, u.size, func(v float64) string { return plain(v / u.size) }, u.name)
	y = newAxis(cost, ny, 1, func(v float64) string { return "$" + plain(v) }, "USD")
	return x, y
}
