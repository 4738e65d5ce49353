package exact

import (
	"container/heap"
	"context"
	"math"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// branched is what a branch says about a column, and whether it stands at its upper limit while outside the basis.
type branched struct {
	col    int32
	lo, hi float64
	up     bool
}

// branch is a part of the search that is open: bounds of columns, and the basis to begin with.
type branch struct {
	bound  float64
	bounds []branched
	work   []int32
	key    []int32
}

// open orders branches by their bound, the highest first.
type open []*branch

func (o open) Len() int           { return len(o) }
func (o open) Less(i, j int) bool { return o[i].bound > o[j].bound }
func (o open) Swap(i, j int)      { o[i], o[j] = o[j], o[i] }
func (o *open) Push(x any)        { *o = append(*o, x.(*branch)) }
func (o *open) Pop() any {
	old := *o
	last := old[len(old)-1]
	*o = old[:len(old)-1]
	return last
}

// search finds whole numbers of nodes for columns by branch and bound: it dives, rounding a column at a time, and goes back to the
// open branch with the highest bound. Each branch is solved by the dual simplex method from the basis of the one before.
type search struct {
	cols  *columns
	basis *basis
	step  float64 // values are multiples of it
	gap   float64 // as far from the bound as is good enough, relative
	root  float64 // bound of all
	most  int     // branches
	// target is the value from which on nothing better is looked for; +Inf: none
	target float64

	loss   []float64 // by column, rising from least on
	least  int       // columns before it stay
	active int       // columns from it on cannot be part of anything that is enough
	others float64   // what no placement with other columns exceeds

	open   open
	lo, hi []float64 // by column, in the branch at hand
	out    []bool    // by column: it has bounds in the branch at hand
	basic  []bool
	earns  []float64
	rates  []float64
	row    []float64
	keys   []float64

	best     place.Placement // found so far
	value    float64
	round    *rounding
	left     float64 // the highest bound of what was left out for being too little better
	branches int
	parts    []fixed // the solution of the branch at hand
}

// enough is what a branch must exceed to be looked at.
func (s *search) enough() float64 {
	if math.IsInf(s.value, -1) {
		return s.value
	}
	return s.value + tiny
}

// tight is a bound, lowered to what values there are.
func (s *search) tight(bound float64) float64 { return floor(bound, s.step) }

// floor is the multiple of step, if there is one, that a value does not exceed.
func floor(value, step float64) float64 {
	if step > 0 {
		return math.Floor(value/step+1e-6) * step
	}
	return value
}

// run searches until the best placement is close enough to the bound or the branches are used up. Now and then, ever less often, the
// branch at hand is rounded as the relaxation was.
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
		if next == nil {
			if len(s.open) == 0 || s.close() {
				return nil
			}
			next = heap.Pop(&s.open).(*branch)
		}
		if next.bound <= s.enough() {
			s.left = max(s.left, next.bound)
			next = nil
			continue
		}
		from := next
		next = s.dive(from)
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
		heap.Push(&s.open, next)
	}
	return nil
}

// close says whether the best placement is as close to the bound as is wanted.
func (s *search) close() bool {
	bound := s.tight(max(s.value, s.left, s.others, s.open[0].bound))
	return bound-s.value <= s.gap*math.Abs(bound)
}

// bound is what no placement of these columns exceeds.
func (s *search) bound() float64 {
	b := max(s.value, s.left)
	for _, o := range s.open {
		b = max(b, o.bound)
	}
	return b
}

// dive solves a branch and opens two; the one to go on with is returned, nil when the branch has ended.
func (s *search) dive(n *branch) *branch {
	for _, b := range n.bounds {
		if b.lo > s.cols.hi[b.col] {
			return nil // left has the column's loss
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
	if x-math.Floor(x) >= 0.4 {
		heap.Push(&s.open, down)
		return up
	}
	heap.Push(&s.open, up)
	return down
}

// child is a branch with one bound more.
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

// enter sets the bounds and the basis of a branch.
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

// outside lists what columns outside the basis stand at, where it is not 0.
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

// fractional is the column to branch on: a basic one with the largest part beyond a whole number; −1: all are whole.
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

// whole keeps a solution in whole numbers.
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

// take keeps a placement that is better than the best, and leaves columns out that cannot be part of a better one.
func (s *search) take(at place.Placement, value float64) {
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
