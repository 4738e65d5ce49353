package spot

import "math"

// relaxation is a lower bound on the cost of plans: the deadline and the maximum work on spot capacity become prices
// instead of constraints (Lagrangian relaxation), so that only the states of the segments remain to be chosen, one
// after another.
//
// A plan with s starts costs at least spot price × (work + s × changeover) + (difference of prices) × the part of
// those seconds that is not on spot capacity, and its seconds without a machine and on one do not exceed the deadline.
type relaxation struct {
	demand float64     // USD per second not on spot capacity, added to the price of spot capacity
	time   float64     // USD per second
	rest   [][]float64 // USD of the cheapest path through the segments from an index on, by the state before it
}

// searched is the number of search steps in each of the two prices; the bound is concave in both.
const searched = 24

// relax returns the relaxation with the highest bound. O(searched² × segments × zones²).
func (o *optimum) relax() relaxation {
	difference := (o.OnDemandUSDHour - o.SpotUSDHour) / 3600
	rest := make([][]float64, len(o.segments)+1)
	for i := range rest {
		rest[i] = make([]float64, zoneState+len(o.segments[0].up))
	}
	of := func(demand, time float64) relaxation {
		r := relaxation{demand, time, rest}
		o.fill(r)
		return r
	}
	root := func(r relaxation) float64 {
		o.relaxed = r
		return o.least(label{state: idleAfterSpot}, 0)
	}
	best := func(time float64) float64 {
		return highest(0, difference, func(demand float64) float64 { return root(of(demand, time)) })
	}
	time := highest(0, 4*o.OnDemandUSDHour/3600, func(time float64) float64 { return root(of(best(time), time)) })
	return of(best(time), time)
}

// highest returns the approximate maximiser of a concave function by golden-section search.
func highest(lo, hi float64, f func(float64) float64) float64 {
	const golden = 0.6180339887498949
	a, b := hi-golden*(hi-lo), lo+golden*(hi-lo)
	fa, fb := f(a), f(b)
	bestX, bestY := lo, f(lo)
	if y := f(hi); y > bestY {
		bestX, bestY = hi, y
	}
	for range searched {
		if fa > bestY {
			bestX, bestY = a, fa
		}
		if fb > bestY {
			bestX, bestY = b, fb
		}
		if fa < fb {
			lo, a, fa = a, b, fb
			b = lo + golden*(hi-lo)
			fb = f(b)
		} else {
			hi, b, fb = b, a, fa
			a = hi - golden*(hi-lo)
			fa = f(a)
		}
	}
	return bestX
}

// fill computes rest by dynamic programming from the last segment to the first.
func (o *optimum) fill(r relaxation) {
	clear(r.rest[len(o.segments)])
	start := o.ChangeoverS * (o.SpotUSDHour/3600 + r.demand + r.time)
	for i := len(o.segments) - 1; i >= 0; i-- {
		seg, after := o.segments[i], r.rest[i+1]
		seconds := float64(seg.ticks) * o.tick
		idle := after[idleAfterSpot] + r.time*seconds
		machine := after[demandState] // excluding its start
		for z, up := range seg.up {
			if up {
				machine = math.Min(machine, after[zoneState+z]-r.demand*seconds)
			}
		}
		begin := math.Min(idle, machine+start)
		for s := range r.rest[i] {
			r.rest[i][s] = begin
			switch {
			case s == demandState:
				r.rest[i][s] = math.Min(begin, after[s])
			case s >= zoneState && seg.up[s-zoneState]:
				r.rest[i][s] = math.Min(begin, after[s]-r.demand*seconds)
			}
		}
	}
}

// least returns a lower bound in USD on the cost of plans that extend a label before the segment with index at.
func (o *optimum) least(l label, at int) float64 {
	r := &o.relaxed
	seconds := o.WorkS + float64(l.starts)*o.ChangeoverS
	usd := seconds*(o.SpotUSDHour/3600+r.demand) - r.demand*float64(l.spot)*o.tick
	usd += r.time * (float64(l.idle)*o.tick + seconds - float64(o.total())*o.tick)
	return math.Max(usd+r.rest[at][l.state], seconds/3600*o.SpotUSDHour)
}
