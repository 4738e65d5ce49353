package metis

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// paragonRule greedily matches the interference that containers cause with the interference that others tolerate
// (Delimitrou and Kozyrakis, ASPLOS 2013), as adapted by Metis. Each app is a source of interference. An app that
// tolerates at most θ containers of another (Problem.Constraints; those with AtLeast are ignored) has a tolerance of
// θ / capacity for it, and the other app causes 1 − θ / capacity to it. Both are attenuated by a sensitivity of 3.
// O(containers × nodes × apps).
type paragonRule struct {
	// Published reproduces the code published with Metis, which produced its authors' results. In that code, nodes
	// that were ruled out may be chosen at the end, based on the last source of interference alone; an exact fit does
	// not count as one there, and elsewhere rounding of thirds decides; and if no node remains, the least loaded one
	// is chosen. Otherwise, the node with the closest fit over all sources is chosen among those not ruled out, or,
	// if none remains, the node that comes closest.
	Published bool
	// Capacity is the divisor of θ; 0: the node's own capacity. Metis uses 20 on 729 nodes (and lets a node hold 20
	// containers, which contradicts its paper and exceeds the measured range; here the capacity of a node is that of
	// its table).
	Capacity int
}

// scores contains the tolerated and caused interference of apps. They are integers, multiples of 1 / (3 × capacity),
// so that exact fits are exact.
type scores struct {
	one      float64
	tolerate [][]float64 // by app and source
	cause    [][]float64 // by causing app and source
}

// scores derives the scores from the constraints for a given capacity.
func (o paragonRule) scores(p *place.Problem, capacity int) *scores {
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

// paragon is the state of a placement by Paragon.
type paragon struct {
	*cluster
	apps  int
	kinds []*scores // by node type
	// By app: sources in descending order of interference caused, and in ascending order of tolerance.
	causes, tolerates [][]int
	// tolerated is the lowest tolerance of any app on a node, and caused is the total interference caused by its
	// containers: nodes × sources.
	tolerated, caused []float64
	changed           int // node of the last container; −1 before the first
	candidate         []bool
	d1, d2            []float64
}

// Place implements Method.
func (o paragonRule) Place(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return o.fill(p, c)
}

// fill initializes the scores of all node types and nodes, then places the batch. Only the node that received the
// last container is updated between choices.
func (o paragonRule) fill(p *place.Problem, c *cluster) (*place.Solution, error) {
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

// refresh recomputes the tolerated and caused interference of a node.
func (g *paragon) refresh(n int) {
	s := g.kinds[g.typeOf[n]]
	for source := range g.apps {
		tolerated, caused := s.one, 0.0
		for a, k := range g.counts[n] {
			if k > 0 {
				tolerated = min(tolerated, s.tolerate[a][source])
			}
			caused += float64(float64(k) * s.cause[a][source]) // explicit rounding prevents fused multiply-add, as published
		}
		g.tolerated[n*g.apps+source], g.caused[n*g.apps+source] = tolerated, caused
	}
}

// ascending returns the indices that sort values in a stable way.
func ascending(values []float64) []int {
	order := make([]int, len(values))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(values[a], values[b]) })
	return order
}

// tolerance returns the node's remaining tolerance for the interference that the app causes to a source (D1 of the
// paper).
func (g *paragon) tolerance(n, app, source int) float64 {
	s := g.kinds[g.typeOf[n]]
	return (g.tolerated[n*g.apps+source] - s.cause[app][source]) / s.one
}

// comfort returns the app's remaining tolerance for the interference that the node causes to a source (D2 of the
// paper).
func (g *paragon) comfort(n, app, source int) float64 {
	s := g.kinds[g.typeOf[n]]
	return (s.tolerate[app][source] - g.caused[n*g.apps+source]) / s.one
}

// narrow computes a difference for all nodes and rules out candidates where it is negative. If none would remain, it
// keeps the candidates and returns false.
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

// choose selects a node according to the paper, without the deviations of the published code.
func (g *paragon) choose(app int) int {
	for n := range g.counts {
		g.candidate[n] = g.room(n)
	}
	// closest returns the candidate that misses a source by the least.
	closest := func(d []float64) int {
		return g.least(func(n int) float64 {
			if !g.candidate[n] {
				return math.Inf(1)
			}
			return -d[n]
		})
	}
	// Narrow the candidates source by source, in order of importance for the app.
	for i, source := range g.causes[app] {
		if !g.narrow(g.d1, g.tolerance, app, source) {
			return closest(g.d1)
		}
		if !g.narrow(g.d2, g.comfort, app, g.tolerates[app][i]) {
			return closest(g.d2)
		}
	}
	// The remaining candidates tolerate all sources: take the closest fit over all of them.
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

// published selects a node like the published code. It draws a random number wherever that code does, even without
// effect, so that the same random numbers yield the same placement.
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
	// d1 and d2 are those of the last sources; zero, an exact fit, does not count.
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

// redirect replaces a full node by one with free capacity: the published code assigns nodes with free capacity to
// full ones in turn.
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
