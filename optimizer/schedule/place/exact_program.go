package place

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// group is the set of nodes of one kind with the same existing containers.
type group struct {
	kind     int     // index into program.kinds
	floor    int     // pattern of the existing containers
	patterns []int32 // patterns a node can have; nil: all patterns of the kind
	nodes    []int   // node numbers in ascending order
}

// kind is the set of node types with the same table and cost.
type kind struct {
	table *Table
	value []float64 // by pattern
	// parent is the pattern with one container less and last the app of that container, so that sums over containers
	// take one addition per pattern.
	parent []int32
	last   []uint8
	limit  [][]float64 // by limit and pattern: use of the limit
	sums   []float64   // reduced values of the patterns, see price
}

// program is a problem in configuration form: its variables are the numbers of nodes of each group with each pattern.
type program struct {
	p      *Problem
	apps   int
	kinds  []kind
	groups []group
	rhs    []float64 // number of containers by app, then limits
	grows  []bool    // by limit: no pattern has a negative use
	scale  float64   // divisor of values; the largest value is 1
	step   float64   // all values of placements are multiples of it; 0: unknown
}

func (g *program) rows() int { return len(g.rhs) }

// newProgram enumerates the patterns of all nodes. O(patterns × (apps + constraints) × types).
func newProgram(p *Problem, o Objective, l Limits) (*program, error) {
	g := &program{p: p, apps: p.Apps(), rhs: make([]float64, p.Apps())}
	// Rows: containers of each app, including existing ones, and limits.
	for a, k := range p.Batch {
		g.rhs[a] = float64(k)
	}
	for _, node := range p.Existing {
		for a, k := range node {
			g.rhs[a] += float64(k)
		}
	}
	rows := p.Rows(l)
	for _, row := range rows {
		g.rhs = append(g.rhs, row.Most)
	}
	// Node types with the same table and cost share a kind.
	kindOf := make([]int, len(p.Types))
	for i := range p.Types {
		t := &p.Types[i]
		kindOf[i] = slices.IndexFunc(p.Types[:i], func(u NodeType) bool { return u.Table == t.Table && u.Cost == t.Cost })
		if kindOf[i] >= 0 {
			kindOf[i] = kindOf[kindOf[i]]
			continue
		}
		kindOf[i] = len(g.kinds)
		g.kinds = append(g.kinds, newKind(p, i, o, rows))
	}
	for l := range rows {
		g.scaleLimit(l)
	}
	g.step = step(o, p)
	// Scale the values so that tolerances are relative.
	for i := range g.kinds {
		for _, v := range g.kinds[i].value {
			g.scale = max(g.scale, math.Abs(v))
		}
	}
	g.scale = cmp.Or(g.scale, 1)
	for i := range g.kinds {
		for j := range g.kinds[i].value {
			g.kinds[i].value[j] /= g.scale
		}
	}
	g.addGroups(kindOf)
	for i := range g.groups {
		if gr := &g.groups[i]; gr.patterns != nil && len(gr.patterns) == 0 {
			return nil, fmt.Errorf("%w: what runs on node %d already is beyond one", ErrInfeasible, gr.nodes[0]+1)
		}
	}
	return g, nil
}

// scaleLimit scales a limit so that the largest use by a pattern is 1.
func (g *program) scaleLimit(l int) {
	most, least := 0.0, 0.0
	for i := range g.kinds {
		most, least = max(most, slices.Max(g.kinds[i].limit[l])), min(least, slices.Min(g.kinds[i].limit[l]))
	}
	g.grows = append(g.grows, least >= 0)
	if most = max(most, -least); most == 0 {
		return
	}
	for i := range g.kinds {
		for j := range g.kinds[i].limit[l] {
			g.kinds[i].limit[l][j] /= most
		}
	}
	g.rhs[g.apps+l] /= most
}

// addGroups groups nodes by kind and existing containers.
func (g *program) addGroups(kindOf []int) {
	type key struct{ kind, floor int }
	at := map[key]int{}
	node := 0
	for i := range g.p.Types {
		for range g.p.Types[i].Count {
			k := key{kind: kindOf[i]}
			if g.p.Existing != nil {
				k.floor = g.kinds[k.kind].table.Index(g.p.Existing[node])
			}
			n, ok := at[k]
			if !ok {
				n = len(g.groups)
				at[k] = n
				g.groups = append(g.groups, group{kind: k.kind, floor: k.floor, patterns: g.patternsOf(k.kind, k.floor)})
			}
			g.groups[n].nodes = append(g.groups[n].nodes, node)
			node++
		}
	}
}

