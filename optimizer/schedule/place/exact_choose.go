package place

import (
	"cmp"
	"math"
	"slices"
)

// search prepares branch and bound for placements better than value. It keeps at most s.Columns columns that such a
// placement can contain, in ascending order of their loss at the prices of the bound: a placement with a column is
// worth at most the bound minus the loss of the column.
func (r *relaxation) search(set ExactSettings, round *rounding, value float64) *search {
	g := r.g
	s := &search{
		cols: &columns{rows: g.rows()}, round: round, value: value, left: math.Inf(-1), others: math.Inf(-1), root: r.bound,
		step: g.step / g.scale, gap: max(set.Gap, 0), most: set.Branches,
	}
	from := make([]int32, r.cols.len()) // new index of a column; −1: dropped
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

// addColumns adds columns in ascending order of loss.
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
	// Loss of a pattern: the best reduced value of its group minus its own.
	for n := range g.groups {
		worth := g.best(n)
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
	// Patterns beyond the limit contribute to the bound only.
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
