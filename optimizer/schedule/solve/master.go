package solve

import (
	"math"
	"slices"
)

const (
	rounds      = 60   // maximum number of column generation rounds
	mostOptions = 1000 // limit on options with columns: a Newton step is cubic in their number
)

// optimise solves the program. set writes its levels and floors, which do not depend on the columns. enough may end
// it early (nil: never). When a job would have to be co-located with itself, the pairing is refined and the program
// solved again.
func (l *layout) optimise(set func(), enough func(*point) bool) (*point, *interior) {
	set()
	if l.pairing == nil {
		return l.program.optimise(l.wanted, enough)
	}
	for {
		p, it := l.generate(enough)
		if !l.separate(p) {
			return p, it
		}
		set()
	}
}

// separate reports whether a job would have to be co-located with itself, and makes it a class of its own.
func (l *layout) separate(p *point) bool {
	if l.pairing == nil {
		return false
	}
	job := l.selfPairedJob(p.x)
	if job < 0 {
		return false
	}
	old := *l
	*l = *l.again(l.pairing.without(job))
	l.rising, l.logs, l.wanted = old.rising, old.logs, old.wanted
	l.activate(old.active)
	return true
}

// optimise solves a program. If the gap remains above the promised one, it is solved again with shorter steps, and
// the better result is returned.
func (p *program) optimise(wanted float64, enough func(*point) bool) (*point, *interior) {
	solve := (*interior).optimise
	if p.links > 0 || p.rise {
		solve = (*interior).attempt
	}
	it := newInterior(p)
	it.begin()
	best := solve(it, wanted, enough)
	if best.gap() <= max(wanted, promisedGap) || enough != nil && enough(best) {
		return best, it
	}
	careful := newInterior(p)
	careful.careful()
	careful.begin()
	if again := solve(careful, wanted, enough); again.gap() < best.gap() {
		return again, careful
	}
	return best, it
}

// attempt is optimise for programs with links and for those of water filling, in which some groups only keep their
// base. A point counts only after both sides of its links are balanced, and shortfalls of bases and floors are added
// to its gap. The final iterate is the best one found, since rounding degrades later ones.
func (s *interior) attempt(wanted float64, enough func(*point) bool) *point {
	s.beginAtRest()
	kept := &point{x: make([]float64, s.cols), value: math.Inf(-1), bound: math.Inf(1), unit: s.unit()}
	x, z, prices := make([]float64, s.n), make([]float64, s.n), make([]float64, s.links)
	missed, least := math.Inf(1), math.Inf(1)
	s.optimise(-1, func(p *point) bool {
		next := point{x: p.x, bound: p.bound, unit: p.unit}
		s.balance(next.x)
		next.value = s.valueOf(next.x)
		if off := s.gapOfPrices() + math.Abs(p.latest-next.value); off < least {
			least = off
			copy(x, s.x)
			copy(z, s.z)
			copy(prices, s.linkPrice)
		}
		kept.bound, kept.latest = p.bound, p.latest
		miss := s.missing(next.x)
		if next.gap()+miss < kept.gap()+missed {
			copy(kept.x, next.x)
			kept.value, missed = next.value, miss
		}
		p.value = next.value
		return kept.gap()+missed <= wanted || enough != nil && missed <= wanted && enough(kept)
	})
	if least < math.Inf(1) {
		copy(s.x, x)
		copy(s.z, z)
		copy(s.linkPrice, prices)
	}
	return kept
}

// gapOfPrices returns Σ x·z.
func (s *interior) gapOfPrices() float64 {
	var now progress
	s.products(&now)
	return now.gap
}

// missing returns the largest relative shortfall, beyond rounding, of a floor or of the base of a group that does not
// rise.
func (p *program) missing(x []float64) float64 {
	most := 0.0
	for g := range p.count {
		asked := p.floor[g]
		if p.levelled[g] && p.level[g] == 0 {
			asked = max(asked, p.base[g])
		}
		if asked > 0 {
			rate := 0.0
			for k := p.start[g]; k < p.start[g+1]; k++ {
				rate += p.rate[k] * x[k]
			}
			most = max(most, 1-rate/asked-slackAtRest)
		}
	}
	return most
}

// slackAtRest is the relative tolerance on the level of a job that does not rise.
const slackAtRest = 1e-11

// balance reduces the time of the larger side of each link to that of the smaller one.
func (p *program) balance(x []float64) {
	if p.links == 0 {
		return
	}
	sides := make([][2]float64, p.links)
	each := func(do func(k int, count float64, sum *[2]float64, side int)) {
		for g, m := range p.count {
			for k := p.start[g]; k < p.start[g+1]; k++ {
				if l := p.link[k]; l >= 0 {
					side := 0
					if p.side[k] < 0 {
						side = 1
					}
					do(k, m, &sides[l], side)
				}
			}
		}
	}
	each(func(k int, count float64, sum *[2]float64, side int) { sum[side] += count * x[k] })
	each(func(k int, _ float64, sum *[2]float64, side int) {
		if less := min(sum[0], sum[1]); sum[side] > less {
			x[k] *= less / sum[side]
		}
	})
}

