package solve

import "math"

// embeddedRounds is how often ECOS scales rows and columns (Ruiz, 2001).
const embeddedRounds = 3

// begin scales as ECOS does and places the iterate: the least squares of s and of z, moved into the positive by the same amount
// in every line. The scales decide where that is, and when the run ends; steps do not depend on them.
func (e *embedding) begin() bool {
	e.scale()
	for i, r := range e.rowScale {
		e.v[i] = r * r
	}
	if !e.kkt.factorise(e.v) {
		return false
	}
	none, zero := e.rx, e.rz // nothing is in them yet
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

// intoPositive adds one and the largest amount by which a number is below 0; 0.01 when none is.
func intoPositive(list []float64) {
	below := -embeddedLongest
	for _, v := range list {
		if v <= 0 && -v > below {
			below = -v
		}
	}
	for i := range list {
		list[i] += 1 + below
	}
}

// scale finds what rows and columns are divided by.
func (e *embedding) scale() {
	row, col := e.q, e.spare
	for i := range e.rowScale {
		e.rowScale[i] = 1
	}
	for k := range e.colScale {
		e.colScale[k] = 1
	}
	for range embeddedRounds {
		clear(row)
		clear(col)
		e.each(func(i, k int, v float64) {
			v = math.Abs(v) / (e.rowScale[i] * e.colScale[k])
			row[i] = max(row[i], v)
			col[k] = max(col[k], v)
		})
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

// each calls f for the numbers of G; t is the last column.
func (e *embedding) each(f func(line, column int, v float64)) {
	for k := range e.columns {
		c := &e.columns[k]
		f(k, k, -1)
		f(e.timeLine(c.a), k, 1)
		f(e.progressLine(c.a), k, -c.rateA)
		if c.b >= 0 {
			f(e.timeLine(c.b), k, 1)
			f(e.progressLine(c.b), k, -c.rateB)
		}
		f(e.kindLine(c.kind), k, c.use)
	}
	if e.rising {
		for g := range e.groups {
			f(e.progressLine(g), len(e.columns), 1)
		}
	}
}
