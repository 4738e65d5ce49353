package spot

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/capacity"
)

// ErrInfeasible is returned if not even a machine on demand from the start meets the deadline.
var ErrInfeasible = errors.New("a machine on demand from the start would be too late")

// hindsight returns the cheapest run in time with knowledge of the whole future and changes at ticks, as for policies:
// no policy that is in time costs less. It is exact; see optimum for the algorithm. The error wraps ErrInfeasible if
// the deadline cannot be met.
func hindsight(j capacity.Job, m Market, from int) (outcome, error) {
	if err := check(j, m, from); err != nil {
		return outcome{}, fmt.Errorf("optimum on spot capacity: %w", err)
	}
	if !j.Feasible() {
		return outcome{}, fmt.Errorf("optimum on spot capacity: %w: %.0f s of work and %.0f s of changeover, %.0f s to the deadline", ErrInfeasible, j.WorkS, j.ChangeoverS, j.DeadlineS)
	}
	if m.Priced() || j.CheckpointS > 0 {
		return pricedOptimum(j, m, from)
	}
	if j.SpotUSDHour >= j.OnDemandUSDHour {
		return run(capacity.AlwaysOnDemand, j, m, from)
	}
	o := newOptimum(j, m, from)
	known := j.AloneUSD()
	for _, p := range []capacity.Policy{capacity.Greedy, capacity.Uniform} {
		got, err := run(p, j, m, from)
		if err != nil {
			return outcome{}, err
		}
		if !got.Missed {
			known = min(known, got.USD)
		}
	}
	var plan []capacity.Choice
	o.relaxed = o.relax()
	least := o.least(label{state: idleAfterSpot}, 0)
	for part := 1. / 256; plan == nil && part <= 1; part *= 2 { // a tight bound excludes most labels and usually suffices
		o.bound = least + part*(known-least)
		plan = o.solve()
	}
	if plan == nil {
		return outcome{}, errors.New("optimum on spot capacity: none found, though there is one")
	}
	return run(func(s capacity.State) capacity.Choice {
		if k := int(math.Round(s.NowS / s.TickS)); k < len(plan) {
			return plan[k]
		}
		return capacity.Choice{Machine: capacity.OnDemand}
	}, j, m, from)
}

// optimum is the search for the cheapest plan.
//
// Work is done by ticks on a machine minus a changeover for each start: n ticks with s starts do n × tick − s ×
// changeover. So s starts require exactly n(s) ticks, and the remaining choice is how many of them are on spot
// capacity. If spot capacity is cheaper, some cheapest plan has this form: time is divided into segments in which no
// zone changes; a plan is in one state throughout a segment, which is spot capacity of a zone, on demand, or no
// machine; periods on demand may end early, and spot capacity is cut only in plans without any time on demand. (A tick
// on demand beside available spot capacity could use the spot capacity; of two periods that could be extended, one can
// be shortened until it vanishes or the other is full; neither costs more.) The search over segments is then a
// labelling algorithm: a label has the number of starts, of ticks on spot capacity and of ticks without a machine.
// Among labels in the same state, one with no fewer starts, no more spot capacity and no fewer ticks without a machine
// is dominated and dropped. Labels whose lower bound exceeds a cost bound are dropped too; the cost bound is raised
// until a plan is found. O(segments × zones × labels × log labels).
type optimum struct {
	capacity.Job
	tick     float64
	segments []segment
	relaxed  relaxation
	whole    int     // number of ticks that end before the deadline
	cut      float64 // seconds before the deadline in the tick after those
	bound    float64 // USD; more expensive plans are dropped
	labels   []label
}

// segment is a period in which no zone changes.
type segment struct {
	ticks int
	up    []bool
}

// States of a plan in a segment; zone z has the state zoneState + z.
const (
	idleAfterSpot   = iota // without a machine; the last one was spot capacity, or none existed
	idleAfterDemand        // without a machine; the last one was on demand
	demandState
	zoneState
)

// label is a plan up to the end of a segment.
type label struct {
	starts, spot, idle int32
	state              int32
	before             int32 // index of the label one segment before; −1 at the start
}

// newOptimum divides the time until the deadline into segments; an incomplete last tick is a segment of its own.
func newOptimum(j capacity.Job, m Market, from int) *optimum {
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

// total returns the number of ticks that begin before the deadline.
func (o *optimum) total() int {
	if o.cut > 1e-7*o.tick {
		return o.whole + 1
	}
	return o.whole
}

// need returns the number of ticks on machines for a number of starts, and the unused seconds of the last one.
func (o *optimum) need(starts int32) (ticks int, over float64) {
	seconds := o.WorkS + float64(starts)*o.ChangeoverS
	ticks = int(math.Ceil(seconds/o.tick - slack))
	return ticks, max(0, float64(ticks)*o.tick-seconds)
}

// price returns the cost in USD of a plan that ends with this label; ok is false if the ticks so far do not suffice
// for the work.
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

// solve returns the cheapest plan, a choice for each tick; nil if no plan is within the bound.
func (o *optimum) solve() []capacity.Choice {
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

// extend adds the labels after the segment with index at, extending those of the front, unless they are infeasible or
// exceed the bound.
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

// keep drops the dominated labels from an index on and returns the indices of the others. A label is dominated by a
// label in the same state, by one with fewer starts in any state (changing to any state takes one start), and, without
// a machine, by one in any state (stopping takes no start).
func (o *optimum) keep(from int) (front []int32) {
	fresh := o.labels[from:]
	slices.SortFunc(fresh, func(a, b label) int {
		return cmp.Or(cmp.Compare(a.starts, b.starts), cmp.Compare(a.idle, b.idle), cmp.Compare(b.spot, a.spot), cmp.Compare(b.state, a.state), cmp.Compare(a.before, b.before))
	})
	var all, fewer stairs // over all states; fewer: labels with fewer starts
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

// stairs is a set of mutually non-dominated labels: spot capacity increases with the ticks without a machine.
type stairs []label

// after returns the index of the first step with more ticks without a machine.
func (s stairs) after(l label) int {
	at, _ := slices.BinarySearchFunc(s, l.idle+1, func(a label, idle int32) int { return cmp.Compare(a.idle, idle) })
	return at
}

// cover reports whether a step dominates a label or equals it.
func (s stairs) cover(l label) bool {
	at := s.after(l)
	return at > 0 && s[at-1].spot >= l.spot
}

// add inserts a label as a step and removes the steps that it dominates.
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

// plan returns the choices of a label after segment last.
func (o *optimum) plan(l label, last int) []capacity.Choice {
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
	var out []capacity.Choice
	for i, s := range states {
		if s == demandState && (i == 0 || states[i-1] != demandState) {
			regions--
		}
		for range o.segments[i].ticks {
			switch {
			case s >= zoneState:
				out = append(out, capacity.Choice{Machine: capacity.Spot, Zone: int(s - zoneState)})
			case s == demandState && demand > regions: // each later period on demand keeps a tick
				out = append(out, capacity.Choice{Machine: capacity.OnDemand})
				demand--
			default:
				out = append(out, capacity.Choice{})
			}
		}
	}
	return out
}
