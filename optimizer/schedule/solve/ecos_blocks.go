package solve

import "slices"

// ecosBlocks solves the Newton system of programs with three device types and no pairs, group by group, as
// threeTypeInterior does.
type ecosBlocks struct {
	*ecosSolver
	cells  []cell
	schur  [16]float64
	pivots [4]int
	v      []float64
	over   []float64 // 1 / v
}

// begin copies the numbers of the program into the cells.
func (b *ecosBlocks) begin(over []float64) {
	b.over = over
	b.cells = slices.Grow(b.cells[:0], len(b.groups))[:len(b.groups)]
	for g := range b.cells {
		c := &b.cells[g]
		c.count, c.level = b.groups[g], 0
		if b.rising {
			c.level = 1
		}
		for k := range 3 {
			column := &b.columns[3*g+k]
			c.rate[k], c.use[k], c.taken[k] = column.rateA, column.use, column.use*c.count
		}
	}
}

// times is ecosSolver.times for this shape.
func (b *ecosBlocks) times(x []float64, t float64, out []float64) {
	used := out[b.kindLine(0):][:3]
	rows := out[3*len(b.cells):]
	u0, u1, u2 := used[0], used[1], used[2]
	for g := range b.cells {
		c := &b.cells[g]
		x, own, row := (*[3]float64)(x[3*g:]), (*[3]float64)(out[3*g:]), (*[2]float64)(rows[2*g:])
		x0, x1, x2 := x[0], x[1], x[2]
		own[0] -= x0
		own[1] -= x1
		own[2] -= x2
		row[0] = row[0] + x0 + x1 + x2
		row[1] = row[1] - c.rate[0]*x0 - c.rate[1]*x1 - c.rate[2]*x2 + c.level*t
		u0 += c.taken[0] * x0
		u1 += c.taken[1] * x1
		u2 += c.taken[2] * x2
	}
	used[0], used[1], used[2] = u0, u1, u2
}

// columnsOff is ecosSolver.columnsOff for this shape.
func (b *ecosBlocks) columnsOff(from, z, out []float64) {
	prices := z[b.kindLine(0):][:3]
	rows := z[3*len(b.cells):]
	p0, p1, p2 := prices[0], prices[1], prices[2]
	for g := range b.cells {
		c := &b.cells[g]
		from, out, row := (*[3]float64)(from[3*g:]), (*[3]float64)(out[3*g:]), (*[2]float64)(rows[2*g:])
		u, v := row[0], row[1]
		out[0] = from[0] - (u - c.rate[0]*v + c.use[0]*p0)
		out[1] = from[1] - (u - c.rate[1]*v + c.use[1]*p1)
		out[2] = from[2] - (u - c.rate[2]*v + c.use[2]*p2)
	}
}

// factorise inverts the block of each group and decomposes the Schur complement of the capacities and t.
func (b *ecosBlocks) factorise(v []float64) bool {
	b.v = v
	for i, v := range v {
		b.over[i] = 1 / v
	}
	b.schur = [16]float64{}
	for g := range b.cells {
		c := &b.cells[g]
		c.invert(v[3*g], v[3*g+1], v[3*g+2], v[b.timeLine(g)], v[b.progressLine(g)])
		c.couple(&b.schur)
	}
	for j := range 3 {
		b.schur[5*j] += v[b.kindLine(j)]
	}
	if !b.rising {
		b.schur[15] = 1
	}
	return decompose(b.schur[:], b.pivots[:])
}

// solve eliminates the groups (ask), solves for the capacities and t, and substitutes back (answer).
func (b *ecosBlocks) solve(right []float64, rightT float64, d []float64, out *step) {
	kinds := b.kindLine(0)
	limits := (*[3]float64)(d[kinds:])
	rows := b.ask(right, d, [4]float64{-limits[0], -limits[1], -limits[2], -rightT})
	substitute(b.schur[:], b.pivots[:], rows[:])
	out.t = rows[3]
	used := b.answer(right, d, &rows, out)
	for j, left := range used {
		i := kinds + j
		out.z[i] = price(b.v[i], b.over[i], rows[j], left-limits[j])
	}
}

