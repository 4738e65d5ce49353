package cost

import (
	"fmt"
	"math"
	"strings"
)

// Need is what a job was measured, or is predicted, to need of one machine.
type Need struct {
	GPUs         int     // 0 none
	GPU          string  // canonical model; "" any
	GPUMemoryGiB float64 // peak of the fullest GPU; NaN unknown
	CPUs         float64 // that it keeps busy; NaN unknown
	MemoryGiB    float64 // peak, host; NaN unknown
	Margin       float64 // what is added to peaks of memory; 0 means 0.15, below 0 none
	Arch         string  // "amd64" or "arm64"; "" any
}

// defaultMargin is added to measured peaks of memory: a peak is the highest that was seen, not the highest there is.
const defaultMargin = 0.15

// Fits says whether an offer has what is needed, and what it lacks in words. More than is needed fits. What is NaN is not
// looked at; see [Need.Unchecked]. Accelerators that run no CUDA, such as Trainium, fit only where they are asked for by name.
func (n Need) Fits(o Offer) (ok bool, lacks string) {
	margin := n.Margin
	if margin == 0 {
		margin = defaultMargin
	}
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
			lack("%.4g GiB a GPU, %.4g needed", float64(o.GPUMemory), need)
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

// Unchecked names what Fits could not look at because it is not known.
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

// Spread is a number with its 90 % interval.
type Spread struct{ P5, P50, P95 float64 }

// Quote is what a job comes to on one offer.
type Quote struct {
	Offer Offer  // UseSpot tells whether the price is that of spot capacity
	Hours Spread // of undisturbed running, as they were given
	Paid  Spread // hours that are paid for
	Wall  Spread // hours until it is done
	Cost  Spread // USD
	// Interruption is the part of Cost.P50 that interruptions are expected to cost, USD; 0 on demand.
	Interruption USD
	// Interruptions are what was reckoned with; the zero value on demand.
	Interruptions Interruptions
}

// QuoteOffer is what a job of so many undisturbed hours comes to on an offer, at the price that its UseSpot chooses, paid by
// the hour for the whole machine. The middle is the expectation at the middle of the hours and of the rate of interruptions. The ends
// add in quadrature how far the expectation moves with the hours, with the rate, and 1.645 standard deviations of the
// luck with interruptions; nothing is below the undisturbed hours. Without interruptions the interval is that of the hours. It
// reports false when hours or price are not known, or the job would never end.
func QuoteOffer(o Offer, hours Spread, i Interruptions) (Quote, bool) {
	price := float64(o.Price())
	if !(hours.P5 > 0) || !(hours.P50 >= hours.P5) || !(hours.P95 >= hours.P50) || math.IsInf(hours.P95, 0) || !(price > 0) {
		return Quote{}, false
	}
	q := Quote{Offer: o, Hours: hours, Paid: hours, Wall: hours}
	if o.UseSpot {
		q.Interruptions = i
		q.Paid, q.Wall = i.spreads(hours)
		q.Interruption = USD(price * (q.Paid.P50 - hours.P50))
	}
	q.Cost = Spread{price * q.Paid.P5, price * q.Paid.P50, price * q.Paid.P95}
	return q, !math.IsInf(q.Cost.P95, 0) && !math.IsInf(q.Wall.P95, 0) && !math.IsNaN(q.Wall.P95)
}

// spreads are the intervals of the hours paid and of the hours until done.
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

func orElse(value, other float64) float64 {
	if value > 0 {
		return value
	}
	return other
}
