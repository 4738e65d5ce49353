package solve

import (
	"fmt"
	"math"
	"slices"
)

// Entity is an owner of jobs. Its total level rises in proportion to its weight.
type Entity struct {
	Weight float64 // ≥ 0
	Jobs   []int
	Part   []float64 // by job of Jobs: proportions of the entity's weight among the jobs that can still rise; nil: equal
	FIFO   bool      // everything goes to the first of Jobs that can still rise; Part is ignored
}

// WaterFill continues max-min above the worst job: it returns the lexicographic optimum of weight_i · throughput_i
// over the jobs with a positive weight (nil: all weights are 1). Remaining capacity goes to jobs without weight.
// Value is the level of the worst job. Gap bounds how far any job may be below the level proven possible for it
// without taking from jobs that are no better off.
//
// All jobs rise together until some cannot: either they spend all their time on the best type available to them,
// which is known in advance, or device types are exhausted, which the duals of a program over shares show. Between
// such events, levels are found by Newton's method on the duals. Without pairs, each program exhausts at least one
// type, so the number of programs is at most the number of types (each taking some steps) and does not grow with the
// number of jobs. With pairs it may reach the number of groups of equal jobs.
//
// Levels are exact to 1e-6, with pairs to 1e-5, in the sense of Gap. In addition, a level above the worst may be off
// by 1e-7 of the job's fastest rate, because rounding errors of slow jobs are amplified in faster ones. ErrUnfinished
// is returned when Gap exceeds 1e-6, which occurs with pairs that leave no slack.
func WaterFill(s Sharing, weight []float64) (Solution, error) {
	return waterFill("water filling", &s, weight, nil)
}

// WaterFillEntities is WaterFill with levels that rise by entity: weight_i · throughput_i rises at the rate of the
// entity's weight times the job's part among the jobs of the entity that can still rise (Gavel, section 4.3:
// hierarchical fairness, and first come first served within an entity). Jobs outside all entities do not rise.
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

// filling is the state of water filling. Amounts are throughputs.
type filling struct {
	what     string
	sharing  *Sharing // a copy in which rates are 0 where a job may no longer rise
	pairing  *pairing
	weight   weights
	entities []Entity // nil: every job is an entity
	level    []float64
	limit    []float64 // largest throughput of each job on the types where it may still rise
	full     []bool
	courses  []course
	point    *point  // last point that meets the levels
	of       *rising // program of point
	program  *rising // last program
	prices   *interior
	shortage float64
	above    float64 // excess of the bound over the level reached in the last rise, as a part of the way
	room     float64 // part by which levels were last lowered to regain feasibility
}

