package place

import "math"

// solve runs the bounded dual simplex method on a branch. ok is false if the branch is infeasible (value −Inf), if
// its value is not sufficient (finite), or if the method fails (value is the bound of the branch).
func (s *search) solve(n *branch) (value float64, ok bool) {
	b := s.basis
	if !b.factor() {
		return n.bound, false
	}
	b.prices(s.cols.cost)
	for j := range int32(s.active) {
		if !s.basic[j] {
			s.earns[j] = b.reducedProfit(j, s.cols.cost)
		}
	}
	for range 1000 {
		outside := s.outside(n)
		b.solve(outside)
		value = b.value(s.cols.cost)
		for _, f := range outside {
			value += f.x * s.cols.cost[f.col]
		}
		// The dual objective bounds the branch, and only decreases.
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

// worst returns the basic column with the largest bound violation: its index among the working columns or the keys;
// −1 if all are within their bounds.
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

// tableRow computes the decrease of a basic column per unit of increase of each nonbasic column.
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
	// Products with the keys: the entry of a column is reduced by that of its group's key, as in the working matrix.
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

// entering returns the column that replaces the leaving column at the smallest loss, or −1 if none can (the branch is
// infeasible).
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

// atUpper reports whether a column is nonbasic at its upper bound.
func (s *search) atUpper(n *branch, j int32) bool {
	for i := range n.bounds {
		if n.bounds[i].col == j {
			return n.bounds[i].up
		}
	}
	return false
}

// exchange performs a pivot and updates the reduced profits.
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
