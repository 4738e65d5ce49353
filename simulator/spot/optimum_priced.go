package spot

import (
	"fmt"
	"math"

	"trainopt/optimizer/schedule/capacity"
)

// mostCells bounds the states of pricedOptimum.
const mostCells = 40_000_000

// pricedOptimum is Optimum for zones with prices that change, and for work that is lost: a dynamic program over the ticks
// backwards, the machine, and the work done in parts of a tick; a start counts as negative work. It is exact if changeover
// and save are whole numbers of parts; otherwise they are rounded up to parts of as little as mostCells allow. A job that
// knows the future saves just before its capacity ends. O(ticks × work × machines²).
func pricedOptimum(j capacity.Job, m Market, from int) (outcome, error) {
	o := &priced{Job: j, market: m, from: from, machines: 2 + len(m.Zones)}
	if j.CheckpointS > 0 {
		o.NoticeS = max(j.NoticeS, j.SaveS)
	}
	o.whole = int(math.Floor(j.DeadlineS/m.TickS + 1e-7))
	o.cut = j.DeadlineS - float64(o.whole)*m.TickS
	ticks := o.whole
	if o.cut > 1e-7*m.TickS {
		ticks++
	}
	most := int(mostCells / (float64(ticks) * float64(o.machines) * (j.WorkS/m.TickS + 1)))
	if most < 1 || o.machines > math.MaxUint8 {
		return outcome{}, fmt.Errorf("optimum with prices of zones: %d ticks until the deadline are too many", ticks)
	}
	o.parts = 1
	for n := 1; n <= most; n++ {
		if o.parts = n; fits(j.ChangeoverS, m.TickS/float64(n)) && fits(o.LossS(), m.TickS/float64(n)) {
			break
		}
	}
	o.part = m.TickS / float64(o.parts)
	o.start, o.loss = o.up(j.ChangeoverS), o.up(o.LossS())
	o.work = o.up(j.WorkS)
	plan := o.solve(ticks)
	return run(func(s capacity.State) capacity.Choice {
		if k := int(math.Round(s.NowS / s.TickS)); k < len(plan) {
			return plan[k]
		}
		return capacity.Choice{Machine: capacity.OnDemand}
	}, o.Job, m, from)
}

func fits(seconds, part float64) bool {
	n := seconds / part
	return math.Abs(n-math.Round(n)) < 1e-7
}

// priced is the problem of pricedOptimum. Work is in parts of a tick, machines are numbered: 0 none, 1 on demand, 2 + zone.
type priced struct {
	capacity.Job
	market            Market
	from              int
	whole             int     // ticks that end before the deadline
	cut               float64 // seconds of an incomplete last tick
	machines          int
	parts             int
	part              float64 // seconds
	start, loss, work int
}

func (o *priced) up(seconds float64) int { return int(math.Ceil(seconds/o.part - 1e-7)) }

// price returns the USD per second of a machine at a tick; false for a zone without capacity.
func (o *priced) price(machine, k int) (float64, bool) {
	switch machine {
	case 0:
		return 0, true
	case 1:
		return o.OnDemandUSDHour / 3600, true
	}
	zone, at := machine-2, (o.from+k)%o.market.Ticks()
	return o.market.usdHour(o.Job, zone, at) / 3600, o.market.Zones[zone].Up[at]
}

// solve returns the choices of the cheapest run. Costs are by machine and work, which may be negative by a start and a loss.
func (o *priced) solve(ticks int) []capacity.Choice {
	debt := o.start + o.loss
	width := debt + o.work
	next, now := make([]float64, o.machines*width), make([]float64, o.machines*width)
	for i := range next {
		next[i] = math.Inf(1)
	}
	chosen := make([][]uint8, ticks)
	for k := ticks - 1; k >= 0; k-- {
		gain := o.parts
		if k == o.whole {
			gain = int(math.Floor(o.cut/o.part + 1e-7))
		}
		chosen[k] = make([]uint8, o.machines*width)
		for on := range o.machines {
			o.tick(k, on, gain, debt, next, now[on*width:(on+1)*width], chosen[k][on*width:(on+1)*width])
		}
		next, now = now, next
	}
	var plan []capacity.Choice
	on, done := 0, 0
	for k := 0; k < ticks && done < o.work; k++ {
		a := int(chosen[k][on*width+done+debt])
		switch a {
		case 0:
			plan = append(plan, capacity.Choice{})
		case 1:
			plan = append(plan, capacity.Choice{Machine: capacity.OnDemand})
		default:
			plan = append(plan, capacity.Choice{Machine: capacity.Spot, Zone: a - 2})
		}
		on, done = o.after(k, on, a, done, o.parts)
	}
	return plan
}

// after returns the machine and the work after a tick.
func (o *priced) after(k, on, a, done, gain int) (int, int) {
	if a == 0 {
		return 0, done
	}
	if a != on {
		done -= o.start
	}
	done += gain
	if _, up := o.price(a, k+1); !up && done < o.work {
		return 0, done - o.loss
	}
	return a, done
}

// tick computes the least costs at a tick on a machine, by work, from those of the next tick.
func (o *priced) tick(k, on, gain, debt int, next, now []float64, chosen []uint8) {
	width := len(now)
	for i := range now {
		now[i] = math.Inf(1)
	}
	for a := range o.machines {
		usd, up := o.price(a, k)
		if !up {
			continue
		}
		for i := range now {
			to, done := o.after(k, on, a, i-debt, gain)
			cost := 0.0
			switch {
			case done >= o.work:
				cost = usd * o.part * float64(gain-(done-o.work))
			case done < -debt:
				continue
			default:
				if cost = next[to*width+done+debt]; a != 0 {
					cost += usd * o.part * float64(gain)
				}
			}
			if cost < now[i]*(1-1e-12) {
				now[i], chosen[i] = cost, uint8(a)
			}
		}
	}
}
