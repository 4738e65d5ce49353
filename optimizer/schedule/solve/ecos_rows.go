package solve

// ecosRows solves the Newton system by eliminating the columns. The Schur complement is a dense matrix of the
// rows of time, progress and capacity, and t. It costs O(columns + rows³).
type ecosRows struct {
	*ecosSolver
	rows   int // number of rows without t
	matrix []float64
	pivots []int
	right  []float64
	v      []float64
}

func newECOSRows(e *ecosSolver) *ecosRows {
	n := e.lines() - len(e.columns)
	return &ecosRows{ecosSolver: e, rows: n, matrix: make([]float64, (n+1)*(n+1)), pivots: make([]int, n+1), right: make([]float64, n+1)}
}

// entries returns the rows and coefficients of a column, apart from its own line.
func (r *ecosRows) entries(c *ecosColumn) (row [5]int, v [5]float64, n int) {
	first := len(r.columns)
	row = [5]int{r.timeLine(c.a) - first, r.progressLine(c.a) - first, r.kindLine(c.kind) - first}
	v = [5]float64{1, -c.rateA, c.use}
	if c.b < 0 {
		return row, v, 3
	}
	row[3], row[4] = r.timeLine(c.b)-first, r.progressLine(c.b)-first
	v[3], v[4] = 1, -c.rateB
	return row, v, 5
}

// factorise assembles the lower triangle of the Schur complement and decomposes it.
func (r *ecosRows) factorise(v []float64) bool {
	r.v = v
	R := r.rows + 1
	clear(r.matrix)
	for k := range r.columns {
		c := &r.columns[k]
		row, a, n := r.entries(c)
		for i := range n {
			w := c.count * v[k] * a[i]
			for l := range n {
				if row[l] <= row[i] {
					r.matrix[row[i]*R+row[l]] += w * a[l]
				}
			}
		}
	}
	for i := range r.rows {
		line := len(r.columns) + i
		r.matrix[i*R+i] += r.count[line] * v[line]
	}
	last := r.matrix[r.rows*R:]
	if r.rising {
		for g, m := range r.groups {
			last[2*g+1] = -m
		}
	} else {
		last[r.rows] = 1
	}
	return decompose(r.matrix, r.pivots)
}

// solve computes the duals of the rows and t from the Schur complement, then the columns and the duals of their own
// lines.
func (r *ecosRows) solve(b []float64, bT float64, d []float64, out *step) {
	first := len(r.columns)
	for i := range r.rows {
		r.right[i] = -r.count[first+i] * d[first+i]
	}
	r.right[r.rows] = -bT
	for k := range r.columns {
		c := &r.columns[k]
		w := c.count * (r.v[k]*b[k] - d[k])
		row, a, n := r.entries(c)
		for i := range n {
			r.right[row[i]] += a[i] * w
		}
	}
	substitute(r.matrix, r.pivots, r.right)
	copy(out.z[first:], r.right[:r.rows])
	out.t = r.right[r.rows]
	for k := range r.columns {
		z := r.against(&r.columns[k], out.z) - b[k]
		out.x[k] = -r.v[k]*z - d[k]
		out.z[k] = z
	}
}
