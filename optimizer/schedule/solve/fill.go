package solve

import (
	"fmt"
	"math"
	"slices"
)

// Entity is a party that owns jobs. What it gets rises in proportion to its weight.
type Entity struct {
	Weight float64 // at least 0
	Jobs   []int
	Part   []float64 // by job of Jobs: in what proportion the entity divides among those that can still rise; nil: equal
	FIFO   bool      // all goes to the first of Jobs that can still rise; Part is ignored
}

// WaterFill is max-min that goes on above the worst: the lexicographic optimum of weight_i · (what job i gets done), over jobs with
// a weight above 0 (nil: all count 1). What is left over in the end goes to jobs without weight. The value is the worst; Gap
// is how far any job may be below what is proven to be possible for it without taking from jobs that are no better off.
//
// All jobs rise together until some cannot: either they have all their time on the best kind they may use, which is known
// beforehand, or kinds of devices are full, which a program over shares tells. Between such events levels are found by Newton's
// method on the prices. Without pairs at least one kind is full after every program, so that there are at most as many as kinds
// (each of some steps), not as many as jobs. With pairs there may be as many as groups of equal jobs.
//
// Levels are exact to 1e-6, with pairs to 1e-5, in the sense of Gap; a level above the worst may besides be off by a ten-millionth of
// the job's fastest rate, as faster jobs make much of what others lack by rounding. ErrUnfinished is a Gap above 1e-6, which
// happens with pairs that leave no room.
func WaterFill(s Sharing, weight []float64) (Solution, error) {
	return waterFill("water filling", &s, weight, nil)
}

// WaterFillEntities is WaterFill where levels rise by entities: weight_i · (what job i gets done) rises at the rate of the entity's
// weight times the job's part among the jobs of the entity that can still rise (Gavel, section 4.3: hierarchical fairness,
// and first come first served inside an entity). Jobs of no entity do not rise.
func WaterFillEntities(s Sharing, weight []float64, entities []Entity) (Solution, error) {
	const what = "water filling by entities"
	owner := make([]bool, len(s.Rate))
	for e, entity := range entities {
		if !(entity.Weight >= 0) || math.IsInf(entity.Weight, 1) {
			return Solution{}, fmt.Errorf("%s: entity %d has weight %g", what, e, entity.Weight)
		}
		if entity.Part != nil && len(entity.Part) != len(entity.Jobs) {
			return Solution{}, fmt.Errorf("%s: entity %d has %d parts for %d jobs", what, e, len(entity.Part), len(entity.Jobs))
		}
		for _, i := range entity.Jobs {
			if i < 0 || i >= len(owner) || owner[i] {
				return Solution{}, fmt.Errorf("%s: job %d of entity %d is of another, too, or does not exist", what, i, e)
			}
			owner[i] = true
		}
		for _, v := range entity.Part {
			if !(v >= 0) || math.IsInf(v, 1) {
				return Solution{}, fmt.Errorf("%s: entity %d has a part of %g", what, e, v)
			}
		}
	}
	if entities == nil {
		entities = []Entity{}
	}
	return waterFill(what, &s, weight, entities)
}

// filling is the state of water filling. Amounts are what is done per second.
type filling struct {
	what     string
	sharing  *Sharing // its rates are 0 where a job may no longer rise
	pairing  *pairing
	weight   []float64
	entities []Entity // nil: every job is one
	level    []float64
	limit    []float64 // the most that a job gets done on the kinds where it may still rise
	full     []bool
	courses  []course
	point    *point  // the last point that meets the levels
	of       *rising // its program
	program  *rising // the last
	prices   *interior
	shortage float64
	above    float64 // by what part of the last way the bound is above what was reached
	room     float64 // by which levels were last lowered for want of room
}