// patternsOf returns the possible patterns of a node with the given existing containers: those extended by containers
// of the batch that satisfy the limits by themselves. nil: all patterns.
func (g *program) patternsOf(kind, floor int) []int32 {
	k := &g.kinds[kind]
	counts := slices.Clone(k.table.Counts(floor))
	room := k.table.Capacity()
	for _, c := range counts {
		room -= int(c)
	}
	list := []int32{}
	var fill func(app, left int)
	fill = func(app, left int) {
		if app == len(counts) {
			if at := k.table.Index(counts); g.alone(k, at) {
				list = append(list, int32(at))
			}
			return
		}
		before := counts[app]
		for n := 0; n <= min(left, g.p.Batch[app]); n++ {
			counts[app] = before + uint8(n)
			fill(app+1, left-n)
		}
		counts[app] = before
	}
	fill(0, room)
	if len(list) == k.table.Patterns() {
		return nil
	}
	slices.Sort(list)
	return list
}

// alone reports whether a pattern by itself satisfies the limits whose uses are nonnegative.
func (g *program) alone(k *kind, pattern int) bool {
	for l, row := range k.limit {
		if g.grows[l] && row[pattern] > g.rhs[g.apps+l]+tiny {
			return false
		}
	}
	return true
}

// each calls f for every pattern of a group.
func (gr *group) each(g *program, f func(pattern int)) {
	if gr.patterns != nil {
		for _, j := range gr.patterns {
			f(int(j))
		}
		return
	}
	for j := range g.kinds[gr.kind].value {
		f(j)
	}
}

// newKind computes the values, parents and limit uses of the patterns of node type t.
func newKind(p *Problem, t int, o Objective, rows []row) kind {
	table := p.Types[t].Table
	k := kind{
		table: table, value: p.PatternValues(o, t),
		parent: make([]int32, table.Patterns()), last: make([]uint8, table.Patterns()), sums: make([]float64, table.Patterns()),
	}
	for i := 1; i < table.Patterns(); i++ {
		for a, c := range table.Counts(i) {
			if c > 0 {
				k.parent[i], k.last[i] = int32(table.Minus(i, a)), uint8(a)
				break
			}
		}
	}
	for _, row := range rows {
		k.limit = append(k.limit, row.Uses[t])
	}
	return k
}

// step returns a number of which all objective values are multiples, for objectives with a single term; 0 if unknown.
func step(o Objective, p *Problem) float64 {
	whole := func(x float64) bool { return x == math.Trunc(x) }
	switch {
	case o == (Objective{SLO: o.SLO}) && o.SLO != 0:
		return math.Abs(o.SLO) / float64(max(p.Containers(), 1))
	case o == (Objective{Vacant: o.Vacant}) && o.Vacant != 0:
		return math.Abs(o.Vacant) / float64(max(p.Nodes(), 1))
	case o == (Objective{Missed: o.Missed}) && o.Missed != 0:
		for _, c := range p.Constraints {
			if !whole(c.Weight) {
				return 0
			}
		}
		return math.Abs(o.Missed)
	case o == (Objective{Cost: o.Cost}) && o.Cost != 0:
		for i := range p.Types {
			if !whole(p.Types[i].Cost) {
				return 0
			}
		}
		return math.Abs(o.Cost)
	}
	return 0
}

// column writes the coefficients of a pattern in each row.
func (g *program) column(kind, pattern int, into []float64) {
	k := &g.kinds[kind]
	for a, c := range k.table.Counts(pattern) {
		into[a] = float64(c)
	}
	for l, row := range k.limit {
		into[g.apps+l] = row[pattern]
	}
}

// price computes the reduced value of each pattern of every kind at the given row prices: weight · value − price ·
// column.
func (g *program) price(prices []float64, weight float64) {
	for i := range g.kinds {
		k := &g.kinds[i]
		sums, value := k.sums, k.value
		// prices of the containers, from the sum for the pattern without the last one
		sums[0] = 0
		for j := 1; j < len(sums); j++ {
			sums[j] = sums[k.parent[j]] - prices[k.last[j]]
		}
		if weight != 0 {
			for j, v := range value {
				sums[j] += weight * v
			}
		}
		for l, row := range k.limit {
			if y := prices[g.apps+l]; y != 0 {
				for j, u := range row {
					sums[j] -= y * u
				}
			}
		}
	}
}

// best returns the largest reduced value of the patterns of a group after the last call of price.
func (g *program) best(n int) float64 {
	gr := &g.groups[n]
	sums := g.kinds[gr.kind].sums
	worth := math.Inf(-1)
	if gr.patterns == nil {
		for _, s := range sums {
			if s > worth {
				worth = s
			}
		}
		return worth
	}
	for _, j := range gr.patterns {
		if s := sums[j]; s > worth {
			worth = s
		}
	}
	return worth
}

// bound returns an upper bound on all placements, in the scale of the program, from the last call of price with
// weight 1: the Lagrangian relaxation of all rows. It holds for any prices that are nonnegative for limits,
// regardless of simplex errors; the margin covers the rounding of the sum itself.
func (g *program) bound(prices []float64) float64 {
	b, size := 0.0, 1.0
	for i, y := range prices {
		b += y * g.rhs[i]
		size += math.Abs(y * g.rhs[i])
	}
	for n := range g.groups {
		worth := g.best(n)
		b += worth * float64(len(g.groups[n].nodes))
		size += math.Abs(worth) * float64(len(g.groups[n].nodes))
	}
	return b + 1e-13*size
}
