package spot

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrInfeasible says that not even a machine on demand from the start is in time.
var ErrInfeasible = errors.New("a machine on demand from the start would be too late")

// Optimum is the cheapest way to be in time for whoever knows the whole future and changes machines at ticks, as policies do: no policy that is in time pays
// less. It is exact, see optimum.solve. The error wraps ErrInfeasible when nothing is in time.
func Optimum(j Job, m Market, from int) (Outcome, error) {
	if err := check(j, m, from); err != nil {
		return Outcome{}, fmt.Errorf("optimum on spot capacity: %w", err)
	}
	if !j.Feasible() {
		return Outcome{}, fmt.Errorf("optimum on spot capacity: %w: %.0f s of work and %.0f s of changeover, %.0f s to the deadline", ErrInfeasible, j.WorkS, j.ChangeoverS, j.DeadlineS)
	}
	if j.SpotUSDHour >= j.OnDemandUSDHour {
		return Run(AlwaysOnDemand, j, m, from)
	}
	o := newOptimum(j, m, from)
	known := j.AloneUSD()
	for _, p := range []Policy{Greedy, Uniform} {
		got, err := Run(p, j, m, from)
		if err != nil {
			return Outcome{}, err
		}
		if !got.Missed {
			known = min(known, got.USD)
		}
	}
	var plan []Choice
	o.relaxed = o.relax()
	least := o.least(label{state: idleAfterSpot}, 0)
	for part := 1. / 256; plan == nil && part <= 1; part *= 2 { // a tight bound leaves out most labels, and most often there is a plan
		o.bound = least + part*(known-least)
		plan = o.solve()
	}
	if plan == nil {
		return Outcome{}, errors.New("optimum on spot capacity: none found, though there is one")
	}
	return Run(func(s State) Choice {
		if k := int(math.Round(s.NowS / s.TickS)); k < len(plan) {
			return plan[k]
		}
		return Choice{Machine: OnDemand}
	}, j, m, from)
}

// optimum is the search for the cheapest plan.
//
// Work is only done by ticks on a machine, less a changeover each time that one begins: n ticks with s starts do n × tick − s × changeover. So s starts need
// exactly n(s) ticks, and what is left to choose is how many of them are on spot capacity. Where that is cheaper, some cheapest plan has this form: time falls into segments
// in which no zone changes; a plan is in one state throughout a segment, which is spot capacity of a zone, on demand, or no machine; times on demand may
// end early, and spot capacity is cut only where nothing is on demand. (A tick on demand beside spot capacity could be spot capacity; of two times that could be longer
// one can be made shorter until it vanishes or the other is full; both cost no more.) Over segments it then is a search for labels: starts, ticks of spot capacity, ticks without
// a machine. Of labels in the same state, one with no fewer starts, no more of spot capacity and no fewer ticks without a machine is never better, and is left out; so
// is one that costs more than a bound, which grows until there is a plan. O(segments × zones × labels × log labels).
type optimum struct {
	Job
	tick     float64
	segments []segment
	relaxed  relaxation
	whole    int     // ticks that end before the deadline
	cut      float64 // seconds before the deadline in the tick after those
	bound    float64 // USD; dearer plans are left out
	labels   []label
}

// segment is a time in which no zone changes.
type segment struct {
	ticks int
	up    []bool
}

// States of a plan in a segment; zone z is zoneState + z.
const (
	idleAfterSpot   = iota // without a machine, the last one was spot capacity, or there was none
	idleAfterDemand        // without a machine, the last one was on demand
	demandState
	zoneState
)

// label is a plan up to the end of a segment.
type label struct {
	starts, spot, idle int32
	state              int32
	before             int32 // the label one segment before; −1 at the start
}

func newOptimum(j Job, m Market, from int) *optimum {
	o := &optimum{Job: j, tick: m.TickS}
	o.whole = int(math.Floor(j.DeadlineS/m.TickS + 1e-7))
	o.cut = j.DeadlineS - float64(o.whole)*m.TickS
	for k := range o.total() {
		up := make([]bool, len(m.Zones))
		for z := range up {
			up[z] = m.Zones[z].Up[(from+k)%m.Ticks()]
		}
		if last := len(o.segments) - 1; last < 0 || k == o.whole || !slices.Equal(o.segments[last].up, up) {
			o.segments = append(o.segments, segment{up: up})
		}
		o.segments[len(o.segments)-1].ticks++
	}
	return o
}

// total is the number of ticks that begin before the deadline.
func (o *optimum) total() int {
	if o.cut > 1e-7*o.tick {
		return o.whole + 1
	}
	return o.whole
}

// need is the number of ticks on machines, with so many starts, and what of the last one is not used, seconds.
func (o *optimum) need(starts int32) (ticks int, over float64) {
	seconds := o.WorkS + float64(starts)*o.ChangeoverS
	ticks = int(math.Ceil(seconds/o.tick - slack))
	return ticks, max(0, float64(ticks)*o.tick-seconds)
}

// price is what a plan costs that ends with this label, USD; ok is false when it does not do the work in the ticks there were.
func (o *optimum) price(l label, ticks int) (usd float64, ok bool) {
	need, over := o.need(l.starts)
	if l.starts == 0 || ticks-int(l.idle) < need || ticks > o.whole && over < o.tick-o.cut-slack*o.DeadlineS {
		return 0, false
	}
	onSpot := min(int(l.spot), need)
	last := o.SpotUSDHour
	if need > onSpot && (l.state == demandState || l.state == idleAfterDemand) {
		last = o.OnDemandUSDHour
	}
	return (o.tick*(float64(onSpot)*o.SpotUSDHour+float64(need-onSpot)*o.OnDemandUSDHour) - last*over) / 3600, true
}