func waterFill(what string, s *Sharing, weight []float64, entities []Entity) (Solution, error) {
	if err := s.check(what, weight); err != nil {
		return Solution{}, err
	}
	pairing, err := newPairing(what, s, nil)
	if err != nil {
		return Solution{}, err
	}
	own := *s
	own.Rate = append([][]float64{}, s.Rate...)
	n := len(s.Rate)
	f := &filling{
		what: what, sharing: &own, pairing: pairing, weight: weight, entities: entities,
		level: make([]float64, n), limit: make([]float64, n), full: make([]bool, n),
	}
	stuck := false
	for i := range f.limit {
		f.limit[i] = s.best(i)
		if pairing != nil {
			f.limit[i] = max(f.limit[i], pairing.best(i))
		}
		f.limit[i] *= 1 - levelGap
		f.full[i] = f.limit[i] == 0 || f.weightOf(i) == 0
		stuck = stuck || f.limit[i] == 0 && f.weightOf(i) > 0
	}
	err = f.run()
	if f.point == nil && err == nil {
		return demand(what, s, pairing, nil)
	}
	if f.point == nil {
		return Solution{}, err
	}
	sol := f.of.solution(f.point)
	sol.Value, sol.Gap = math.Inf(1), f.shortage+f.of.missing(f.point.x)
	for i, v := range f.level {
		if w := f.weightOf(i); w > 0 {
			sol.Value = min(sol.Value, w*v)
		}
	}
	if stuck {
		sol.Value = 0
	}
	switch {
	case err != nil:
		sol.Gap = 1
	case pairing != nil && pairing.uneven():
		err = f.program.judge(what, sol.Gap)
	case sol.Gap > promisedLevelGap:
		err = unfinished(what, sol.Gap)
	}
	return sol, err
}

func (f *filling) weightOf(i int) float64 {
	if f.weight == nil {
		return 1
	}
	return f.weight[i]
}

// run fills until every job is full.
func (f *filling) run() error {
	const again = 20 // rises that rounding ended early
	for range len(f.full) + len(f.sharing.Devices) + again {
		f.settle()
		f.plan()
		if len(f.courses) == 0 {
			return nil
		}
		switch f.rise() {
		case roseToTop:
			return nil
		case roseToPrices:
			f.fillUp()
		}
	}
	return unfinished(f.what, 1)
}

// settle takes jobs as full that are at their limit, but for rounding.
func (f *filling) settle() {
	for i, v := range f.level {
		f.full[i] = f.full[i] || v >= f.limit[i]*(1-certainly)
	}
}

// rose is how a rise ended.
type rose int

const (
	roseToTop    rose = iota // no job can rise any more
	roseToPrices             // prices prove that all together cannot go on
	roseSome                 // rounding ended it before that was proven
)

// rise raises the levels as far as all together can go. From a height that cannot be reached on the straight way from here, the
// prices that prove it give a lower one, and so on; every height is at least what can be reached, as no way bends upwards.
func (f *filling) rise() rose {
	top := f.top()
	height := top
	var level []float64
	part, bound := 0.0, 0.0
	for range 60 {
		any := false
		if level, any = f.to(height); !any {
			if height == top {
				return roseToTop
			}
			f.above = max(bound, 0.1*levelGap)
			return roseToPrices
		}
		if part, bound = f.reach(level); part >= 1-levelGap {
			break
		}
		lower := height
		if bound < 1 {
			lower = f.lower(height, level, bound)
		}
		if lower < height {
			height = lower
		} else if part < 0 { // not even the present levels were met: there is no room between rounding and limits
			f.giveWay()
		} else {
			break // rounding: the shortage tells
		}
	}
	f.above = max(math.Abs(bound-part), 0.1*levelGap)
	part = max(0, min(1, part))
	missing, gained := 0.0, 0.0
	for i, v := range level {
		if way := v - f.level[i]; way > 0 {
			v = max(v, leastLevel*f.limit[i])
			missing = max(missing, (bound-part)*way/v)
			gained = max(gained, part*way/v)
			f.level[i] += way * part
		}
	}
	switch {
	case height == top && part >= 1-levelGap:
		return roseToTop
	case missing > 0.1*promisedLevelGap && gained > promisedLevelGap:
		return roseSome
	}
	f.shortage = max(f.shortage, max(0, min(missing, 1))+levelGap)
	return roseToPrices
}

