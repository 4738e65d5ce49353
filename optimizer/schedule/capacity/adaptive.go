package capacity

import (
	"cmp"
	"math"
	"slices"
)

// Adaptive is a policy that minimizes the expected cost by dynamic programming over the remaining time, the
// remaining work, the machine, and the capacity, of which it has a Markov chain estimated from the past week of the
// zones (State.Seen). As long as less than a day was seen, it decides as Cheapest does, which is Uniform if all prices are
// equal. It contains the plan of one job;
// the zero value is ready.
//
// It meets every deadline that a machine on demand from the start would meet, by the same safety net as Uniform. It
// pays at most riskStarts starts of that machine, and riskShare, more than it: it leaves the machine on demand, or starts
// spot capacity, only while the total loss of that step leaves the cost within this limit.
//
// A plan takes O(planSteps · planCells · capacities²); a choice O(zones · ticks of a week).
type Adaptive struct {
	madeS  float64 // time of the last plan
	tick   chain   // of one tick
	step   float64 // seconds of a step of the plan
	cell   float64 // seconds of work of a cell
	starts []float64
	// value is the least expected cost by remaining steps, state, and remaining cells of work.
	value [][][]float64
	// later is the expected value after a step, by the state chosen for it (of capacity 0) and the capacity before it.
	later [][]float64
	rows  [2][]float64 // buffers
	// meanUSD is the mean price of the cheapest capacity over about a day, 0 without prices of zones.
	meanUSD float64
	// leastUSD is the expected cost from the last choice to the end of the job; 0 before a plan.
	leastUSD float64
}

// Week is the length in seconds of the past capacity from which Adaptive estimates its chain.
const Week = 7 * 24 * 3600.0

const (
	planAfter = 24 * 3600.0 // seconds of observed capacity from which on a plan is made
	renewal   = 12 * 3600.0 // seconds between estimates
	planSteps = 240         // most steps until the deadline
	planCells = 240         // cells of the remaining work
	// riskShare is the largest expense above that of a machine on demand alone, as a share of it; riskStarts in changeovers,
	// with the work that is lost at each. None at all would exclude every use of spot capacity, which may be lost at once.
	riskShare, riskStarts = 0.05, 3
)

// state is the state of a job in the plan, without its remaining time and work.
type state struct {
	on       Machine
	start    int // steps of the changeover done, less one: the index into Adaptive.starts
	capacity int // of the market or, on spot capacity, of its own zone
}

// index returns the place of a state in the plan.
func (p *Adaptive) index(x state) int {
	if x.on == None {
		return x.capacity
	}
	return ((int(x.on)-1)*len(p.starts)+x.start+1)*capacities + x.capacity
}

// Expected returns the expected cost in USD from the last choice to the end of the job; ok is false if that choice was
// made without a plan.
func (p *Adaptive) Expected() (usd float64, ok bool) { return p.leastUSD, p.value != nil }

// Choose is the Policy.
func (p *Adaptive) Choose(s State) Choice {
	if len(s.Seen) == 0 || float64(len(s.Seen[0]))*s.TickS < planAfter {
		return Cheapest(s)
	}
	zone, capacity := s.capacity()
	if s.stays() {
		zone, capacity = s.On.Zone, upCapacity(age(s.Seen[s.On.Zone]), s.TickS)
	}
	s.SpotUSDHour = p.follow(s)
	if p.value == nil || s.NowS >= p.madeS+renewal {
		p.plan(s)
	}
	stays, late, usd := s.stays(), s.late(), s.SpotUSDHour
	_, up := s.spot()
	if s.USDHour != nil { // it may rise to that
		usd = s.OnDemandUSDHour
	}
	lost := (s.ChangeoverS + s.LossS()) / 3600 * usd // by a start of spot capacity
	mayStart := !late && s.withinRisk(lost)
	best, least := Choice{Machine: OnDemand}, p.cost(s, capacity, OnDemand)
	if !s.withinRisk(lost + s.finish(s.On.Machine, 0)) { // the machine on demand could not be left for spot capacity
		least = s.finish(s.On.Machine, s.WorkS-s.DoneS)
	}
	offer := func(next Choice) {
		if usd := p.cost(s, capacity, next.Machine); usd < least {
			best, least = next, usd
		}
	}
	if stays || up && mayStart {
		offer(Choice{Spot, zone})
	}
	if !late && (s.On.Machine == None || s.withinRisk(0)) {
		offer(Choice{})
	}
	p.leastUSD = least
	if best.Machine == Spot {
		best.Zone = s.cheaper(best.Zone, stays, mayStart)
	}
	return best
}