// solve is the cheapest plan, a choice for each tick; nil when there is none within the bound.
func (o *optimum) solve() []Choice {
	o.labels = append(o.labels[:0], label{state: idleAfterSpot, before: -1})
	front := []int32{0}
	var best label
	usd, at, ticks := math.Inf(1), -1, 0
	for i, seg := range o.segments {
		ticks += seg.ticks
		from := len(o.labels)
		o.extend(front, i)
		for _, l := range o.labels[from:] {
			price, ok := o.price(l, ticks)
			if ok && price <= o.bound*(1+slack) && (price < usd*(1-1e-12) || price <= usd*(1+1e-12) && l.starts < best.starts) {
				best, usd, at = l, price, i
				o.bound = min(o.bound, usd)
			}
		}
		front = o.keep(from)
	}
	if at < 0 {
		return nil
	}
	return o.plan(best, at)
}

// extend adds the labels after a segment, by its place, that may be worth going on with.
func (o *optimum) extend(front []int32, at int) {
	seg, total := o.segments[at], o.total()
	add := func(k int32, state int32, spot, idle int) {
		l := o.labels[k]
		if state >= demandState && state != l.state {
			l.starts++
		}
		l.spot, l.idle, l.state, l.before = l.spot+int32(spot), l.idle+int32(idle), state, k
		if need, _ := o.need(l.starts); total-int(l.idle) >= need && o.least(l, at+1) <= o.bound*(1+slack) {
			o.labels = append(o.labels, l)
		}
	}
	for _, k := range front {
		idle := int32(idleAfterSpot)
		if s := o.labels[k].state; s == demandState || s == idleAfterDemand {
			idle = idleAfterDemand
		}
		add(k, idle, 0, seg.ticks)
		add(k, demandState, 0, 0)
		for z, up := range seg.up {
			if up {
				add(k, int32(zoneState+z), seg.ticks, 0)
			}
		}
	}
}

// keep leaves out the labels from a place on that are no better than others: in the same state, or with a start less, which is what changing to any state takes;
// to stop takes none.
func (o *optimum) keep(from int) (front []int32) {
	fresh := o.labels[from:]
	slices.SortFunc(fresh, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.starts, b.starts), cmp.Compare(a.idle, b.idle), cmp.Compare(b.spot, a.spot), cmp.Compare(b.state, a.state), cmp.Compare(a.before, b.before))
	})
	var all, fewer stairs // of all states; fewer: of labels with a start less
	var same []stairs
	kept := o.labels[:from]
	starts, waiting := int32(-1), []label(nil)
	for _, l := range fresh {
		if l.starts != starts {
			for _, w := range waiting {
				fewer.add(w)
			}
			starts, waiting = l.starts, waiting[:0]
		}
		for int(l.state) >= len(same) {
			same = append(same, nil)
		}
		if fewer.cover(l) || same[l.state].cover(l) || l.state < demandState && all.cover(l) {
			continue
		}
		same[l.state].add(l)
		all.add(l)
		waiting = append(waiting, l)
		front = append(front, int32(len(kept)))
		kept = append(kept, l)
	}
	o.labels = kept
	return front
}

// stairs are labels of which none is better than another: with more ticks without a machine there is more of spot capacity.
type stairs []label

// after is the first step with more ticks without a machine.
func (s stairs) after(l label) int {
	at, _ := slices.BinarySearchFunc(s, l.idle+1, func(a label, idle int32) int { return cmp.Compare(a.idle, idle) })
	return at
}

// cover says whether a step is at least as good as a label.
func (s stairs) cover(l label) bool {
	at := s.after(l)
	return at > 0 && s[at-1].spot >= l.spot
}

// add makes a label a step, and takes out those that are no better.
func (s *stairs) add(l label) {
	if s.cover(l) {
		return
	}
	above := s.after(l)
	below := above
	for below > 0 && (*s)[below-1].idle == l.idle {
		below--
	}
	for above < len(*s) && (*s)[above].spot <= l.spot {
		above++
	}
	*s = slices.Replace(*s, below, above, l)
}

// plan is what a label after segment last stands for.
func (o *optimum) plan(l label, last int) []Choice {
	states := make([]int32, last+1)
	need, _ := o.need(l.starts)
	demand := need - min(need, int(l.spot))
	for i := last; i > 0; i-- {
		states[i] = l.state
		l = o.labels[l.before]
	}
	states[0] = l.state
	regions := 0
	for i, s := range states {
		if s == demandState && (i == 0 || states[i-1] != demandState) {
			regions++
		}
	}
	var out []Choice
	for i, s := range states {
		if s == demandState && (i == 0 || states[i-1] != demandState) {
			regions--
		}
		for range o.segments[i].ticks {
			switch {
			case s >= zoneState:
				out = append(out, Choice{Spot, int(s - zoneState)})
			case s == demandState && demand > regions: // each later time on demand keeps a tick
				out = append(out, Choice{Machine: OnDemand})
				demand--
			default:
				out = append(out, Choice{})
			}
		}
	}
	return out
}
