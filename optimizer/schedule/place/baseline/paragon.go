package baseline

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// Paragon greedily matches what containers cause with what others tolerate (Delimitrou and Kozyrakis, ASPLOS 2013), as Metis adapted
// it: every app is a source of interference, and an app that tolerates at most θ containers of another (Problem.Constraints; those
// with AtLeast are not used) tolerates a share θ / capacity of it, while the other causes 1 − θ / capacity to it. Both are weakened
// by a sensitivity of 3. O(containers × nodes × apps).
type Paragon struct {
	// Published does as the code published with Metis, whose authors' results are from it: nodes that were ruled out may be chosen in
	// the end, by the last source of interference alone; an exact fit counts as none there, and elsewhere rounding of thirds decides
	// whether it is one; and where no node is left the least loaded one is taken. Otherwise a node is chosen that was not ruled out,
	// with the closest fit over all sources, and where none is left the one that comes closest.
	Published bool
	// Capacity is what θ is a share of; 0: the node's own capacity. Metis has 20 on 729 nodes (and lets a node hold as many, which
	// contradicts its paper and is beyond what was measured; nodes hold what their table says here).
	Capacity int
}

// scores are what apps tolerate and cause. They are whole numbers, multiples of 1 / (3 × capacity), so that an exact fit is one.
type scores struct {
	one      float64
	tolerate [][]float64 // of an app, by source
	cause    [][]float64 // by an app, by source
}

// scores derives scores from constraints, for a capacity.
func (o Paragon) scores(p *place.Problem, capacity int) *scores {
	apps, c := p.Apps(), float64(capacity)
	s := &scores{one: 3 * c}
	if o.Published {
		s.one = 1
	}
	for range apps {
		s.tolerate = append(s.tolerate, slices.Repeat([]float64{s.one}, apps))
		s.cause = append(s.cause, make([]float64, apps))
	}
	for _, w := range p.Constraints {
		if w.AtLeast {
			continue
		}
		threshold := float64(w.Threshold)
		tolerate, cause := threshold+2*c, max(0, c-threshold)
		if o.Published {
			tolerate, cause = (threshold/c+3-1)/3, max(0, 1-threshold/c)/3
		}
		s.tolerate[w.App][w.Neighbour], s.cause[w.Neighbour][w.App] = tolerate, cause
	}
	return s
}

// paragon is a placement by Paragon under way.
type paragon struct {
	*cluster
	apps  int
	kinds []*scores // by node type
	// sources by app: those it causes most to first, and those it tolerates least first.
	causes, tolerates [][]int
	// tolerated is the least that any app on a node tolerates, and caused what all on it cause together: nodes × sources.
	tolerated, caused []float64
	changed           int // the node that got the last container, −1 before the first
	candidate         []bool
	d1, d2            []float64
}

// Place is a Method.
func (o Paragon) Place(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return o.fill(p, c)
}

func (o Paragon) fill(p *place.Problem, c *cluster) (*place.Solution, error) {
	nodes, apps := len(c.counts), p.Apps()
	g := &paragon{
		cluster: c, apps: apps, changed: -1, candidate: make([]bool, nodes), d1: make([]float64, nodes), d2: make([]float64, nodes),
		tolerated: make([]float64, nodes*apps), caused: make([]float64, nodes*apps),
	}
	for i := range p.Types {
		capacity := o.Capacity
		if capacity <= 0 {
			capacity = p.Types[i].Table.Capacity()
		}
		g.kinds = append(g.kinds, o.scores(p, capacity))
	}
	for app := range p.Batch {
		g.causes = append(g.causes, ascending(g.kinds[0].cause[app]))
		slices.Reverse(g.causes[app])
		g.tolerates = append(g.tolerates, ascending(g.kinds[0].tolerate[app]))
	}
	for n := range c.counts {
		g.refresh(n)
	}
	choose := g.choose
	if o.Published {
		choose = g.published
	}
	return c.inOrder(p, func(app int) int {
		if g.changed >= 0 {
			g.refresh(g.changed)
		}
		g.changed = choose(app)
		return g.changed
	})
}