// to is what the levels are at a height. Who would rise by no more than rounding stays.
func (f *filling) to(height float64) (level []float64, any bool) {
	level = slices.Clone(f.level)
	f.at(height, level)
	for i, v := range level {
		if v-f.level[i] <= max(certainly*f.least(i), leastWay*f.limit[i]) {
			level[i] = f.level[i]
		} else {
			any = true
		}
	}
	return level, any
}

// promisedLevelGap is what is promised of levels: they add up the gaps of several programs.
const promisedLevelGap = 1e-6

// giveWay makes room by a small part of all levels, every time a larger one.
func (f *filling) giveWay() {
	const first, last = 2 * levelGap, 2e-5
	f.room = min(last, max(first, 4*f.room))
	f.shortage += f.room
	for i := range f.level {
		f.level[i] *= 1 - f.room
	}
}

// levelGap is the part of a rise that may be missing when it counts as done. As much is taken off levels and limits of full jobs, so
// that rounding does not make them impossible.
const levelGap = 1e-11

// reach solves for the largest part of the way from the present levels to others: what was reached, and what the prices kept prove
// to be out of reach. It may stop when all of the way is out of reach.
func (f *filling) reach(level []float64) (part, bound float64) {
	m := newRise(f.sharing, f.pairing, f.level, level)
	if !m.program.rising {
		return 1, 1
	}
	if f.program != nil && f.pairing != nil {
		m.activate(f.program.active)
	}
	p, it := m.optimise(m.set, func(p *point) bool { return p.latest*m.scale < 1-1e-6 && p.gap() < 1e-3 })
	f.program, f.prices, f.pairing = m, it, m.pairing
	bound = it.dualBound()
	if f.pairing != nil {
		_, extra := m.price(it)
		bound += extra / it.levelPrice()
	}
	part = min(p.value, p.bound) * m.scale
	if m.missing(p.x) > promisedLevelGap || !(part >= -levelGap) {
		return math.Inf(-1), bound * m.scale
	}
	f.point, f.of = p, m
	return part, bound * m.scale
}

// newRise builds the program that raises jobs from one level to another, all by the same part of the way. Jobs with no way to
// go keep their level.
func newRise(s *Sharing, p *pairing, from, to []float64) *rising {
	n := len(from)
	m := &rising{way: make([]float64, n), base: make([]float64, n), scale: math.Inf(1)}
	for i := range from {
		m.way[i] = max(0, to[i]-from[i])
		m.base[i] = from[i] * (1 - levelGap)
	}
	m.layout = newLayout(s, p, nil, nil, m.way, m.base)
	m.wanted = 0.01 * levelGap
	m.program.rise = true
	steepest := 0.0
	for g, i := range m.member {
		if way := m.way[i]; way > 0 {
			m.scale = min(m.scale, (m.equalPart(i)-m.base[i])/way)
			steepest = max(steepest, way/m.unit[g])
			m.program.rising = true
		}
	}
	if !(m.scale > 0) && m.program.rising {
		m.scale = 1 / steepest
	}
	return m
}

// rising is the program of a rise, with the part of the way in the unit of scale: what equal parts would give or, where the levels
// are above that, what the fastest rate of a job would.
type rising struct {
	*layout
	way, base []float64
	scale     float64
}

// set gives every group a row of progress; to those of jobs that need not get anything done one that always holds.
func (m *rising) set() {
	for g, i := range m.member {
		m.setLevel(g, m.way[i]*m.scale/m.unit[g])
		m.program.base[g] = m.base[i] / m.unit[g]
		if m.way[i] == 0 && m.base[i] == 0 {
			m.program.base[g] = -1
		}
	}
}

