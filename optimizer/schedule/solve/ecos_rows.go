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

// factorise assembles the lower triangle of the Schur complement and decomposes it.
func (r *ecosRows) factorise(v []float64) bool {
	r.v = v
	R, first := r.rows+1, int32(len(r.columns))
	clear(r.matrix)
	row := func(line int32) []float64 { return r.matrix[int(line-first)*R:][:R] }
	for k := range r.columns {
		c := &r.columns[k]
		a, j := c.timeA-first, c.limit-first
		w := c.count * v[k]
		progress, use := w*-c.rateA, w*c.use
		timeA, progressA, limit := row(c.timeA), row(c.timeA+1), row(c.limit)
		timeA[a] += w
		progressA[a] += progress
		progressA[a+1] += progress * -c.rateA
		limit[a] += use
		limit[a+1] += use * -c.rateA
		limit[j] += use * c.use
		if c.timeB < 0 {
			continue
		}
		b, beside := c.timeB-first, w*-c.rateB
		timeB, progressB := row(c.timeB), row(c.timeB+1)
		timeB[b] += w
		progressB[b] += beside
		progressB[b+1] += beside * -c.rateB
		limit[b] += use
		limit[b+1] += use * -c.rateB
		if a == b { // both triangles
			w, beside = 2*w, 2*beside
		}
		timeB[a] += w
		timeB[a+1] += w * -c.rateA
		progressB[a] += beside
		progressB[a+1] += beside * -c.rateA
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
	first, right, columns := len(r.columns), r.right, r.columns
	for i := range r.rows {
		right[i] = -r.count[first+i] * d[first+i]
	}
	right[r.rows] = -bT
	v, own, want, x, z := r.v[:first], d[:first], b[:first], out.x[:first], out.z
	for k := range columns {
		c := &columns[k]
		w := c.count * (v[k]*want[k] - own[k])
		a := right[int(c.timeA)-first:][:2]
		a[0] += w
		a[1] -= c.rateA * w
		right[int(c.limit)-first] += c.use * w
		if c.timeB >= 0 {
			b := right[int(c.timeB)-first:][:2]
			b[0] += w
			b[1] -= c.rateB * w
		}
	}
	substitute(r.matrix, r.pivots, right)
	copy(z[first:], right[:r.rows])
	out.t = right[r.rows]
	for k := range columns {
		price := columns[k].against(z) - want[k]
		x[k] = -v[k]*price - own[k]
		z[k] = price
	}
}
