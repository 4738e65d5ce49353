package cost

import (
	"cmp"
	"fmt"
	"math"
	"strings"
)

// Need is the measured or predicted resource demand of a job on one machine.
type Need struct {
	GPUs         int     // 0: none
	GPU          string  // canonical model; "" any
	GPUMemoryGiB float64 // peak of the fullest GPU; NaN: unknown
	CPUs         float64 // number of busy CPUs; NaN: unknown
	MemoryGiB    float64 // peak, host; NaN: unknown
	Margin       float64 // relative margin added to memory peaks; 0 means 0.15, below 0 none
	Arch         string  // "amd64" or "arm64"; "" any
}

// defaultMargin is added to measured memory peaks, because the observed peak may not be the true one.
const defaultMargin = 0.15

// Fits reports whether an offer satisfies the need, and describes what it lacks. Excess resources are accepted. NaN
// values are not checked; see [Need.Unchecked]. Accelerators that do not run CUDA, such as Trainium, fit only if
// requested by name.
func (n Need) Fits(o Offer) (ok bool, lacks string) {
	margin := cmp.Or(n.Margin, defaultMargin)
	grow := 1 + max(0, margin)
	var list []string
	lack := func(format string, args ...any) { list = append(list, fmt.Sprintf(format, args...)) }
	if n.GPUs > 0 {
		switch {
		case o.GPUs < n.GPUs:
			lack("%d GPUs, %d needed", o.GPUs, n.GPUs)
		case n.GPU != "" && GPUModel(n.GPU) != o.GPU:
			lack("its GPU is %s, needed is %s", o.GPU, GPUModel(n.GPU))
		case n.GPU == "" && ownSoftware[o.GPU]:
			lack("%s runs only software made for it", o.GPU)
		}
		if need := n.GPUMemoryGiB * grow; o.GPUs > 0 && need > float64(o.GPUMemory) {
			lack("%.4g GiB per GPU, %.4g needed", float64(o.GPUMemory), need)
		}
	}
	if n.CPUs > float64(o.CPUs) {
		lack("%d CPUs, %.4g needed", o.CPUs, n.CPUs)
	}
	if need := n.MemoryGiB * grow; need > float64(o.Memory) {
		lack("%.4g GiB of memory, %.4g needed", float64(o.Memory), need)
	}
	if n.Arch != "" && n.Arch != o.Arch() {
		lack("its CPUs are %s, needed are %s", o.Arch(), n.Arch)
	}
	return len(list) == 0, strings.Join(list, "; ")
}

// Unchecked returns the names of the resources that Fits cannot check because the need is unknown.
func (n Need) Unchecked() []string {
	var list []string
	if n.GPUs > 0 && math.IsNaN(n.GPUMemoryGiB) {
		list = append(list, "GPU memory")
	}
	if math.IsNaN(n.CPUs) {
		list = append(list, "CPUs")
	}
	if math.IsNaN(n.MemoryGiB) {
		list = append(list, "host memory")
	}
	return list
}

// Spread is an estimate with its 90 % interval.
type Spread struct{ P5, P50, P95 float64 }

// quote is the projected cost of a job on one offer.
type quote struct {
	Paid Spread // paid hours
	Wall Spread // wall-clock hours until completion
	Cost Spread // USD
	// Interruption is the part of Cost.P50 that is expected from interruptions, USD; 0 on demand.
	Interruption USD
	// Interruptions are the interruptions assumed; the zero value on demand.
	Interruptions Interruptions
}

// Quote returns the projected cost of a job with the given hours of uninterrupted running on an offer, at the
// price that UseSpot selects, for the whole machine. P50 is the expectation at the median hours and rate of
// interruptions. The ends of the interval add in quadrature the change of the expectation with the hours, its change
// with the rate, and 1.645 standard deviations of the random interruptions; no value is below the uninterrupted
// hours. Without interruptions the interval is that of the hours. ok is false if hours or price are unknown or the
// job would never complete.
func (o Offer) Quote(hours Spread, i Interruptions) (quote, bool) {
	price := float64(o.Price())
	if !(hours.P5 > 0) || !(hours.P50 >= hours.P5) || !(hours.P95 >= hours.P50) || math.IsInf(hours.P95, 0) || !(price > 0) {
		return quote{}, false
	}
	q := quote{Paid: hours, Wall: hours}
	if o.UseSpot {
		q.Interruptions = i
		q.Paid, q.Wall = i.spreads(hours)
		q.Interruption = USD(price * (q.Paid.P50 - hours.P50))
	}
	q.Cost = Spread{price * q.Paid.P5, price * q.Paid.P50, price * q.Paid.P95}
	return q, !math.IsInf(q.Cost.P95, 0) && !math.IsInf(q.Wall.P95, 0) && !math.IsNaN(q.Wall.P95)
}

// spreads returns the intervals of the paid hours and of the wall-clock hours.
func (i Interruptions) spreads(hours Spread) (paid, wall Spread) {
	low, high := i, i
	low.PerHour, low.AwayHours = orElse(i.PerHourLow, i.PerHour), orElse(i.AwayLow, i.AwayHours)
	high.PerHour, high.AwayHours = orElse(i.PerHourHigh, i.PerHour), orElse(i.AwayHigh, i.AwayHours)
	paid.P50, wall.P50 = i.Expected(hours.P50)
	devPaid, devWall := i.Deviation(hours.P50)
	end := func(h float64, rate Interruptions, sign float64) (p, w float64) {
		hp, hw := i.Expected(h)
		rp, rw := rate.Expected(hours.P50)
		p = paid.P50 + sign*norm(hp-paid.P50, rp-paid.P50, z95*devPaid)
		w = wall.P50 + sign*norm(hw-wall.P50, rw-wall.P50, z95*devWall)
		return max(p, h), max(w, h)
	}
	paid.P5, wall.P5 = end(hours.P5, low, -1)
	paid.P95, wall.P95 = end(hours.P95, high, 1)
	return paid, wall
}

// z95 is the 95 % quantile of the normal distribution.
const z95 = 1.6449

func norm(a, b, c float64) float64 { return math.Hypot(math.Hypot(a, b), c) }

// orElse returns value if it is positive, otherwise other.
func orElse(value, other float64) float64 {
	if value > 0 {
		return value
	}
	return other
}