// waterFill implements WaterFill and WaterFillEntities (entities nil: every job is one). The state starts at level 0
// with the limit of each job at its fastest rate, reduced by levelGap so that rounding does not make limits
// infeasible.
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
		f.full[i] = f.limit[i] == 0 || f.weight.of(i) == 0
		stuck = stuck || f.limit[i] == 0 && f.weight.of(i) > 0
	}
	err = f.run()
	if f.point == nil && err == nil {
		return demand(what, s, pairing, nil)
	}
	if f.point == nil {
		return Solution{}, err
	}
	// The shares are those of the last feasible program, the value that of the worst level.
	sol := f.of.solution(f.point)
	sol.Value, sol.Gap = math.Inf(1), f.shortage+f.of.missing(f.point.x)
	for i, v := range f.level {
		if w := f.weight.of(i); w > 0 {
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

// run raises levels until every job is full.
func (f *filling) run() error {
	const again = 20 // additional rises for those that rounding ended early
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

// settle marks jobs as full that are at their limits up to rounding.
func (f *filling) settle() {
	for i, v := range f.level {
		f.full[i] = f.full[i] || v >= f.limit[i]*(1-certainly)
	}
}

// rose is the outcome of a rise.
type rose int

const (
	roseToTop    rose = iota // no job can rise further
	roseToPrices             // the prices prove that not all jobs can continue
	roseSome                 // rounding ended the rise before that was proven
)

// rise raises all levels together as far as possible. Where a height cannot be reached along the straight line from
// the present levels, the prices that prove it yield a lower height, and the search continues from there. Every height
// tried is an upper bound of the attainable one, because no course bends upwards.
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
		// Reduce the height as far as the prices require.
		lower := height
		if bound < 1 {
			lower = f.lower(height, level, bound)
		}
		if lower < height {
			height = lower
		} else if part < 0 { // even the present levels were missed: rounding leaves no slack below the limits
			f.lowerLevels()
		} else {
			break // rounding; the loss is counted in shortage
		}
	}
	f.above = max(math.Abs(bound-part), 0.1*levelGap)
	part = max(0, min(1, part))
	// Apply the part of the way that was reached.
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

// to returns the levels at a height. Jobs that would rise by less than the rounding tolerance keep their level.
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

// promisedLevelGap is the largest gap of levels without ErrUnfinished. It exceeds promisedGap because the gaps of
// several programs accumulate.
const promisedLevelGap = 1e-6

// lowerLevels lowers all levels by a small factor to regain feasibility; repeated calls use larger factors.
func (f *filling) lowerLevels() {
	const first, last = 2 * levelGap, 2e-5
	f.room = min(last, max(first, 4*f.room))
	f.shortage += f.room
	for i := range f.level {
		f.level[i] *= 1 - f.room
	}
}

// levelGap is the part of a rise that may be missing when the rise counts as complete. Levels and limits of full jobs
// are reduced by the same part, so that rounding does not make them infeasible.
const levelGap = 1e-11

// reach maximizes the part of the way from the present levels to the given ones. It returns the part reached and an
// upper bound proven by the prices. It may stop early once the whole way is proven unreachable.
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

// newRise builds the program that raises all jobs from one level to another by the same part of their ways. Jobs
// whose target does not exceed their level keep it.
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

// rising is the program of a rise. The part of the way is measured in units of scale: the part that an equal split of
// the cluster gives or, where the levels exceed that, the part that the fastest rate of a job gives.
type rising struct {
	*layout
	way, base []float64
	scale     float64
}

// set writes a progress row for every group. The row of a job without level and way always holds.
func (m *rising) set() {
	for g, i := range m.member {
		m.setLevel(g, m.way[i]*m.scale/m.unit[g])
		m.program.base[g] = m.base[i] / m.unit[g]
		if m.way[i] == 0 && m.base[i] == 0 {
			m.program.base[g] = -1
		}
	}
}

// lower returns the largest height whose levels the prices allow: the price-weighted way from the present levels to
// those of the height is at most bound times the way to the height tried. Found by bisection.
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

// fillUp determines the jobs that cannot rise further. Without pairs, where some types have a price (strictly
// complementary, as at the centre of the optimal face), a job with a price on its progress needs a priced type, and a
// job without one uses priced types in no optimum. The latter therefore continue on unpriced types only, and jobs
// that cannot exceed their level there are full.
func (f *filling) fillUp() {
	if f.pairing != nil || !f.moveOn() {
		f.fillByPrice()
	}
}

// moveOn restricts jobs that can exceed their level on unpriced types to these types and marks the others as full. It
// returns false when nothing changes.
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

// fillByPrice marks two sets of jobs as full. The first contains those whose prices prove that they cannot rise much
// above their level: with parts that sum to 1 and a bound on the height, a job's part times its additional height is
// at most the excess of the bound over the height reached. The second contains those whose price greatly exceeds
// their slack, since only one of the two stays positive at the centre of the optimal face. At least the job with the
// largest part is marked. Jobs left undecided are settled by a later program, in which the full jobs keep their
// level.
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

// least returns the scale for the rounding tolerance of a job's level.
func (f *filling) least(i int) float64 { return max(f.level[i], leastLevel*f.limit[i]) }

const (
	certainly  = 1e-8 // largest possible relative gain of a full job
	farAbove   = 1e3  // ratio of price to slack above which the price is taken to be positive
	leastWay   = 1e-8 // part of a job's limit: smallest change that counts as a rise
	leastLevel = 1e-3 // part of a job's limit: smallest scale of rounding tolerances
)
