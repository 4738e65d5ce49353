package greedy

import (
	"slices"

	"trainopt/optimizer/schedule/place"
)

// cluster is nodes by what they hold: nodes of a class that hold the same are one state, and decisions are made by state.
type cluster struct {
	apps    int
	classes []class
	rows    []place.Row // limits; their sums over nodes are in used
	used    []float64
	total   float64 // the objective

	classOf []int32 // by node
	holds   []int32 // pattern by node
	pos     []int32 // by node: its place in its state
}

// class is nodes of the same table and cost and, where containers must not move, with the same ones to begin with.
type class struct {
	table  *place.Table
	value  []float64
	kind   int // a node type of it
	floor  int // the pattern that nodes keep
	states []state
	at     []int32 // by pattern: its state + 1
}

// state is the nodes of a class that hold a pattern.
type state struct {
	pattern int32
	nodes   []int32
}

// newCluster puts nodes into classes. Floors tells whether nodes keep what they hold to begin with (nil: nothing). With weights of
// sums, see place.PatternSums.
func newCluster(p *place.Problem, sums place.Objective, l place.Limits, floors [][]uint8) *cluster {
	c := &cluster{apps: p.Apps(), rows: p.Rows(l)}
	c.used = make([]float64, len(c.rows))
	n := p.Nodes()
	c.classOf, c.holds, c.pos = make([]int32, 0, n), make([]int32, n), make([]int32, n)
	type key struct{ kind, floor int }
	classes := map[key]int{}
	node := 0
	for i := range p.Types {
		t := &p.Types[i]
		kind := slices.IndexFunc(p.Types[:i+1], func(u place.NodeType) bool { return u.Table == t.Table && u.Cost == t.Cost })
		for range t.Count {
			k := key{kind: kind}
			if floors != nil {
				k.floor = t.Table.Index(floors[node])
			}
			at, ok := classes[k]
			if !ok {
				at = len(c.classes)
				classes[k] = at
				c.classes = append(c.classes, class{table: t.Table, kind: kind, floor: k.floor, at: make([]int32, t.Table.Patterns())})
				c.classes[at].value = c.valueOf(p, sums, at)
			}
			c.classOf = append(c.classOf, int32(at))
			c.holds[node] = -1
			node++
		}
	}
	return c
}

// valueOf computes the values of a class's patterns, once for classes of a kind.
func (c *cluster) valueOf(p *place.Problem, sums place.Objective, at int) []float64 {
	for i := range c.classes[:at] {
		if c.classes[i].kind == c.classes[at].kind {
			return c.classes[i].value
		}
	}
	return p.PatternSums(sums, c.classes[at].kind)
}

// put makes a node hold a pattern.
func (c *cluster) put(node int32, pattern int32) {
	cl := &c.classes[c.classOf[node]]
	if old := c.holds[node]; old >= 0 {
		c.account(cl, old, -1)
		c.take(cl, node, old)
	}
	c.account(cl, pattern, 1)
	c.holds[node] = pattern
	if cl.at[pattern] == 0 {
		n := len(cl.states)
		cl.states = slices.Grow(cl.states, 1)[:n+1] // keeps the nodes' memory of a state that was there
		cl.states[n].pattern, cl.states[n].nodes = pattern, cl.states[n].nodes[:0]
		cl.at[pattern] = int32(n + 1)
	}
	s := &cl.states[cl.at[pattern]-1]
	c.pos[node] = int32(len(s.nodes))
	s.nodes = append(s.nodes, node)
}

// take removes a node from its state, and a state without nodes.
func (c *cluster) take(cl *class, node, pattern int32) {
	i := cl.at[pattern] - 1
	s := &cl.states[i]
	last := len(s.nodes) - 1
	s.nodes[c.pos[node]] = s.nodes[last]
	c.pos[s.nodes[last]] = c.pos[node]
	s.nodes = s.nodes[:last]
	if last == 0 {
		n := len(cl.states) - 1
		cl.states[i], cl.states[n] = cl.states[n], cl.states[i]
		cl.at[cl.states[i].pattern] = i + 1
		cl.at[pattern] = 0
		cl.states = cl.states[:n]
	}
}

func (c *cluster) account(cl *class, pattern int32, sign float64) {
	c.total += sign * cl.value[pattern]
	for i := range c.rows {
		c.used[i] += sign * c.rows[i].Uses[cl.kind][pattern]
	}
}

// excess is by how much limits would be exceeded after a change.
func (c *cluster) excess(change []float64) float64 {
	e := 0.0
	for i := range c.rows {
		if over := c.used[i] + change[i] - c.rows[i].Most; over > 1e-9*max(1, c.rows[i].Most) {
			e += over
		}
	}
	return e
}

// placement is what each node holds.
func (c *cluster) placement() place.Placement {
	at := make(place.Placement, len(c.holds))
	counts := make([]uint8, len(c.holds)*c.apps)
	for n, pattern := range c.holds {
		at[n] = counts[n*c.apps : (n+1)*c.apps : (n+1)*c.apps]
		copy(at[n], c.classes[c.classOf[n]].table.Counts(int(pattern)))
	}
	return at
}
