package place

// Greedy places containers one at a time, each where it increases the objective most.
//
// Nodes with the same content are one candidate, so the cost of a step depends on the number of distinct nodes rather
// than of all nodes. Improve then moves and exchanges containers between pairs of nodes as long as the objective
// improves. Stream places containers that arrive and depart over time. No bounds are proven; see Exact.
//
//	s, err := place.Greedy(ctx, &problem, place.Objective{}, place.Limits{}, place.GreedySettings{Improve: true})
//	w, err := problem.Evaluate(s.Placement)

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
)

// GreedySettings are the options of Place.
type GreedySettings struct {
	InOrder bool // place apps in the order of the batch; default: apps with the strongest pairwise synergy first
	Improve bool // run Improve at the end
}

// Greedy places the batch of a problem app by app, each container on the node where it adds most to the objective.
// Ties are resolved in favour of the first node type, then the pattern with the lowest number. Limits are respected
// where possible and otherwise exceeded by as little as possible; Improve, which is then always run, may restore
// them. If it does not, the error wraps place.ErrInfeasible and the solution is returned nevertheless. The limit on
// the share of containers served is only applied at the end. Bound and Gap are NaN.
//
// O(containers × states), where states is the number of distinct nodes at a time.
func Greedy(ctx context.Context, p *Problem, o Objective, l Limits, s GreedySettings) (Solution, error) {
	c, err := begin(p, o, l)
	if err != nil {
		return Solution{}, err
	}
	for n := range c.holds {
		c.put(int32(n), int32(c.classes[c.classOf[n]].floor))
	}
	order := c.order()
	if s.InOrder {
		slices.Sort(order)
	}
	if err := c.fill(ctx, p.Batch, order); err != nil {
		return Solution{}, err
	}
	if s.Improve || c.excess(make([]float64, len(c.rows))) > 0 {
		if err := c.improve(ctx); err != nil {
			return Solution{}, err
		}
	}
	return c.solution(p, o, l)
}

// Improve repeatedly redistributes the containers of two nodes optimally between them until no pair of nodes
// improves. Violated limits are restored first. Existing containers of the problem do not move. Each change costs
// O(states² × number of distributions).
func Improve(ctx context.Context, p *Problem, o Objective, l Limits, at Placement) (Solution, error) {
	c, err := begin(p, o, l)
	if err != nil {
		return Solution{}, err
	}
	if _, err := p.Evaluate(at); err != nil {
		return Solution{}, err
	}
	for n := range c.holds {
		c.put(int32(n), int32(c.classes[c.classOf[n]].table.Index(at[n])))
	}
	if err := c.improve(ctx); err != nil {
		return Solution{}, err
	}
	return c.solution(p, o, l)
}

// begin validates the inputs and groups the nodes; no node has a pattern yet.
func begin(p *Problem, o Objective, l Limits) (*cluster, error) {
	if err := errors.Join(p.Validate(), o.Validate(), l.Validate()); err != nil {
		return nil, err
	}
	return newCluster(p, o.Sums(p.Containers(), p.Nodes()), l, p.Existing), nil
}

// solution converts the state into a solution and checks the limits.
func (c *cluster) solution(p *Problem, o Objective, l Limits) (Solution, error) {
	s := Solution{Placement: c.placement(), Bound: math.NaN(), Gap: math.NaN()}
	w, err := p.Evaluate(s.Placement)
	if err != nil {
		return s, fmt.Errorf("greedy placement: %w", err)
	}
	s.Value = o.Value(w, p.Nodes())
	return s, l.Check(w)
}

// position is a candidate position of a container: a state of a class.
type position struct {
	class, pattern int32
	excess, gain   float64
	ok             bool
}

// better orders spots by lower excess over limits, then higher gain, then first class, then lowest pattern.
func (s position) better(than position) bool {
	switch {
	case !s.ok || !than.ok:
		return s.ok
	case s.excess != than.excess:
		return s.excess < than.excess
	case s.gain != than.gain:
		return s.gain > than.gain
	case s.class != than.class:
		return s.class < than.class
	}
	return s.pattern < than.pattern
}

