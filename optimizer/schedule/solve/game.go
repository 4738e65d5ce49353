package solve

import "math"

// game is a matrix game, solved as a linear program with few rows. Given lists of numbers V_k, it finds the mixture
// whose largest number is smallest,
//
//	min s   with   Σ_k λ_k V_kj ≤ s for all j,   Σ λ = 1,   λ ≥ 0,
//
// by the simplex method, warm-started from the last basis. The dual variables are the odds over j, the mixture
// against which the best V_k is worst. A pivot with K lists of J numbers costs O(J³ + K·J). Numbers have the form V =
// base + slope · t, so that t can change while the basis is kept.
type game struct {
	size    int // J
	lists   []line
	basis   []int     // a list, valueColumn, or a slack below valueColumn
	inverse []float64 // of the basis matrix, J+1 rows
	level   []float64 // values of the basic columns
	odds    []float64

	matrix, column []float64
}

// line is base + slope · t.
type line struct{ base, slope []float64 }

const (
	valueColumn = -1
	mostPivots  = 200
)

func newGame(size int) *game {
	R := size + 1
	return &game{
		size: size, basis: make([]int, 0, R), inverse: make([]float64, R*R), level: make([]float64, R), odds: make([]float64, size),
		matrix: make([]float64, R*R), column: make([]float64, R),
	}
}

// solve returns the value at t and its derivative with respect to t, or false when rounding prevents a solution.
func (m *game) solve(t float64) (value, slope float64, ok bool) {
	fresh := len(m.basis) == 0
	if fresh {
		m.begin(t)
	}
	for range mostPivots {
		// The basis may be infeasible at a new t: restart once from a single list.
		if !m.invert(t) || !m.feasible() && !m.refined(t) {
			if fresh {
				return 0, 0, false
			}
			fresh = true
			m.begin(t)
			continue
		}
		enter, any := m.enter(t)
		if !any {
			for i, k := range m.basis {
				if k == valueColumn {
					value = m.level[i]
				}
				if k < 0 {
					continue
				}
				for j, v := range m.lists[k].slope {
					slope += m.level[i] * m.odds[j] * v
				}
			}
			return value, slope, true
		}
		if !m.exchange(enter, t) {
			return 0, 0, false
		}
	}
	return 0, 0, false
}

// begin starts from the single list whose largest number is smallest.
func (m *game) begin(t float64) {
	list, row, least := 0, 0, math.Inf(1)
	for k := range m.lists {
		most, at := math.Inf(-1), 0
		for j, v := range m.write(k, t)[:m.size] {
			if v > most {
				most, at = v, j
			}
		}
		if most < least {
			list, row, least = k, at, most
		}
	}
	m.basis = append(m.basis[:0], valueColumn, list)
	for j := range m.size {
		if j != row {
			m.basis = append(m.basis, valueColumn-1-j)
		}
	}
}

// write returns a column of the program; the slice is reused by the next call.
func (m *game) write(k int, t float64) []float64 {
	clear(m.column)
	switch {
	case k >= 0:
		l := &m.lists[k]
		for j, v := range l.base {
			m.column[j] = v + l.slope[j]*t
		}
		m.column[m.size] = 1
	case k == valueColumn:
		for j := range m.size {
			m.column[j] = -1
		}
	default:
		m.column[valueColumn-1-k] = 1
	}
	return m.column
}

// invert computes the inverse of the basis by Gauss-Jordan elimination with row exchanges. It returns false when the
// basis is singular.
func (m *game) invert(t float64) bool {
	R := m.size + 1
	a, inv := m.matrix, m.inverse
	clear(inv)
	for i, k := range m.basis {
		for r, v := range m.write(k, t) {
			a[r*R+i] = v
		}
		inv[i*R+i] = 1
	}
	for k := range R {
		at := k
		for i := k; i < R; i++ {
			if math.Abs(a[i*R+k]) > math.Abs(a[at*R+k]) {
				at = i
			}
		}
		pivot := a[at*R+k]
		if pivot == 0 || math.IsNaN(pivot) {
			return false
		}
		for j := range R {
			a[k*R+j], a[at*R+j] = a[at*R+j]/pivot, a[k*R+j]
			inv[k*R+j], inv[at*R+j] = inv[at*R+j]/pivot, inv[k*R+j]
			if at == k {
				a[k*R+j], inv[k*R+j] = a[k*R+j]/pivot, inv[k*R+j]/pivot
			}
		}
		for i := range R {
			if v := a[i*R+k]; i != k && v != 0 {
				for j := range R {
					a[i*R+j] -= v * a[k*R+j]
					inv[i*R+j] -= v * inv[k*R+j]
				}
			}
		}
	}
	return true
}

// feasible reads the levels and odds from the inverse and reports whether no basic list is negative.
func (m *game) feasible() bool {
	R, ok := m.size+1, true
	for i, k := range m.basis {
		m.level[i] = m.inverse[i*R+m.size]
		if k == valueColumn {
			for j := range m.odds {
				m.odds[j] = -m.inverse[i*R+j]
			}
		} else if !(m.level[i] > -1e-9) {
			ok = false
		}
	}
	return ok
}

// refined repeats the feasibility test with levels corrected by their residual, which is summed in twice the precision
// (Wilkinson's iterative refinement): after a pivot on a small element the inverse alone can report a level of zero as
// negative.
func (m *game) refined(t float64) bool {
	R := m.size + 1
	high, low := make([]float64, R), make([]float64, R)
	high[m.size] = 1
	for i, k := range m.basis {
		for r, v := range m.write(k, t) {
			p := -v * m.level[i]
			sum := high[r] + p
			back := sum - high[r]
			low[r] += (high[r] - (sum - back)) + (p - back) + math.FMA(-v, m.level[i], -p)
			high[r] = sum
		}
	}
	for i, k := range m.basis {
		for r := range R {
			m.level[i] += m.inverse[i*R+r] * (high[r] + low[r])
		}
		if k != valueColumn && !(m.level[i] > -1e-9) {
			return false
		}
	}
	return true
}

// enter returns the column with the most negative reduced cost; any is false at the optimum.
func (m *game) enter(t float64) (column int, any bool) {
	const rounding = 1e-13 // relative to the terms of the sum
	best := -rounding
	// Slacks: their reduced cost is the odds of their row.
	for j, v := range m.odds {
		if v < best {
			column, best, any = valueColumn-1-j, v, true
		}
	}
	own := 0.0 // the value of the game from the row Σ λ = 1
	for i, k := range m.basis {
		if k == valueColumn {
			own = m.level[i]
		}
	}
	for k := range m.lists {
		l := &m.lists[k]
		v, size := -own, math.Abs(own)
		for j, p := range m.odds {
			a := p * (l.base[j] + l.slope[j]*t)
			v += a
			size += math.Abs(a)
		}
		if v < best && v < -rounding*size {
			column, best, any = k, v, true
		}
	}
	return column, any
}

// exchange brings a column into the basis by the ratio test. It returns false when no column can leave.
func (m *game) exchange(enter int, t float64) bool {
	R := m.size + 1
	column := m.write(enter, t)
	leave, ratio := -1, math.Inf(1)
	for i, k := range m.basis {
		d := 0.0
		for j, v := range column {
			d += m.inverse[i*R+j] * v
		}
		if k != valueColumn && d > 1e-13 {
			if r := max(0, m.level[i]) / d; r < ratio {
				leave, ratio = i, r
			}
		}
	}
	if leave < 0 {
		return false
	}
	m.basis[leave] = enter
	return true
}
