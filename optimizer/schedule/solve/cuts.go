package solve

import (
	"math"
	"slices"
)

// cutting solves max-min programs in which the capacities alone hold everything back: for given prices of the capacities every
// job reaches its level on its own, at the least cost, by one or two of its columns (an edge of the lower convex hull of the points
// rate and cost). What all jobs then use of the capacities is one list of a game over prices, and the height t is right where
// its value is 0. Every round asks all jobs at new prices, which is a pass of O(columns), adds the list and solves the game;
// prices tried lie between the best so far and those of the game (Kelley 1960; Wentges 1997). Jobs that answered alike for some
// rounds are asked no more before the end; there all are asked, and the bound that their answers prove is what Gap is measured by.
// The optimum is a mixture of at most as many answers as there are capacities, so all but a few jobs have one answer.
//
// It ends without a point where that is not the whole answer: where t is limited by the time of a job, or where a job could
// get more done at no price, so that many points are optimal; interior then returns the middle of them.
type cutting struct {
	*program
	game  *game
	tried [][]uint16 // by list of the game: the edges of all groups
	most  float64    // t at most, by the time of the jobs

	open        []int32 // groups that are asked
	edge        []uint16
	alike       []uint8 // by group: for how many rounds its edge is the same
	settled     line    // what the others use
	cost        []float64
	bound       float64 // no t above it is possible, if the settled are right
	best, price []float64
}

const (
	settles    = 6    // rounds after which a group is settled
	mostRounds = 100  // of which 30 are usual with three kinds
	inward     = 0.3  // how far prices are tried from those of the game towards the best
	mostKinds  = 200  // that edges can be written with
	nearPrices = 1e-4 // relative distance of the bounds at which prices of the game are tried as they are
)

// newCutting is nil for programs of another shape.
func newCutting(p *program) *cutting {
	J := len(p.capacity)
	if p.links > 0 || !p.rising || p.logs || p.centred || p.rise || J > mostKinds {
		return nil
	}
	c := &cutting{program: p, most: math.Inf(1)}
	for g := range p.count {
		if !p.levelled[g] || p.floored[g] || p.base[g] != 0 || p.level[g] == 0 || p.start[g+1]-p.start[g] > J {
			return nil
		}
		c.most = min(c.most, slices.Max(p.rate[p.start[g]:p.start[g+1]])/p.level[g])
	}
	c.most *= 1 - 1e-15
	c.game = newGame(J)
	n := p.groups()
	c.open, c.edge, c.alike = make([]int32, n), make([]uint16, n), make([]uint8, n)
	c.openAll()
	numbers := make([]float64, 5*J)
	take := func() []float64 {
		part := numbers[:J:J]
		numbers = numbers[J:]
		return part
	}
	c.settled, c.cost, c.best, c.price = line{take(), take()}, take(), take(), take()
	return c
}

func (c *cutting) openAll() {
	c.open = c.open[:len(c.edge)]
	for g := range c.open {
		c.open[g] = int32(g)
	}
}

// ask asks the open groups at the prices, adds a list to the game, and returns the bound on t that it proves if the settled are
// right: costs of reaching t are convex in t.
func (c *cutting) ask(t float64) float64 {
	J := len(c.capacity)
	l := line{make([]float64, J), make([]float64, J)}
	copy(l.base, c.settled.base)
	copy(l.slope, c.settled.slope)
	stay := c.open[:0]
	for _, g := range c.open {
		edge := c.cheapest(int(g), t)
		if edge == c.edge[g] {
			c.alike[g]++
		} else {
			c.edge[g], c.alike[g] = edge, 0
		}
		if c.alike[g] >= settles {
			c.add(&c.settled, int(g), edge)
		} else {
			stay = append(stay, g)
		}
		c.add(&l, int(g), edge)
	}
	c.open = stay
	left, slope := 0.0, 0.0
	for j, p := range c.price {
		l.base[j] -= c.capacity[j]
		left -= p * (l.base[j] + l.slope[j]*t)
		slope += p * l.slope[j]
	}
	c.game.lists = append(c.game.lists, l)
	c.tried = append(c.tried, slices.Clone(c.edge))
	return t + left/slope
}

