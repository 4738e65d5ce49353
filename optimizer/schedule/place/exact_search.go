package place

import (
	"context"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// branched is a bound on a column in a branch. up is set while the column is nonbasic at its upper bound.
type branched struct {
	col    int32
	lo, hi float64
	up     bool
}

// branch is an open node of the search tree: bounds on columns and an initial basis.
type branch struct {
	bound  float64
	bounds []branched
	work   []int32
	key    []int32
}

// Before orders the open branches: the highest bound first.
func (b *branch) Before(o *branch) bool { return b.bound > o.bound }

// search is branch and bound over the integer numbers of nodes of the columns. It dives, branching on one column at a
// time, and then returns to the open branch with the highest bound. Each branch is solved by the dual simplex method,
// warm-started from the basis of its parent.
type search struct {
	cols  *columns
	basis *basis
	step  float64 // values are multiples of it; 0: unknown
	gap   float64 // relative gap at which the search stops
	root  float64 // bound of the relaxation
	most  int     // maximum number of branches
	// target is the value at which the search stops; +Inf: none.
	target float64

	loss   []float64 // by column, ascending from least
	least  int       // columns below it are always kept
	active int       // columns from it on cannot occur in a sufficiently better placement
	others float64   // bound on placements with other columns

	open   schedule.Heap[*branch]
	lo, hi []float64 // by column, in the current branch
	out    []bool    // by column: whether the current branch bounds it
	basic  []bool
	earns  []float64
	rates  []float64
	row    []float64
	keys   []float64

	best     Placement // incumbent
	value    float64
	round    *rounding
	left     float64 // highest bound of the pruned branches and columns
	branches int
	parts    []fixed // solution of the current branch
}

// enough returns the value that a branch must exceed to be explored.
func (s *search) enough() float64 {
	if math.IsInf(s.value, -1) {
		return s.value
	}
	return s.value + tiny
}

// tight rounds a bound down to an attainable value.
func (s *search) tight(bound float64) float64 { return floor(bound, s.step) }

// floor returns the largest multiple of step that does not exceed value, or value itself if step is 0.
func floor(value, step float64) float64 {
	if step > 0 {
		return math.Floor(value/step+1e-6) * step
	}
	return value
}

// run searches until the incumbent is close enough to the bound or the branch limit is reached. At decreasing
// frequency, the fractional solution of the current branch is rounded like that of the relaxation.
func (s *search) run(ctx context.Context) error {
	next := &branch{bound: math.Inf(1), work: slices.Clone(s.basis.work), key: slices.Clone(s.basis.key)}
	rounds := 1
	for ; s.branches < s.most; s.branches++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.value >= s.target {
			break
		}
		// The dive has ended: return to the best open branch.
		if next == nil {
			if len(s.open) == 0 || s.close() {
				return nil
			}
			next = s.open.Pop()
		}
		if next.bound <= s.enough() {
			s.left = max(s.left, next.bound)
			next = nil
			continue
		}
		from := next
		next = s.dive(from)
		// Round at branches 1, 4, 9, …
		if next != nil && s.branches >= rounds*rounds {
			rounds++
			at, value, err := s.round.round(s.cols, s.parts)
			if err != nil {
				return err
			}
			s.take(at, value)
		}
	}
	if next != nil {
		s.open.Push(next)
	}
	return nil
}

// close reports whether the incumbent is within the wanted gap of the bound.
func (s *search) close() bool {
	bound := s.tight(max(s.value, s.left, s.others, s.open[0].bound))
	return bound-s.value <= s.gap*math.Abs(bound)
}

// bound returns an upper bound on placements of the columns in the search.
func (s *search) bound() float64 {
	b := max(s.value, s.left)
	for _, o := range s.open {
		b = max(b, o.bound)
	}
	return b
}

