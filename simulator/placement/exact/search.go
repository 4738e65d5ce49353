package exact

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"

	"trainopt/simulator/placement"
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

	best     placement.Placement // found so far
	value    float64
	round    *rounding
	left     float64 // the highest bound of what was left out for being too little better
	branches int
	parts    []fixed // the solution of the branch at hand
}

// search begins a search for what is worth more than value. It has the columns that can be part of that, by what they lose at the
// prices of the bound (a placement with a column is worth at most the bound less the column's loss), at most s.Columns.
func (r *relaxation) search(set Settings, round *rounding, value float64) *search {
	g := r.g
	s := &search{
		cols: &columns{rows: g.rows()}, round: round, value: value, left: math.Inf(-1), others: math.Inf(-1), root: r.bound,
		step: g.step / g.scale, gap: max(set.Gap, 0), most: set.Branches,
	}
	from := make([]int32, r.cols.len()) // a column's number here
	for j := range int32(r.cols.len()) {
		from[j] = -1
		if r.cols.group[j] < 0 || slices.Contains(r.basis.work, j) || slices.Contains(r.basis.key, j) {
			from[j] = int32(s.cols.len())
			copy(s.cols.add(int(r.cols.group[j]), int(r.cols.pattern[j]), r.cols.cost[j]), r.cols.column(j))
			s.cols.hi[from[j]] = r.cols.hi[j]
			s.loss = append(s.loss, 0)
		}
	}
	first := s.cols.len()
	s.addColumns(r, set.Columns)
	s.basis = newBasis(s.cols, g.rhs, r.basis.count)
	for i, j := range r.basis.work {
		s.basis.work[i] = from[j]
	}
	for i, j := range r.basis.key {
		s.basis.key[i] = from[j]
	}
	n := s.cols.len()
	s.least, s.active = first, n
	s.lo, s.hi, s.out, s.basic = make([]float64, n), slices.Clone(s.cols.hi), make([]bool, n), make([]bool, n)
	s.earns, s.rates = make([]float64, n), make([]float64, n)
	s.row, s.keys = make([]float64, s.cols.rows), make([]float64, len(g.groups))
	return s
}

// addColumns takes columns in by their loss.
func (s *search) addColumns(r *relaxation, most int) {
	type candidate struct {
		group, pattern int
		loss           float64
	}
	g := r.g
	g.price(r.prices, 1)
	var list []candidate
	known := map[[2]int32]bool{}
	for j, n := range s.cols.group {
		known[[2]int32{n, s.cols.pattern[j]}] = true
	}
	for n := range g.groups {
		_, worth := g.best(n)
		sums := g.kinds[g.groups[n].kind].sums
		g.groups[n].each(g, func(j int) {
			switch loss := worth - sums[j]; {
			case known[[2]int32{int32(n), int32(j)}]:
			case s.root-loss > s.enough():
				list = append(list, candidate{n, j, loss})
			default:
				s.others = max(s.others, s.root-loss)
			}
		})
	}
	slices.SortFunc(list, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.group, b.group), cmp.Compare(a.pattern, b.pattern))
	})
	for i, c := range list {
		if i >= most {
			s.others = max(s.others, s.root-c.loss)
			break
		}
		k := &g.kinds[g.groups[c.group].kind]
		g.column(g.groups[c.group].kind, c.pattern, s.cols.add(c.group, c.pattern, k.value[c.pattern]))
		s.loss = append(s.loss, c.loss)
	}
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

// solve is the dual simplex method with bounds; false: nothing there, or (value finite) nothing that is enough.
func (s *search) solve(n *branch) (value float64, ok bool) {
	b := s.basis
	if !b.factor() {
		return n.bound, false
	}
	b.prices(s.cols.cost)
	for j := range int32(s.active) {
		if !s.basic[j] {
			s.earns[j] = b.earns(j, s.cols.cost)
		}
	}
	for range 1000 {
		outside := s.outside(n)
		b.solve(outside)
		value = b.value(s.cols.cost)
		for _, f := range outside {
			value += f.x * s.cols.cost[f.col]
		}
		if s.tight(value) <= s.enough() {
			return value, false
		}
		leaves, isKey, below := s.worst()
		if leaves < 0 {
			return value, true
		}
		enters := s.entering(n, leaves, isKey, below)
		if enters < 0 {
			return math.Inf(-1), false
		}
		s.exchange(n, leaves, isKey, below, enters)
		if !b.factor() {
			return n.bound, false
		}
	}
	return n.bound, false
}