// follow returns the price of spot capacity on which the plan is based: with prices of zones, the mean of the cheapest one.
func (p *Adaptive) follow(s State) float64 {
	if s.USDHour == nil {
		return s.SpotUSDHour
	}
	if c, ok := s.spot(); ok {
		usd := s.zonePrice(c.Zone)
		p.meanUSD = cmp.Or(p.meanUSD, usd)
		p.meanUSD += (usd - p.meanUSD) * min(1, s.TickS/planAfter)
	}
	if p.meanUSD == 0 { // no zone was below the price on demand so far
		return min(s.OnDemandUSDHour, slices.Min(s.USDHour))
	}
	return p.meanUSD
}

// withinRisk reports whether the job stays within the limit above the cost on demand alone if it leaves its machine, loses
// an amount, and does its remaining work on demand.
func (s State) withinRisk(lostUSD float64) bool {
	alone := s.AloneUSD()
	most := min(riskShare*alone, riskStarts*(s.ChangeoverS+s.LossS())/3600*s.OnDemandUSDHour)
	return s.PaidUSD+lostUSD+s.finish(None, s.WorkS-s.DoneS) <= (1+1e-9)*alone+most
}

// finish returns the cost of the remaining work on demand.
func (s State) finish(on Machine, workS float64) float64 {
	if on != OnDemand {
		workS += s.ChangeoverS
	}
	return workS / 3600 * s.OnDemandUSDHour
}

// plan computes the expected costs, from the deadline back to the current time.
func (p *Adaptive) plan(s State) {
	p.madeS = s.NowS
	p.tick = s.estimate()
	ticks := math.Ceil(s.DeadlineS / planSteps / s.TickS)
	p.step, p.cell = ticks*s.TickS, s.WorkS/planCells
	p.starts = p.starts[:0]
	for left := s.ChangeoverS - p.step; len(p.starts) == 0 || left > -p.step; left -= p.step {
		p.starts = append(p.starts, max(0, left))
	}
	steps := int(math.Ceil((s.DeadlineS-s.NowS)/p.step)) + 1
	for len(p.value) < steps {
		rows := make([][]float64, (1+2*len(p.starts))*capacities)
		for i := range rows {
			rows[i] = make([]float64, planCells+1)
		}
		p.value = append(p.value, rows)
	}
	for i := range p.rows {
		p.rows[i] = make([]float64, planCells+1)
	}
	if len(p.later) < len(p.value[0]) {
		p.later = make([][]float64, len(p.value[0]))
		for i := range p.later {
			p.later[i] = make([]float64, planCells+1)
		}
	}
	c := p.tick.over(int(ticks))
	for k := range steps {
		if k > 0 {
			p.each(func(x state) { p.expect(&c, k-1, x, p.later[p.index(x)]) })
		}
		p.backward(s, k)
	}
}

// each calls f with every state of the plan.
func (p *Adaptive) each(f func(x state)) {
	for capacity := range capacities {
		f(state{capacity: capacity})
		for start := range p.starts {
			f(state{OnDemand, start, capacity})
			if capacity >= downCapacities {
				f(state{Spot, start, capacity})
			}
		}
	}
}

