package solve

import (
	"math"
	"slices"
)

const (
	rounds      = 60   // how often columns may be generated
	mostOptions = 1000 // options with columns: a step of the method takes time with its third power
)

// optimise solves the program; set writes its levels and floors, which the columns do not change. enough may end it earlier
// (nil: never).
func (l *layout) optimise(set func(), enough func(*point) bool) (*point, *interior) {
	set()
	if l.pairing == nil {
		return l.program.optimise(l.wanted, enough)
	}
	for {
		p, it := l.generate(enough)
		job := l.lonely(p.x)
		if job < 0 {
			return p, it
		}
		old := *l
		*l = *l.again(l.pairing.without(job))
		l.rising, l.logs, l.wanted = old.rising, old.logs, old.wanted
		l.activate(old.active)
		set()
	}
}

// optimise solves a program; where that ends too far from the optimum, once more with care.
func (p *program) optimise(wanted float64, enough func(*point) bool) (*point, *interior) {
	it := newInterior(p)
	it.begin()
	best := it.optimise(wanted, enough)
	if best.gap() <= max(wanted, promisedGap) || enough != nil && enough(best) {
		return best, it
	}
	careful := newInterior(p)
	careful.careful()
	careful.begin()
	if again := careful.optimise(wanted, enough); again.gap() < best.gap() {
		return again, careful
	}
	return best, it
}

// lonely is a job that would have to stand beside itself, since it spends more time beside its own class than all others of the
// class together; −1: none. Only a job that is a group by itself can.
func (l *layout) lonely(x []float64) int {
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

// optionColumns is by group where the columns of the active options begin.
func (l *layout) optionColumns() []int {
	next := make([]int, len(l.count))
	for g := range next {
		next[g] = l.start[g] + len(l.kinds)
	}
	return next
}

// advance moves the groups that have a column of the option to their next one.
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

// generate solves over few options and adds those that the prices call for until the bound over all options is met (column
// generation). The first programs are solved roughly: prices far from a vertex call for better columns.
func (l *layout) generate(enough func(*point) bool) (*point, *interior) {
	if needed := l.needed(); len(needed) > 0 {
		l.activate(needed)
	}
	bound := math.Inf(1)
	rough := 1e-2
	for round := 0; ; round++ {
		p, it := l.program.optimise(rough, nil) // only the bound over all options may end it early
		more, extra := l.price(it)
		if l.rising {
			extra /= it.levelPrice()
		}
		p.latest += extra
		bound = min(bound, p.latest)
		inner := p.gap()
		p.bound = max(bound, min(p.value, p.bound))
		gap := p.gap()
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

// needed is for every class that gets nothing done alone its best option, where that has no columns yet.
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

// activate gives columns to more options.
func (l *layout) activate(more []int) {
	for _, o := range more {
		if !l.pairing.options[o].dead {
			l.active = append(l.active, o)
		}
	}
	l.fillColumns()
}