// refresh computes what a node tolerates and causes.
func (g *paragon) refresh(n int) {
	s := g.kinds[g.typeOf[n]]
	for source := range g.apps {
		tolerated, caused := s.one, 0.0
		for a, k := range g.counts[n] {
			if k > 0 {
				tolerated = min(tolerated, s.tolerate[a][source])
			}
			caused += float64(float64(k) * s.cause[a][source]) // rounded here on all processors, as published
		}
		g.tolerated[n*g.apps+source], g.caused[n*g.apps+source] = tolerated, caused
	}
}

// ascending are the places of values in their order, equal ones as they come.
func ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}

// tolerance is by how much the node tolerates what the app causes to a source (D1 of the paper).
func (g *paragon) tolerance(n, app, source int) float64 {
	s := g.kinds[g.typeOf[n]]
	return (g.tolerated[n*g.apps+source] - s.cause[app][source]) / s.one
}

// comfort is by how much the app tolerates what the node causes to a source (D2 of the paper).
func (g *paragon) comfort(n, app, source int) float64 {
	s := g.kinds[g.typeOf[n]]
	return (s.tolerate[app][source] - g.caused[n*g.apps+source]) / s.one
}

// narrow computes a difference of all nodes and rules out candidates where it is negative; false when none would be left, and then
// they stay.
func (g *paragon) narrow(into []float64, difference func(n, app, source int) float64, app, source int) bool {
	left := false
	for n := range g.counts {
		into[n] = difference(n, app, source)
		left = left || g.candidate[n] && into[n] >= 0
	}
	for n, d := range into {
		g.candidate[n] = g.candidate[n] && (!left || d >= 0)
	}
	return left
}

// choose is Paragon without what the published code does otherwise.
func (g *paragon) choose(app int) int {
	for n := range g.counts {
		g.candidate[n] = g.room(n)
	}
	closest := func(d []float64) int {
		return g.least(func(n int) float64 {
			if !g.candidate[n] {
				return math.Inf(1)
			}
			return -d[n]
		})
	}
	for i, source := range g.causes[app] {
		if !g.narrow(g.d1, g.tolerance, app, source) {
			return closest(g.d1)
		}
		if !g.narrow(g.d2, g.comfort, app, g.tolerates[app][i]) {
			return closest(g.d2)
		}
	}
	return g.least(func(n int) float64 {
		if !g.candidate[n] {
			return math.Inf(1)
		}
		sum := 0.0
		for source := range g.causes[app] {
			sum += g.tolerance(n, app, source) + g.comfort(n, app, source)
		}
		return sum
	})
}

// published is the published code's choice. Where that code draws a random number to no effect, so does this, so that the same
// numbers give the same placement.
func (g *paragon) published(app int) int {
	for n := range g.counts {
		g.candidate[n] = true
	}
	for i, source := range g.causes[app] {
		if !g.narrow(g.d1, g.tolerance, app, source) {
			g.least(func(n int) float64 { return -g.d1[n] })
			return g.least(func(n int) float64 { return float64(g.load[n]) })
		}
		if !g.narrow(g.d2, g.comfort, app, g.tolerates[app][i]) {
			g.least(func(n int) float64 { return -g.d2[n] })
			return g.least(func(n int) float64 { return float64(g.load[n]) })
		}
	}
	best := math.Inf(1)
	var ties []int
	for n := range g.counts {
		sum := math.Inf(1)
		if g.room(n) && g.d1[n] > 0 && g.d2[n] > 0 {
			sum = g.d1[n] + g.d2[n]
		}
		if sum < best {
			best, ties = sum, ties[:0]
		}
		if sum == best {
			ties = append(ties, n)
		}
	}
	return g.redirect(g.any(ties))
}

// redirect is a node with room for one that may be full: the published code shares nodes with room out to full ones in turn.
func (g *paragon) redirect(chosen int) int {
	if g.room(chosen) {
		return chosen
	}
	full := 0
	var open []int
	for n := range g.counts {
		if g.room(n) {
			open = append(open, n)
		} else if n < chosen {
			full++
		}
	}
	return open[full%len(open)]
}