// worst is the basic column farthest beyond its bounds: its place among the working columns or the keys; −1: all are within.
func (s *search) worst() (at int, isKey, below bool) {
	at = -1
	most := 1e-8
	look := func(j int32, x float64, i int, key bool) {
		if d := s.lo[j] - x; d > most {
			most, at, isKey, below = d, i, key, true
		}
		if d := x - s.hi[j]; d > most {
			most, at, isKey, below = d, i, key, false
		}
	}
	for i, j := range s.basis.work {
		look(j, s.basis.xw[i], i, false)
	}
	for g, j := range s.basis.key {
		look(j, s.basis.xk[g], g, true)
	}
	return at, isKey, below
}

// tableRow computes by how much a basic column falls as each column outside rises.
func (s *search) tableRow(leaves int, isKey bool) {
	b, k := s.basis, s.cols.rows
	clear(s.row)
	if isKey {
		for i, j := range b.work {
			if int(s.cols.group[j]) == leaves {
				for r, v := range b.inverse[i*k : (i+1)*k] {
					s.row[r] -= v
				}
			}
		}
	} else {
		copy(s.row, b.inverse[leaves*k:(leaves+1)*k])
	}
	for g, j := range b.key {
		s.keys[g] = dot(s.row, s.cols.column(j))
	}
	if isKey {
		s.keys[leaves]--
	}
	for j := range int32(s.active) {
		if s.basic[j] || s.lo[j] == s.hi[j] {
			s.rates[j] = 0
			continue
		}
		v := dot(s.row, s.cols.column(j))
		if g := s.cols.group[j]; g >= 0 {
			v -= s.keys[g]
		}
		s.rates[j] = v
	}
}

// entering is the column that replaces one beyond its bound with the least loss; −1: none can.
func (s *search) entering(n *branch, leaves int, isKey, below bool) int32 {
	s.tableRow(leaves, isKey)
	sign := 1.0
	if below {
		sign = -1
	}
	enters, least, steep := int32(-1), math.Inf(1), 0.0
	for j, rate := range s.rates[:s.active] {
		if math.Abs(rate) <= pivot {
			continue
		}
		toward := sign * rate
		if s.out[j] && s.atUpper(n, int32(j)) {
			toward = -toward
		}
		if toward <= 0 {
			continue
		}
		ratio := math.Abs(s.earns[j]) / toward
		if ratio < least-1e-12 || ratio <= least+1e-12 && toward > steep {
			enters, least, steep = int32(j), ratio, toward
		}
	}
	return enters
}

func (s *search) atUpper(n *branch, j int32) bool {
	for i := range n.bounds {
		if n.bounds[i].col == j {
			return n.bounds[i].up
		}
	}
	return false
}

// exchange puts a column in for another and keeps what columns earn up to date.
func (s *search) exchange(n *branch, leaves int, isKey, below bool, enters int32) {
	b := s.basis
	leaver := b.key
	if !isKey {
		leaver = b.work
	}
	j := leaver[leaves]
	theta := s.earns[enters] / s.rates[enters]
	for c, rate := range s.rates[:s.active] {
		if rate != 0 {
			s.earns[c] -= theta * rate
		}
	}
	s.earns[j], s.earns[enters] = -theta, 0
	if isKey {
		b.replaceKey(int32(leaves), enters)
	} else {
		b.work[leaves] = enters
	}
	s.basic[j], s.basic[enters] = false, true
	for i := range n.bounds {
		if n.bounds[i].col == j {
			n.bounds[i].up = !below
		}
	}
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
func (s *search) take(at placement.Placement, value float64) {
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
