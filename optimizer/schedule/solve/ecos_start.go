package solve

import "math"

// ecosRounds is the number of equilibration passes over rows and columns in ECOS (Ruiz, 2001).
const ecosRounds = 3

// begin equilibrates as ECOS does and places the iterate at the least-squares solutions for s and z, shifted into the
// positive orthant by the same amount in every line. The scaling affects only that point and the termination test;
// the steps are independent of it. It returns false when the factorization fails.
func (e *ecosSolver) begin() bool {
	e.scale()
	for i, r := range e.rowScale {
		e.v[i] = r * r
	}
	if !e.kkt.factorise(e.v) {
		return false
	}
	none, zero := e.rx, e.rz // still zero
	e.solve(none, 0, e.h, &e.moving)
	copy(e.x, e.moving.x)
	e.t = e.moving.t
	for i, z := range e.moving.z {
		e.s[i] = -z * e.rowScale[i]
	}
	intoPositive(e.s)
	e.solve(none, -e.aim(), zero, &e.moving)
	for i, z := range e.moving.z {
		e.z[i] = z * e.rowScale[i]
	}
	intoPositive(e.z)
	for i, r := range e.rowScale {
		e.s[i] *= r
		e.z[i] /= r
	}
	e.tau, e.kap = 1, 1
	return true
}

// intoPositive shifts a list by one plus the largest amount by which an entry is at or below 0, or by 1 −
// ecosLongest when none is.
func intoPositive(list []float64) {
	below := -ecosLongest
	for _, v := range list {
		if v <= 0 && -v > below {
			below = -v
		}
	}
	for i := range list {
		list[i] += 1 + below
	}
}

// scale computes the divisors of rows and columns.
func (e *ecosSolver) scale() {
	row, col := e.q, e.spare
	for i := range e.rowScale {
		e.rowScale[i] = 1
	}
	for k := range e.colScale {
		e.colScale[k] = 1
	}
	for range ecosRounds {
		clear(row)
		col[len(e.columns)] = 0
		// Largest scaled entries of each row and column.
		for k := range e.columns {
			c := &e.columns[k]
			most := e.see(row, int32(k), 1, e.colScale[k])
			most = max(most, e.see(row, c.timeA, 1, e.colScale[k]), e.see(row, c.timeA+1, c.rateA, e.colScale[k]))
			if c.timeB >= 0 {
				most = max(most, e.see(row, c.timeB, 1, e.colScale[k]), e.see(row, c.timeB+1, c.rateB, e.colScale[k]))
			}
			col[k] = max(most, e.see(row, c.limit, c.use, e.colScale[k]))
		}
		if e.rising {
			last := len(e.columns)
			for g := range e.groups {
				col[last] = max(col[last], e.see(row, int32(e.progressLine(g)), 1, e.colScale[last]))
			}
		}
		for i, v := range row {
			e.rowScale[i] *= scaleOf(v)
		}
		for k, v := range col {
			e.colScale[k] *= scaleOf(v)
		}
	}
	e.hNorm = 0
	for i, r := range e.rowScale {
		e.overRow[i] = 1 / r
		e.hNorm += e.count[i] * sq(e.h[i]/r)
	}
	e.hNorm = math.Sqrt(e.hNorm)
	for k, c := range e.colScale {
		e.overCol[k] = 1 / c
	}
}

func scaleOf(most float64) float64 {
	if most < 1e-6 {
		return 1
	}
	return math.Sqrt(most)
}

// see scales the absolute value of an entry of G and updates the maximum of its row.
func (e *ecosSolver) see(row []float64, line int32, v, column float64) float64 {
	v /= e.rowScale[line] * column
	if v > row[line] {
		row[line] = v
	}
	return v
}