// lower is the greatest height at which the prices allow the levels: of the way from the present levels to those of the height
// tried, weighted by the prices, no more than the bound.
func (f *filling) lower(height float64, level []float64, bound float64) float64 {
	price := make([]float64, len(level))
	limit := 0.0
	for i, g := range f.program.groupOf {
		if g >= 0 {
			price[i] = f.prices.z[f.prices.v0+g] / f.program.unit[g]
			limit += price[i] * (level[i] - f.level[i])
		}
	}
	limit *= max(0, bound)
	lo, hi := 0.0, height
	trial := make([]float64, len(level))
	for range 80 {
		mid := 0.5 * (lo + hi)
		if mid == lo || mid == hi {
			break
		}
		copy(trial, f.level)
		f.at(mid, trial)
		sum := 0.0
		for i, v := range trial {
			sum += price[i] * (v - f.level[i])
		}
		if sum <= limit {
			lo = mid
		} else {
			hi = mid
		}
	}
	return hi
}

// fillUp finds the jobs that cannot rise any more. Without pairs: with prices on some kinds (strictly complementary, as in the
// middle of the optimal face), a job that has a price on its progress needs a kind with a price, and one that has none uses
// such kinds in no optimum. So jobs rise on through kinds without a price, and those that can get no more there are full.
func (f *filling) fillUp() {
	if f.pairing != nil || !f.moveOn() {
		f.fillByPrice()
	}
}

// moveOn takes kinds with a price from jobs without; false when that changes nothing.
func (f *filling) moveOn() (changed bool) {
	it := f.prices
	priced := make([]bool, len(f.sharing.Devices))
	some := false
	for c, j := range f.program.kinds {
		priced[j] = it.z[it.c0+c] > it.x[it.c0+c]
		some = some || priced[j]
	}
	for i, rate := range f.sharing.Rate {
		if f.full[i] {
			continue
		}
		rest := make([]float64, len(rate))
		most := 0.0
		for j, r := range rate {
			if !priced[j] && f.sharing.Devices[j] > 0 {
				rest[j] = r
				most = max(most, r)
			}
		}
		if most <= f.level[i]*(1+1e-7) || !some {
			f.full[i], changed = true, true
			continue
		}
		most *= 1 - levelGap
		changed = changed || most < f.limit[i]
		f.sharing.Rate[i], f.limit[i] = rest, most
	}
	return changed
}

// fillByPrice takes as full the jobs of which the prices prove that they cannot get much above their level (with parts that sum up
// to 1 and a bound on the height, a job's part times what it gets more, in heights, is at most what the bound is above the height
// reached), and those whose price is far above their slack, as only one of the two stays above 0 in the middle of the best; at
// least the one with the largest part. Whoever is not decided here is so by a later program, in which the others keep their level.
func (f *filling) fillByPrice() {
	it, m := f.prices, f.program
	sum := it.levelPrice()
	some, highest, who := false, 0.0, -1
	for i, g := range m.groupOf {
		if g < 0 || f.full[i] || m.way[i] == 0 {
			continue
		}
		part, least := it.z[it.v0+g]*m.level[g]/sum, f.least(i)
		if part > highest {
			highest, who = part, i
		}
		slack := it.x[it.v0+g] * m.unit[g] / least
		if f.above*m.way[i] <= part*certainly*least || part*float64(len(m.groupOf)) > farAbove*slack {
			f.full[i], some = true, true
		}
	}
	if !some && who >= 0 {
		f.full[who] = true
	}
}

// least is what roundings of a job's level are measured by.
func (f *filling) least(i int) float64 { return max(f.level[i], leastLevel*f.limit[i]) }

const (
	certainly  = 1e-8 // what a full job could at most get more, relative
	farAbove   = 1e3  // a price that is so many times a slack is one that stays
	leastWay   = 1e-9 // of a job's limit, what counts as a rise at least
	leastLevel = 1e-3 // of a job's limit, the level that roundings are measured by at least
)