// cheapest is the edge of the lower hull of a group's columns at its level: mostly that of last time.
func (c *cutting) cheapest(g int, t float64) uint16 {
	from := c.start[g]
	rates := c.rate[from:c.start[g+1]]
	uses, kinds, cost := c.use[from:][:len(rates)], c.kind[from:][:len(rates)], c.cost[:len(rates)]
	for k, u := range uses {
		cost[k] = u * c.price[kinds[k]]
	}
	goal := c.level[g] * t
	if edge := c.edge[g]; edge != 0 && stays(rates, cost, goal, edge) {
		return edge
	}
	return walk(rates, cost, goal)
}

// stays says that an edge reaches a goal and no column is below it.
func stays(rates, cost []float64, goal float64, edge uint16) bool {
	at, next := int(edge>>8)-1, int(edge&255)-1
	rate, paid := 0.0, 0.0
	if at >= 0 {
		rate, paid = rates[at], cost[at]
	}
	way, rise := rates[next]-rate, cost[next]-paid
	if rate > goal || rates[next] < goal || rise*rate < paid*way {
		return false
	}
	for k, r := range rates {
		if (cost[k]-paid)*way < rise*(r-rate) {
			return false
		}
	}
	return true
}

// walk goes along the lower hull of the columns, from idle time on, to the edge that reaches a goal.
func walk(rates, cost []float64, goal float64) uint16 {
	at, rate, paid := -1, 0.0, 0.0
	for {
		next, rise, way := -1, math.Inf(1), 1.0
		for k, r := range rates {
			dr := r - rate
			if dr <= 0 {
				continue
			}
			dc := cost[k] - paid
			if a, b := dc*way, rise*dr; a < b || a == b && dr > way {
				next, rise, way = k, dc, dr
			}
		}
		switch {
		case next < 0: // rounding: the last column is the best
			return edgeOf(at, at)
		case rates[next] >= goal:
			return edgeOf(at, next)
		}
		at, rate, paid = next, rates[next], cost[next]
	}
}

// edgeOf writes an edge between two columns, −1 for idle time, as a number above 0.
func edgeOf(first, second int) uint16 { return uint16((first+1)<<8 | second + 1) }

// shares are what an edge gives its two columns at t: base + slope · t for the second, the rest of 1 for the first.
func (c *cutting) shares(g int, edge uint16) (first, second int, base, slope float64) {
	first, second = c.start[g]+int(edge>>8)-1, c.start[g]+int(edge&255)-1
	rate := 0.0
	if edge>>8 == 0 {
		first = -1
	} else {
		rate = c.rate[first]
	}
	if first == second {
		return -1, second, 1, 0
	}
	way := 1 / (c.rate[second] - rate)
	return first, second, -rate * way, c.level[g] * way
}

// add adds what an edge uses.
func (c *cutting) add(l *line, g int, edge uint16) {
	first, second, base, slope := c.shares(g, edge)
	u, j := c.count[g]*c.use[second], c.kind[second]
	l.base[j] += u * base
	l.slope[j] += u * slope
	if first >= 0 {
		u, j = c.count[g]*c.use[first], c.kind[first]
		l.base[j] += u * (1 - base)
		l.slope[j] -= u * slope
	}
}