// dive solves a branch and creates two children. It returns the child to continue with, or nil if the branch is
// closed; the other child is queued.
func (s *search) dive(n *branch) *branch {
	for _, b := range n.bounds {
		if b.lo > s.cols.hi[b.col] {
			return nil // left includes the column's loss
		}
	}
	s.enter(n)
	defer s.exit(n)
	value, ok := s.solve(n)
	if !ok {
		if value > math.Inf(-1) {
			s.left = max(s.left, min(value, n.bound))
		}
		return nil
	}
	value = min(s.tight(value), n.bound)
	if value <= s.enough() {
		s.left = max(s.left, value)
		return nil
	}
	s.parts = append(s.basis.parts(), s.outside(n)...)
	col, x := s.fractional()
	if col < 0 {
		s.whole()
		return nil
	}
	down, up := s.child(n, value, col, math.Inf(-1), math.Floor(x)), s.child(n, value, col, math.Ceil(x), math.Inf(1))
	// Continue with the upper side from a fraction of 0.4, else with the lower one.
	if x-math.Floor(x) >= 0.4 {
		s.open.Push(down)
		return up
	}
	s.open.Push(up)
	return down
}

// child returns a copy of a branch with one further bound.
func (s *search) child(n *branch, value float64, col int32, lo, hi float64) *branch {
	c := &branch{bound: value, bounds: slices.Clone(n.bounds), work: slices.Clone(s.basis.work), key: slices.Clone(s.basis.key)}
	for i := range c.bounds {
		if c.bounds[i].col == col {
			c.bounds[i].lo, c.bounds[i].hi = max(c.bounds[i].lo, lo), min(c.bounds[i].hi, hi)
			return c
		}
	}
	c.bounds = append(c.bounds, branched{col: col, lo: max(0, lo), hi: hi})
	return c
}

// enter installs the bounds and the basis of a branch.
func (s *search) enter(n *branch) {
	for _, b := range n.bounds {
		s.lo[b.col], s.hi[b.col], s.out[b.col] = b.lo, min(b.hi, s.cols.hi[b.col]), true
	}
	copy(s.basis.work, n.work)
	copy(s.basis.key, n.key)
	for _, j := range s.basis.work {
		s.basic[j] = true
	}
	for _, j := range s.basis.key {
		s.basic[j] = true
	}
}

// exit resets the bounds and the basis flags of a branch.
func (s *search) exit(n *branch) {
	for _, b := range n.bounds {
		s.lo[b.col], s.hi[b.col], s.out[b.col] = 0, s.cols.hi[b.col], false
	}
	for _, j := range s.basis.work {
		s.basic[j] = false
	}
	for _, j := range s.basis.key {
		s.basic[j] = false
	}
}

// outside returns the nonbasic columns with nonzero values.
func (s *search) outside(n *branch) []fixed {
	var list []fixed
	for _, b := range n.bounds {
		if s.basic[b.col] {
			continue
		}
		x := b.lo
		if b.up {
			x = b.hi
		}
		if x != 0 {
			list = append(list, fixed{b.col, x})
		}
	}
	return list
}

// fractional returns the basic column with the largest fractional part, or −1 if all values are integers.
func (s *search) fractional() (col int32, x float64) {
	col = -1
	most := 1e-6
	look := func(j int32, v float64) {
		if s.cols.group[j] < 0 {
			return
		}
		f := v - math.Floor(v)
		if f > 1-1e-6 {
			return
		}
		if f > most {
			most, col, x = f, j, v
		}
	}
	for _, f := range s.parts {
		look(f.col, f.x)
	}
	return col, x
}

// whole accepts an integer solution.
func (s *search) whole() {
	value := 0.0
	kept := s.parts[:0]
	for _, f := range s.parts {
		if f.x = math.Round(f.x); f.x != 0 && s.cols.group[f.col] >= 0 {
			kept = append(kept, f)
			value += f.x * s.cols.cost[f.col]
		}
	}
	if value > s.value {
		s.take(s.round.g.placement(s.cols, kept), value)
	}
}

// take replaces the incumbent by a better placement and drops columns that cannot occur in a better one.
func (s *search) take(at Placement, value float64) {
	if !(value > s.value) {
		return
	}
	s.best, s.value = at, value
	for s.active > s.least && s.root-s.loss[s.active-1] <= s.enough() {
		s.active--
		s.left = max(s.left, s.root-s.loss[s.active])
		s.cols.hi[s.active], s.hi[s.active] = 0, 0
	}
}