// ask is cell.ask for all groups; it returns rows with their contributions to the rows of the capacities and t.
func (b *ecosBlocks) ask(right, d []float64, rows [4]float64) [4]float64 {
	over, progress := b.over, d[3*len(b.cells):]
	r0, r1, r2, rt := rows[0], rows[1], rows[2], rows[3]
	for g := range b.cells {
		c := &b.cells[g]
		want, own, inv := (*[3]float64)(right[3*g:]), (*[3]float64)(d[3*g:]), (*[3]float64)(over[3*g:])
		row := (*[2]float64)(progress[2*g:])
		w0, w1, w2 := want[0]-own[0]*inv[0], want[1]-own[1]*inv[1], want[2]-own[2]*inv[2]
		u, v := -row[0], -row[1]
		p := &c.inverse
		x0 := v*c.g[0] - c.away[0]*u + p[0]*w0 + p[1]*w1 + p[3]*w2
		x1 := v*c.g[1] - c.away[1]*u + p[1]*w0 + p[2]*w1 + p[4]*w2
		x2 := v*c.g[2] - c.away[2]*u + p[3]*w0 + p[4]*w1 + p[5]*w2
		z := (c.h*u + v - c.lean[0]*w0 - c.lean[1]*w1 - c.lean[2]*w2) * c.q2
		c.dx[0], c.dx[1], c.dx[2], c.dz[4] = x0, x1, x2, z
		c.dz[3] = (c.theta[0]*w0+c.theta[1]*w1+c.theta[2]*w2+u)*c.d1 + c.h*z
		r0 += c.taken[0] * x0
		r1 += c.taken[1] * x1
		r2 += c.taken[2] * x2
		rt += c.count * c.level * z
	}
	return [4]float64{r0, r1, r2, rt}
}

// answer is cell.answer for all groups. It writes the resulting step to out and returns the groups' use of the
// capacities.
func (b *ecosBlocks) answer(right, d []float64, rows *[4]float64, out *step) [3]float64 {
	s0, s1, s2, st := rows[0], rows[1], rows[2], rows[3]
	first := 3 * len(b.cells)
	l0, l1, l2 := 0.0, 0.0, 0.0
	for g := range b.cells {
		c := &b.cells[g]
		i, at := 3*g, first+2*g
		q0, q1, q2 := c.use[0]*s0, c.use[1]*s1, c.use[2]*s2
		rise := c.level * st
		p := &c.inverse
		x0 := c.dx[0] + rise*c.g[0] - p[0]*q0 - p[1]*q1 - p[3]*q2
		x1 := c.dx[1] + rise*c.g[1] - p[1]*q0 - p[2]*q1 - p[4]*q2
		x2 := c.dx[2] + rise*c.g[2] - p[3]*q0 - p[4]*q1 - p[5]*q2
		l0 += c.taken[0] * x0
		l1 += c.taken[1] * x1
		l2 += c.taken[2] * x2
		more := (rise + c.lean[0]*q0 + c.lean[1]*q1 + c.lean[2]*q2) * c.q2
		du := c.dz[3] - (c.theta[0]*q0+c.theta[1]*q1+c.theta[2]*q2)*c.d1 + c.h*more
		dv := c.dz[4] + more
		row, rv, ro := (*[2]float64)(d[at:]), (*[2]float64)(b.v[at:]), (*[2]float64)(b.over[at:])
		du = price(rv[0], ro[0], du, x0+x1+x2-row[0])
		dv = price(rv[1], ro[1], dv, rise-c.rate[0]*x0-c.rate[1]*x1-c.rate[2]*x2-row[1])
		prices := (*[2]float64)(out.z[at:])
		prices[0], prices[1] = du, dv
		want, own, v, over := (*[3]float64)(right[i:]), (*[3]float64)(d[i:]), (*[3]float64)(b.v[i:]), (*[3]float64)(b.over[i:])
		x, z := (*[3]float64)(out.x[i:]), (*[3]float64)(out.z[i:])
		x[0], x[1], x[2] = x0, x1, x2
		z[0] = price(v[0], over[0], du-c.rate[0]*dv+q0-want[0], -x0-own[0])
		z[1] = price(v[1], over[1], du-c.rate[1]*dv+q1-want[1], -x1-own[1])
		z[2] = price(v[2], over[2], du-c.rate[2]*dv+q2-want[2], -x2-own[2])
	}
	return [3]float64{l0, l1, l2}
}

// price returns the price of a line: computed from its row where s is large relative to z, which keeps s accurate,
// and otherwise the eliminated value.
func price(v, over, eliminated, row float64) float64 {
	if v > 1 {
		return row * over
	}
	return eliminated
}