// backward computes the values of all states k steps before the deadline from p.later.
func (p *Adaptive) backward(s State, k int) {
	left := float64(k) * p.step
	last := -1 // most cells of work for which the safety net does not act
	if free := left - p.step - 2*s.ChangeoverS - s.LossS(); free >= 0 {
		last = min(int(free/p.cell), planCells)
	}
	p.each(func(x state) {
		row := p.value[k][p.index(x)]
		for i := range row {
			row[i] = s.finish(x.on, float64(i)*p.cell)
		}
		row[0] = 0
		if k == 0 {
			return
		}
		p.improve(s, x, OnDemand, row, last)
		p.improve(s, x, None, row, last)
		switch {
		case x.on == Spot:
			p.improve(s, x, Spot, row, planCells)
		case x.capacity >= downCapacities:
			p.improve(s, x, Spot, row, last)
		}
	})
}

// improve lowers the values of a state to those of a choice, up to a number of cells.
func (p *Adaptive) improve(s State, x state, next Machine, row []float64, last int) {
	startS, later := s.ChangeoverS, state{on: next, capacity: x.capacity}
	if next == x.on {
		startS = p.starts[x.start]
		later.start = min(x.start+1, len(p.starts)-1)
	}
	price, gain := 0.0, 0.0
	if next != None {
		price, gain = s.price(next)/3600, max(0, p.step-startS)
	}
	rest := p.later[p.index(later)]
	whole := int(gain / p.cell)
	part := gain/p.cell - float64(whole)
	i := 1
	for ; i <= last && float64(i)*p.cell <= gain; i++ {
		row[i] = min(row[i], (float64(i)*p.cell+startS)*price)
	}
	usd := p.step * price
	for ; i <= last; i++ {
		j := i - whole
		row[i] = min(row[i], usd+rest[j]+part*(rest[max(j-1, 0)]-rest[j]))
	}
}

// expect sets row to the expected values, k steps before the deadline, of a state whose capacity changed in the step
// before.
func (p *Adaptive) expect(c *chain, k int, x state, row []float64) {
	clear(row)
	add := func(x state, weight float64) {
		if weight == 0 {
			return
		}
		for i, v := range p.value[k][p.index(x)] {
			row[i] += weight * v
		}
	}
	capacity, stay := x.capacity, &c.wait
	if x.on == Spot {
		stay = &c.keep
		for to, weight := range c.lose[capacity] {
			add(state{capacity: to}, weight)
		}
	}
	for to, weight := range stay[capacity] {
		x.capacity = to
		add(x, weight)
	}
}

// price returns the USD per hour of a machine.
func (s State) price(m Machine) float64 {
	if m == Spot {
		return s.SpotUSDHour
	}
	return s.OnDemandUSDHour
}

// cost returns the expected cost of a choice for the next tick, and of the rest of the job.
func (p *Adaptive) cost(s State, capacity int, next Machine) float64 {
	work, startS, usd := s.WorkS-s.DoneS, s.ChangeoverS, 0.0
	if next == s.On.Machine {
		startS = max(0, s.ReadyS-s.NowS)
	}
	if next != None {
		usd = min(s.TickS, work+startS) / 3600 * s.price(next)
		work -= max(0, s.TickS-startS)
		startS = max(0, startS-s.TickS)
	}
	left := s.DeadlineS - s.NowS - s.TickS
	if work <= 0 {
		return usd
	}
	if left <= 0 {
		return usd + s.finish(next, work)
	}
	x := state{on: next, capacity: capacity}
	for x.start < len(p.starts)-1 && p.starts[x.start] >= startS+p.step/2 {
		x.start++
	}
	k := min(int(left/p.step), len(p.value)-1)
	row, far := p.rows[0], p.rows[1]
	p.expect(&p.tick, k, x, row)
	v := p.interpolate(row, work)
	if part := left/p.step - float64(k); part > 0 && k+1 < len(p.value) {
		p.expect(&p.tick, k+1, x, far)
		v += part * (p.interpolate(far, work) - v)
	}
	return usd + v
}

// interpolate returns the value of a row for an amount of work.
func (p *Adaptive) interpolate(row []float64, work float64) float64 {
	i := min(int(work/p.cell), planCells-1)
	return row[i] + (work/p.cell-float64(i))*(row[i+1]-row[i])
}
