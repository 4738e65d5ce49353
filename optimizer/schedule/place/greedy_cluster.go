package place

import (
	"slices"
)

// cluster groups nodes by content: nodes of a class with the same pattern form one state, and decisions are made per
// state.
type cluster struct {
	apps    int
	classes []class
	rows    []row // limits; used contains their sums over nodes
	used    []float64
	total   float64 // value of the objective

	classOf []int32 // by node
	holds   []int32 // by node: pattern
	pos     []int32 // by node: index in its state
}

// class is the set of nodes with the same table and cost and, where existing containers must stay, the same existing
// containers.
type class struct {
	table  *Table
	value  []float64
	kind   int // index of a node type with this table and cost
	floor  int // pattern of the containers that must stay
	states []state
	at     []int32 // by pattern: index of its state + 1; 0: none
}

// state is the set of nodes of a class with a given pattern.
type state struct {
	pattern int32
	nodes   []int32
}

// newCluster groups the nodes into classes. floors contains the containers of each node that must stay (nil: none).
// sums are weights of sums, see place.PatternSums.
func newCluster(p *Problem, sums Objective, l Limits, floors [][]uint8) *cluster {
	c := &cluster{apps: p.Apps(), rows: p.Rows(l)}
	c.used = make([]float64, len(c.rows))
	n := p.Nodes()
	c.classOf, c.holds, c.pos = make([]int32, 0, n), make([]int32, n), make([]int32, n)
	type key struct{ kind, floor int }
	classes := map[key]int{}
	node := 0
	for i := range p.Types {
		t := &p.Types[i]
		// The first node type with the same table and cost.
		kind := slices.IndexFunc(p.Types[:i+1], func(u NodeType) bool { return u.Table == t.Table && u.Cost == t.Cost })
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

// valueOf returns the values of a class's patterns, shared between classes of a kind.
func (c *cluster) valueOf(p *Problem, sums Objective, at int) []float64 {
	for i := range c.classes[:at] {
		if c.classes[i].kind == c.classes[at].kind {
			return c.classes[i].value
		}
	}
	return p.PatternSums(sums, c.classes[at].kind)
}

// put changes the pattern of a node and updates states, sums and the objective.
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
		cl.states = slices.Grow(cl.states, 1)[:n+1] // reuses the memory of a removed state
		cl.states[n].pattern, cl.states[n].nodes = pattern, cl.states[n].nodes[:0]
		cl.at[pattern] = int32(n + 1)
	}
	s := &cl.states[cl.at[pattern]-1]
	c.pos[node] = int32(len(s.nodes))
	s.nodes = append(s.nodes, node)
}

// take removes a node from its state, and the state if it becomes empty.
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

// account adds (sign 1) or removes (sign −1) a pattern in the objective and the limits.
func (c *cluster) account(cl *class, pattern int32, sign float64) {
	c.total += sign * cl.value[pattern]
	for i := range c.rows {
		c.used[i] += sign * c.rows[i].Uses[cl.kind][pattern]
	}
}

// excess returns the total amount by which limits would be exceeded after a change.
func (c *cluster) excess(change []float64) float64 {
	e := 0.0
	for i := range c.rows {
		if over := c.used[i] + change[i] - c.rows[i].Most; over > 1e-9*max(1, c.rows[i].Most) {
			e += over
		}
	}
	return e
}

// placement returns the content of all nodes.
func (c *cluster) placement() Placement {
	at := make(Placement, len(c.holds))
	counts := make([]uint8, len(c.holds)*c.apps)
	for n, pattern := range c.holds {
		at[n] = counts[n*c.apps : (n+1)*c.apps : (n+1)*c.apps]
		copy(at[n], c.classes[c.classOf[n]].table.Counts(int(pattern)))
	}
	return at
}
