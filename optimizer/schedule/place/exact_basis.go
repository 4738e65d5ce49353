package place

import (
	"math"
	"slices"
)

const (
	free  = -1   // group of a column that belongs to no group
	tiny  = 1e-9 // tolerance for zero in solutions and prices
	pivot = 1e-8 // smallest pivot
)

// columns are the active columns of a program: patterns of groups, slacks of limits and, in phase 1, artificial
// columns.
type columns struct {
	rows    int
	cells   []float64 // columns × rows
	cost    []float64
	group   []int32 // free for columns without group
	pattern []int32
	hi      []float64 // upper bound; 0 for artificial columns in phase 2
}

func (c *columns) len() int                 { return len(c.cost) }
func (c *columns) column(j int32) []float64 { return c.cells[int(j)*c.rows : (int(j)+1)*c.rows] }

func (c *columns) add(group, pattern int, cost float64) []float64 {
	at := len(c.cells)
	c.cells = append(c.cells, make([]float64, c.rows)...)
	c.cost = append(c.cost, cost)
	c.group, c.pattern = append(c.group, int32(group)), append(c.pattern, int32(pattern))
	c.hi = append(c.hi, math.Inf(1))
	return c.cells[at:]
}

// basis is a basis of the linear relaxation, in which the patterns of each group sum to its number of nodes (one row
// per group) and the columns to the right-hand side. It uses generalized upper bounding (Dantzig and Van Slyke,
// 1967): each group has a key column, and only the remaining rows form a matrix, that of the working columns minus
// the keys of their groups. The cost of a step is therefore cubic in the number of apps and limits and independent of
// the number of groups.
type basis struct {
	cols  *columns
	rhs   []float64
	count []float64 // number of nodes by group
	work  []int32   // working columns, one per row
	key   []int32   // by group

	inverse    []float64 // rows × rows: row i belongs to work[i]
	scratch    []float64
	xw, xk     []float64 // values of the working columns and of the keys
	price      []float64 // by row
	groupPrice []float64
}

func newBasis(cols *columns, rhs, count []float64) *basis {
	k, n := cols.rows, len(count)
	return &basis{
		cols: cols, rhs: rhs, count: count, work: make([]int32, k), key: make([]int32, n),
		inverse: make([]float64, k*k), scratch: make([]float64, 2*k*k), xw: make([]float64, k), xk: make([]float64, n),
		price: make([]float64, k), groupPrice: make([]float64, n),
	}
}

// factor inverts the working matrix. It returns false if the matrix is singular.
func (b *basis) factor() bool {
	k := b.cols.rows
	m := b.scratch // by row: matrix, followed by its inverse
	clear(m)
	// Working matrix and identity.
	for i, j := range b.work {
		a := b.cols.column(j)
		if g := b.cols.group[j]; g >= 0 {
			for r, v := range b.cols.column(b.key[g]) {
				m[r*2*k+i] = a[r] - v
			}
		} else {
			for r, v := range a {
				m[r*2*k+i] = v
			}
		}
		m[i*2*k+k+i] = 1
	}
	// Gauss-Jordan elimination with row exchanges.
	for i := range k {
		best, most := i, 0.0
		for r := i; r < k; r++ {
			if v := math.Abs(m[r*2*k+i]); v > most {
				best, most = r, v
			}
		}
		if most < 1e-10 {
			return false
		}
		row := m[i*2*k : (i+1)*2*k]
		if best != i {
			other := m[best*2*k : (best+1)*2*k]
			for c := range row {
				row[c], other[c] = other[c], row[c]
			}
		}
		f := 1 / row[i]
		for c := i; c < 2*k; c++ {
			row[c] *= f
		}
		for r := range k {
			if v := m[r*2*k+i]; v != 0 && r != i {
				other := m[r*2*k : (r+1)*2*k]
				for c := i; c < 2*k; c++ {
					other[c] -= v * row[c]
				}
			}
		}
	}
	for i := range k {
		copy(b.inverse[i*k:(i+1)*k], m[i*2*k+k:(i+1)*2*k])
	}
	return true
}