// solve returns a point whose proven gap is at most wanted; nil: there is none of this kind, or rounding was in the way.
func (c *cutting) solve(wanted float64) *point {
	if c.groups() == 0 || !(c.most > 0) {
		return nil
	}
	for j := range c.price {
		c.price[j] = 1 / float64(len(c.price))
	}
	copy(c.best, c.price)
	t := min(1, c.most)
	c.bound = c.most
	whole := true // the pass that is next asks all
	before := 0.0
	for range mostRounds {
		b := c.ask(t)
		if math.IsNaN(b) {
			return nil
		}
		if b < c.bound || whole {
			c.bound = min(b, c.most)
			copy(c.best, c.price)
		}
		reached, ok := c.height()
		if !ok || reached >= c.most {
			return nil
		}
		done := c.bound-reached <= 0.1*wanted*c.bound
		if done && whole {
			if held, _ := c.held(); !held {
				return nil
			}
			return c.point(reached, wanted)
		}
		whole = done
		part := inward
		if whole || reached == before || c.bound-reached < nearPrices*c.bound {
			part = 0
		}
		for j, v := range c.game.odds {
			c.price[j] = part*c.best[j] + (1-part)*max(0, v)
		}
		before, t = reached, c.bound
		if whole {
			t = reached
			c.reopen()
		}
	}
	return nil
}

// reopen has all groups asked.
func (c *cutting) reopen() {
	c.openAll()
	clear(c.settled.base)
	clear(c.settled.slope)
	for g := range c.alike {
		c.alike[g] = min(c.alike[g], settles-1)
	}
}

// height is the t that mixtures of the answers reach, where the value of the game is 0.
func (c *cutting) height() (t float64, ok bool) {
	t = c.bound
	for range 4 {
		value, slope, ok := c.game.solve(t)
		step := value / slope
		if !ok || !(t-step > 0) || math.IsInf(step, 0) {
			return 0, false
		}
		t -= step
		if math.Abs(step) <= 1e-14*t {
			break
		}
	}
	return t, true
}

// point is the mixture of answers that the game ended with, shrunk by what rounding takes over a row.
func (c *cutting) point(t, wanted float64) *point {
	p := &point{x: make([]float64, len(c.rate)), bound: c.bound, latest: c.bound, unit: c.unit()}
	for i, k := range c.game.basis {
		part := max(0, c.game.level[i])
		if k < 0 || part == 0 {
			continue
		}
		for g, edge := range c.tried[k] {
			first, second, base, slope := c.shares(g, edge)
			x := part * min(1, max(0, base+slope*t))
			p.x[second] += x
			if first >= 0 {
				p.x[first] += part - x
			}
		}
	}
	c.fit(p.x)
	p.value = c.valueOf(p.x)
	if !(p.gap() <= wanted) {
		return nil
	}
	return p
}

// held says that every group pays for progress at the last prices, so that no point is optimal in which one has more, and how
// many groups could do as well by other columns.
func (c *cutting) held() (held bool, ties int) {
	const tied, nothing = 1e-9, 1e-6
	sum, least := 0.0, math.Inf(1)
	for g, edge := range c.edge {
		from, to := c.start[g], c.start[g+1]
		first, second, _, _ := c.shares(g, edge)
		rate, paid := 0.0, 0.0
		if first >= 0 {
			rate, paid = c.rate[first], c.use[first]*c.price[c.kind[first]]
		}
		cost := c.use[second] * c.price[c.kind[second]]
		steep := (cost - paid) / (c.rate[second] - rate)
		sum += c.count[g] * c.level[g] * steep
		least = min(least, c.count[g]*c.level[g]*steep)
		if first >= 0 && paid-steep*rate > -tied*cost { // idle time does as well
			ties++
		}
		for k := from; k < to; k++ {
			if k != first && k != second && c.use[k]*c.price[c.kind[k]]-paid-steep*(c.rate[k]-rate) < tied*cost {
				ties++
			}
		}
	}
	return least*float64(len(c.edge)) > nothing*sum, ties
}

// alone says that the point of the last prices is the only optimum: every capacity has a price, and no more groups could do as
// well otherwise than the capacities decide about.
func (c *cutting) alone() bool {
	_, ties := c.held()
	return slices.Min(c.price) > 1e-9 && ties < len(c.price)
}