// beginAtRest completes the starting point of begin for groups that do not rise, whose level is 0.
func (s *interior) beginAtRest() {
	jobs := 0.0
	for _, m := range s.count {
		jobs += m
	}
	for g := range s.count {
		if !s.levelled[g] || s.level[g] > 0 {
			continue
		}
		u, v := s.u0+g, s.v0+g
		asked := max(math.Abs(s.base[g]), 1e-3)
		s.x[v] = max(s.x[v], 0.1*asked)
		s.z[v] = 0.1 * s.worth / jobs / asked
		most := 0.0
		for k := s.start[g]; k < s.start[g+1]; k++ {
			s.z[k] = s.use[k]*s.z[s.c0+int(s.kind[k])] - s.z[v]*s.rate[k]
			most = max(most, -s.z[k])
		}
		s.z[u] = most + 0.1*s.worth/jobs
		for k := s.start[g]; k < s.start[g+1]; k++ {
			s.z[k] += s.z[u]
		}
	}
}

// selfPairedJob returns a job that would have to be co-located with itself, since it spends more time beside its own class
// than all other jobs of the class together, or −1. Only a job that forms a group of its own can be one.
func (l *layout) selfPairedJob(x []float64) int {
	next := l.optionColumns()
	for _, o := range l.active {
		option := &l.pairing.options[o]
		if option.a == option.b {
			total, most, who := 0.0, 0.0, -1
			for _, i := range l.pairing.jobs[option.a] {
				if g := l.groupOf[i]; g >= 0 {
					v := x[next[g]]
					total += v
					if v > most {
						most, who = v, i
					}
				}
			}
			if most > 0.5*total*(1+1e-9)+1e-12 {
				return who
			}
		}
		l.advance(next, option)
	}
	return -1
}

// optionColumns returns, by group, the index of the first column of an active option.
func (l *layout) optionColumns() []int {
	next := make([]int, len(l.count))
	for g := range next {
		next[g] = l.start[g] + len(l.kinds)
	}
	return next
}

// advance moves the index of each group that has a column of the option to its next column.
func (l *layout) advance(next []int, o *option) {
	for _, c := range []int{o.a, o.b} {
		for _, i := range l.pairing.jobs[c] {
			if g := l.groupOf[i]; g >= 0 && l.member[g] == i {
				next[g]++
			}
		}
		if o.a == o.b {
			break
		}
	}
}

// generate solves the program by column generation: it starts with few options and adds those with a positive reduced
// profit until the bound over all options is met. Early programs are solved approximately, because prices far from a
// vertex generate better columns.
func (l *layout) generate(enough func(*point) bool) (*point, *interior) {
	if needed := l.needed(); len(needed) > 0 {
		l.activate(needed)
	}
	bound := math.Inf(1)
	rough := 1e-2
	for round := 0; ; round++ {
		p, it := l.program.optimise(rough, nil) // only the bound over all options may end the iteration early
		more, extra := l.price(it)
		if l.rising {
			extra /= it.levelPrice()
		}
		p.latest += extra
		bound = min(bound, p.latest)
		missing := l.missing(p.x)
		inner := p.gap() + missing
		p.bound = max(bound, min(p.value, p.bound))
		gap := p.gap() + missing
		switch {
		case gap <= l.wanted || round == rounds || len(l.active) > mostOptions || enough != nil && enough(p):
			return p, it
		case len(more) == 0 || gap <= 3*inner:
			if rough <= l.wanted {
				return p, it
			}
			rough = max(l.wanted, rough*1e-3)
		}
		if len(more) > 0 {
			l.activate(more)
		}
	}
}

// needed returns the best option of every class that has no throughput alone, where that option has no columns yet.
func (l *layout) needed() []int {
	best := make([]int, len(l.pairing.jobs))
	rate := make([]float64, len(best))
	for i := range best {
		best[i] = -1
	}
	for o, option := range l.pairing.options {
		for _, side := range []struct {
			class int
			rate  float64
		}{{option.a, option.rateA}, {option.b, option.rateB}} {
			if len(l.pairing.jobs[side.class]) > 0 && !option.dead && side.rate > rate[side.class] && l.sharing.best(l.pairing.jobs[side.class][0]) == 0 {
				best[side.class], rate[side.class] = o, side.rate
			}
		}
	}
	slices.Sort(best)
	return slices.DeleteFunc(slices.Compact(best), func(o int) bool { return o < 0 || slices.Contains(l.active, o) })
}

// activate adds columns for the given options, except for dead ones.
func (l *layout) activate(more []int) {
	for _, o := range more {
		if !l.pairing.options[o].dead {
			l.active = append(l.active, o)
		}
	}
	rise := l.program.rise
	l.fillColumns()
	l.program.rise = rise
}
