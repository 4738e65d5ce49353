package solve

import (
	"math"
	"slices"
)

// cutting solves max-min programs in which only the capacities bind, by price decomposition. At given prices of the
// capacities, each job reaches its level independently at minimum cost with one or two of its columns, which form an
// edge of the lower convex hull of the points (rate, cost). The resulting capacity usage of all jobs is one list of a
// matrix game over prices, and the height t is attained where the value of the game is 0. Each round evaluates all
// jobs at new prices in O(columns), adds the list and solves the game. The prices tried lie between the best so far
// and those of the game (Kelley 1960; Wentges 1997). Groups whose response did not change for several rounds are
// settled and not evaluated again until the final round, which evaluates all groups and proves the bound from which
// Gap is computed. The optimum is a mixture of at most as many responses as there are capacities, so all but a few
// jobs have a single response.
//
// It returns no point where this description is incomplete: where the time of a job limits t, or where a job could
// progress further at no cost, so that many points are optimal. The interior-point method then returns their centre.
type cutting struct {
	*program
	game  *game
	tried [][]uint16 // by list of the game: edges of all groups
	most  float64    // upper bound on t due to the time of the jobs

	open        []int32 // groups that are evaluated
	edge        []uint16
	alike       []uint8 // by group: number of rounds since its edge changed
	settled     line    // usage of the settled groups
	cost        []float64
	bound       float64 // upper bound on t, valid if the settled responses are optimal
	best, price []float64
}

const (
	settles    = 6    // rounds without change after which a group is settled
	mostRounds = 100  // about 30 are usual with three device types
	inward     = 0.3  // weight of the best prices against those of the game
	mostKinds  = 200  // limit of the encoding of edges
	nearPrices = 1e-4 // relative distance of the bounds below which the prices of the game are used unchanged
)

// newCutting returns nil if the program has another shape.
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

// openAll marks all groups for evaluation.
func (c *cutting) openAll() {
	c.open = c.open[:len(c.edge)]
	for g := range c.open {
		c.open[g] = int32(g)
	}
}

// ask evaluates the open groups at the prices, adds a list to the game, and returns the bound on t that the list
// proves if the settled responses are optimal. The bound is valid because the cost of reaching t is convex in t.
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
	// Total cost of exceeding the capacities at t, and its slope: one Newton step to the t where it is 0.
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

// cheapest returns the edge of the lower hull of a group's columns at its level. The edge of the previous round is
// checked first.
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

// stays reports whether an edge reaches the goal and no column lies below it.
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

// walk follows the lower hull of the columns from idle time to the edge that reaches the goal.
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
		case next < 0: // rounding: use the last column
			return edgeOf(at, at)
		case rates[next] >= goal:
			return edgeOf(at, next)
		}
		at, rate, paid = next, rates[next], cost[next]
	}
}

// edgeOf encodes an edge between two columns (−1: idle time) as a positive number.
func edgeOf(first, second int) uint16 { return uint16((first+1)<<8 | second + 1) }

// shares returns the columns of an edge and their shares at t: base + slope · t for the second column, and the
// remainder of 1 for the first.
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

// add adds the capacity usage of an edge to l.
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

// solve returns a point with a certified gap of at most wanted. It returns nil when the optimum is not of this form
// or rounding prevents the proof.
func (c *cutting) solve(wanted float64) *point {
	if c.groups() == 0 || !(c.most > 0) {
		return nil
	}
	// Equal prices to start with; capacities are scaled to 1.
	for j := range c.price {
		c.price[j] = 1 / float64(len(c.price))
	}
	copy(c.best, c.price)
	t := min(1, c.most)
	c.bound = c.most
	whole := true // the next round evaluates all groups
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
		// The mixtures found so far prove a lower bound on t, the prices an upper one.
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
		// Stabilization: move only part of the way to the prices of the game, unless that makes no progress or the
		// bounds are close.
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

// reopen marks all groups for evaluation and resets the usage of the settled ones.
func (c *cutting) reopen() {
	c.openAll()
	clear(c.settled.base)
	clear(c.settled.slope)
	for g := range c.alike {
		c.alike[g] = min(c.alike[g], settles-1)
	}
}

// height returns the t that mixtures of the responses reach, found by Newton's method on the value of the game.
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

// point returns the mixture of responses at the final basis of the game, shrunk where rounding exceeds a row. It
// returns nil when the gap exceeds wanted.
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

// held reports whether every group has a positive price on its progress, so that no optimal point gives a group more
// than its level, and counts the groups' columns that would be equally good.
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
		if first >= 0 && paid-steep*rate > -tied*cost { // idle time is equally good
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

// alone reports whether the point at the last prices is the unique optimum: every capacity has a positive price, and
// there are fewer ties than capacities.
func (c *cutting) alone() bool {
	_, ties := c.held()
	return slices.Min(c.price) > 1e-9 && ties < len(c.price)
}