// spotIn returns the effect of adding a container of an app to a node of a class with a pattern.
func (c *cluster) spotIn(class int32, pattern int32, app int, change []float64) position {
	cl := &c.classes[class]
	to := cl.table.Plus(int(pattern), app)
	if to < 0 {
		return position{}
	}
	s := position{class: class, pattern: pattern, gain: cl.value[to] - cl.value[pattern], ok: true}
	if len(c.rows) > 0 {
		for i := range c.rows {
			uses := c.rows[i].Uses[cl.kind]
			change[i] = uses[to] - uses[pattern]
			if c.rows[i].Most < 0 { // a minimum share, required only at the end
				change[i] = c.rows[i].Most - c.used[i]
			}
		}
		s.excess = c.excess(change)
	}
	return s
}

// bestSpot returns the spot where a container of an app adds most.
func (c *cluster) bestSpot(app int, change []float64) position {
	var best position
	for class := range c.classes {
		cl := &c.classes[class]
		for i := range cl.states {
			pattern := cl.states[i].pattern
			if len(c.rows) == 0 { // reject inferior states by a single subtraction
				if to := cl.table.Plus(int(pattern), app); to < 0 || best.ok && cl.value[to]-cl.value[pattern] < best.gain {
					continue
				}
			}
			if s := c.spotIn(int32(class), pattern, app, change); s.better(best) {
				best = s
			}
		}
	}
	return best
}

// fill places the containers app by app. While the chosen state has nodes left and no limits are set, only the newly
// created state can be better, so the other states are not evaluated again.
func (c *cluster) fill(ctx context.Context, batch, order []int) error {
	change := make([]float64, len(c.rows))
	for _, app := range order {
		best := c.bestSpot(app, change)
		for step := range batch[app] {
			if step%256 == 0 && ctx.Err() != nil {
				return ctx.Err()
			}
			if !best.ok {
				return fmt.Errorf("greedy placement: no room for a container of app %d", app+1)
			}
			to := c.add(best.class, best.pattern, app)
			if len(c.rows) > 0 || c.classes[best.class].at[best.pattern] == 0 {
				best = c.bestSpot(app, change)
			} else if s := c.spotIn(best.class, to, app, change); s.better(best) {
				best = s
			}
		}
	}
	return nil
}

// add places a container on the last node of a state and returns the node's new pattern.
func (c *cluster) add(class, pattern int32, app int) (to int32) {
	cl := &c.classes[class]
	nodes := cl.states[cl.at[pattern]-1].nodes
	to = int32(cl.table.Plus(int(pattern), app))
	c.put(nodes[len(nodes)-1], to)
	return to
}

// order sorts the apps by their largest pairwise synergy, the change of the objective when two apps share a node,
// summed over all classes: the most sought-after partners are placed first. Among apps with equal synergy, the one
// that increases the throughput of others more comes first.
func (c *cluster) order() []int {
	most, effect, order := make([]float64, c.apps), make([]float64, c.apps), make([]int, c.apps)
	for a := range order {
		order[a], most[a] = a, math.Inf(-1)
		for b := range order {
			together := 0.0
			for i := range c.classes {
				t, v := c.classes[i].table, c.classes[i].value
				x, y := t.Plus(0, a), t.Plus(0, b)
				if xy := t.Plus(x, b); xy >= 0 {
					together += v[xy] - v[x] - v[y]
					effect[a] += t.RPS(xy)[b] - t.RPS(y)[b]
				}
			}
			most[a] = max(most[a], together)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int {
		if math.Abs(most[a]-most[b]) > 1e-12*math.Abs(most[a]) {
			return cmp.Compare(most[b], most[a])
		}
		return cmp.Compare(effect[b], effect[a])
	})
	return order
}
