package place

import (
	"errors"
	"fmt"
)

// ErrFull reports that no node has free capacity for a container.
var ErrFull = errors.New("no node has room")

// Stream places containers that arrive and depart over time, each where it adds most to
//
//	RPS · Σ throughput + SLO · containers served + Vacant · empty nodes − Cost · cost of nodes in use − Missed · magnitude
//
// The objective's weights apply to sums instead of means, since future arrivals are unknown. It is not safe for
// concurrent use.
type Stream struct {
	c      *cluster
	hard   bool
	change []float64
}

// NewStream starts with the existing containers of a problem, which may depart and move like all others. Of the
// batch, only the number of apps is used. If hard is set, containers that would violate a limit are rejected. A
// minimum share of containers served cannot be enforced incrementally and is an error.
func NewStream(p *Problem, o Objective, l Limits, hard bool) (*Stream, error) {
	if err := errors.Join(p.Validate(), o.Validate(), l.Validate()); err != nil {
		return nil, err
	}
	if l.SLOShare > 0 {
		return nil, errors.New("greedy stream: a share of containers served cannot be a limit")
	}
	if o == (Objective{}) {
		o.RPS = 1
	}
	s := &Stream{c: newCluster(p, o, l, nil), hard: hard}
	s.change = make([]float64, len(s.c.rows))
	for n := range s.c.holds {
		pattern := 0
		if p.Existing != nil {
			pattern = s.c.classes[s.c.classOf[n]].table.Index(p.Existing[n])
		}
		s.c.put(int32(n), int32(pattern))
	}
	return s, nil
}

// Arrive places a container of an app and returns its node. The error wraps ErrFull or, for hard limits,
// place.ErrInfeasible. O(distinct nodes).
func (s *Stream) Arrive(app int) (node int, err error) {
	if app < 0 || app >= s.c.apps {
		return -1, fmt.Errorf("greedy stream: app %d of %d", app+1, s.c.apps)
	}
	best := s.c.bestSpot(app, s.change)
	switch {
	case !best.ok:
		return -1, fmt.Errorf("greedy stream: a container of app %d: %w", app+1, ErrFull)
	case s.hard && best.excess > 0:
		return -1, fmt.Errorf("greedy stream: a container of app %d: %w", app+1, ErrInfeasible)
	}
	cl := &s.c.classes[best.class]
	nodes := cl.states[cl.at[best.pattern]-1].nodes
	node = int(nodes[len(nodes)-1])
	s.c.add(best.class, best.pattern, app)
	return node, nil
}

// Depart removes a container of an app from a node. O(1).
func (s *Stream) Depart(node, app int) error {
	if node < 0 || node >= len(s.c.holds) || app < 0 || app >= s.c.apps {
		return fmt.Errorf("greedy stream: app %d of %d on node %d of %d", app+1, s.c.apps, node+1, len(s.c.holds))
	}
	to := s.c.classes[s.c.classOf[node]].table.Minus(int(s.c.holds[node]), app)
	if to < 0 {
		return fmt.Errorf("greedy stream: no container of app %d is on node %d", app+1, node+1)
	}
	s.c.put(int32(node), int32(to))
	return nil
}

// plannedMove is the migration of a container to another node.
type plannedMove struct {
	App, From, To int
	Gain          float64 // increase of the objective per unit of time
}

// Migrate moves containers one at a time in descending order of gain, while the gain over the horizon exceeds the
// cost of a move, and at most the given number of times. horizon is the expected duration of the gain and cost is the
// loss per move, in units of the objective × time: for a container of throughput 1 that is unavailable for one
// minute, cost is 1 with a horizon in minutes. Moves do not violate limits. A move takes O(apps × distinct nodes), or
// O(apps × distinct nodes²) with limits.
func (s *Stream) Migrate(cost, horizon float64, most int) ([]plannedMove, error) {
	if !(cost >= 0) || !(horizon >= 0) || most < 0 {
		return nil, fmt.Errorf("greedy stream: a move costs %v, horizon %v, %d moves: want none of them negative", cost, horizon, most)
	}
	var moves []plannedMove
	for len(moves) < most {
		best := s.bestMove()
		if !(best.gain*horizon > cost+1e-12*(1+cost)) || best.gain <= 1e-12 {
			break
		}
		from, to := s.c.lastOf(best.from), s.c.lastOf(best.to)
		if from == to { // both nodes have the same state
			cl := &s.c.classes[best.to.class]
			nodes := cl.states[cl.at[best.to.pattern]-1].nodes
			to = nodes[len(nodes)-2]
		}
		s.c.put(from, int32(s.c.classes[best.from.class].table.Minus(int(best.from.pattern), best.app)))
		s.c.put(to, int32(s.c.classes[best.to.class].table.Plus(int(best.to.pattern), best.app)))
		moves = append(moves, plannedMove{App: best.app, From: int(from), To: int(to), Gain: best.gain})
	}
	return moves, nil
}

// lastOf returns the last node of a spot's state.
func (c *cluster) lastOf(at position) int32 {
	cl := &c.classes[at.class]
	nodes := cl.states[cl.at[at.pattern]-1].nodes
	return nodes[len(nodes)-1]
}

// move is a candidate migration between two states.
type move struct {
	app      int
	from, to position
	gain     float64
}

// bestMove returns the move with the largest gain.
func (s *Stream) bestMove() move {
	var best move
	c := s.c
	for app := range c.apps {
		for class := range c.classes {
			cl := &c.classes[class]
			for i := range cl.states {
				pattern := cl.states[i].pattern
				to := cl.table.Minus(int(pattern), app)
				if to < 0 {
					continue
				}
				from := position{class: int32(class), pattern: pattern, gain: cl.value[to] - cl.value[pattern], ok: true}
				if at := s.target(from, app); at.ok && from.gain+at.gain > best.gain {
					best = move{app, from, at, from.gain + at.gain}
				}
			}
		}
	}
	return best
}

// target returns the best spot for a container of a state such that limits are not exceeded further.
func (s *Stream) target(from position, app int) position {
	c := s.c
	var best position
	now := 0.0
	back := make([]float64, len(c.rows))
	// Evaluate limits as if the container had left its node.
	if len(c.rows) > 0 {
		clear(s.change)
		now = c.excess(s.change)
		cl := &c.classes[from.class]
		to := cl.table.Minus(int(from.pattern), app)
		for i := range c.rows {
			uses := c.rows[i].Uses[cl.kind]
			back[i] = uses[to] - uses[from.pattern]
			c.used[i] += back[i]
		}
	}
	for class := range c.classes {
		states := c.classes[class].states
		for i := range states {
			if int32(class) == from.class && states[i].pattern == from.pattern && len(states[i].nodes) < 2 {
				continue
			}
			if at := c.spotIn(int32(class), states[i].pattern, app, s.change); at.ok && at.excess <= now && at.better(best) {
				best = at
			}
		}
	}
	// Undo.
	for i := range back {
		c.used[i] -= back[i]
	}
	return best
}

// Placement returns the current content of all nodes.
func (s *Stream) Placement() Placement { return s.c.placement() }