func dot(a, b []float64) float64 {
	s := 0.0
	b = b[:len(a)]
	for i, v := range a {
		s += v * b[i]
	}
	return s
}

// fixed is a column with a value.
type fixed struct {
	col int32
	x   float64
}

// solve computes the values of the basic columns, given those of the nonbasic ones with nonzero values.
func (b *basis) solve(outside []fixed) {
	k := b.cols.rows
	rest := b.scratch[:k]
	copy(rest, b.rhs)
	copy(b.xk, b.count)
	for _, f := range outside {
		for r, v := range b.cols.column(f.col) {
			rest[r] -= f.x * v
		}
		if g := b.cols.group[f.col]; g >= 0 {
			b.xk[g] -= f.x
		}
	}
	// Subtract the keys as if they covered all nodes of their groups; a working column then replaces its key.
	for g, n := range b.xk {
		if n != 0 {
			for r, v := range b.cols.column(b.key[g]) {
				rest[r] -= n * v
			}
		}
	}
	for i, j := range b.work {
		b.xw[i] = dot(b.inverse[i*k:(i+1)*k], rest)
		if g := b.cols.group[j]; g >= 0 {
			b.xk[g] -= b.xw[i]
		}
	}
}

// parts returns the basic columns and their values.
func (b *basis) parts() []fixed {
	list := make([]fixed, 0, len(b.work)+len(b.key))
	for i, j := range b.work {
		list = append(list, fixed{j, b.xw[i]})
	}
	for g, j := range b.key {
		list = append(list, fixed{j, b.xk[g]})
	}
	return list
}

// value returns the objective of the basic columns at the given costs.
func (b *basis) value(cost []float64) float64 {
	v := 0.0
	for i, j := range b.work {
		v += cost[j] * b.xw[i]
	}
	for g, j := range b.key {
		v += cost[j] * b.xk[g]
	}
	return v
}

// prices computes the prices of rows and groups at which basic columns have reduced profit 0.
func (b *basis) prices(cost []float64) {
	k := b.cols.rows
	clear(b.price)
	for i, j := range b.work {
		c := cost[j]
		if g := b.cols.group[j]; g >= 0 {
			c -= cost[b.key[g]]
		}
		if c != 0 {
			for r, v := range b.inverse[i*k : (i+1)*k] {
				b.price[r] += c * v
			}
		}
	}
	for g, j := range b.key {
		b.groupPrice[g] = cost[j] - dot(b.price, b.cols.column(j))
	}
}

// reducedProfit returns the reduced profit of a column.
func (b *basis) reducedProfit(j int32, cost []float64) float64 {
	d := cost[j] - dot(b.price, b.cols.column(j))
	if g := b.cols.group[j]; g >= 0 {
		d -= b.groupPrice[g]
	}
	return d
}

// rate computes the decrease of the working columns per unit of increase of a column.
func (b *basis) rate(j int32, into []float64) {
	k := b.cols.rows
	a := b.scratch[:k]
	copy(a, b.cols.column(j))
	if g := b.cols.group[j]; g >= 0 {
		for r, v := range b.cols.column(b.key[g]) {
			a[r] -= v
		}
	}
	for i := range into {
		into[i] = dot(b.inverse[i*k:(i+1)*k], a)
	}
}

// keyRate returns the decrease of the key of a group, given the rates of the working columns. group is that of the
// entering column.
func (b *basis) keyRate(g, group int32, rates []float64) float64 {
	v := 0.0
	if g == group {
		v = 1
	}
	for i, j := range b.work {
		if b.cols.group[j] == g {
			v -= rates[i]
		}
	}
	return v
}

// replaceKey replaces the key of a group by an entering column.
func (b *basis) replaceKey(g, enters int32) {
	if b.cols.group[enters] == g {
		b.key[g] = enters
		return
	}
	i := slices.IndexFunc(b.work, func(j int32) bool { return b.cols.group[j] == g })
	b.key[g], b.work[i] = b.work[i], enters
}
