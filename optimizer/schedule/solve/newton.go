package solve

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// measure computes the residuals of all rows and columns, and the norms of them.
func (s *interior) measure() progress {
	var now progress
	J := len(s.capacity)
	for j, c := range s.capacity {
		s.rowResidual[j] = c - s.x[s.c0+j]
	}
	for l := range s.links {
		s.rowResidual[J+l] = 0
	}
	level := 0.0
	for g, m := range s.count {
		time, rate := 0.0, 0.0
		both := s.z[s.v0+g] + s.z[s.w0+g]
		price := s.z[s.u0+g]
		for k := s.start[g]; k < s.start[g+1]; k++ {
			x := s.x[k]
			time += x
			rate += s.rate[k] * x
			j := s.kind[k]
			s.rowResidual[j] -= m * s.use[k] * x
			d := price + s.use[k]*s.z[s.c0+int(j)] - s.rate[k]*both - s.gain[k] - s.z[k]
			if l := s.link[k]; l >= 0 {
				s.rowResidual[J+int(l)] -= m * s.side[k] * x
				d += s.side[k] * s.linkPrice[l]
			}
			s.rd[k] = d
			now.dual = max(now.dual, math.Abs(d))
		}
		// Primal residuals of the rows of the group.
		r := rowResiduals{time: 1 - time - s.x[s.u0+g]}
		if s.levelled[g] {
			r.progress = rate - s.base[g] - s.level[g]*s.t - s.x[s.v0+g]
			level += m * s.level[g] * s.z[s.v0+g]
		}
		if s.floored[g] {
			r.floor = rate - s.floor[g] - s.x[s.w0+g]
		}
		s.residual[g] = r
		now.primal = max(now.primal, math.Abs(r.time), math.Abs(r.progress), math.Abs(r.floor))
	}
	for i, r := range s.rowResidual {
		if i < J {
			now.primal = max(now.primal, math.Abs(r)/s.capacity[i])
		} else {
			now.primal = max(now.primal, math.Abs(r))
		}
	}
	s.tResidual = 0
	if s.rising {
		s.tResidual = level - 1
		now.dual = max(now.dual, math.Abs(s.tResidual))
	}
	s.products(&now)
	return now
}

// products accumulates x·z into the gap, the mean mu and the spread of the logarithmic pairs.
func (s *interior) products(now *progress) {
	for i, w := range s.weight {
		switch {
		case w == 0:
		case s.target[i] == 0:
			now.gap += w * s.x[i] * s.z[i]
		default:
			now.spread = max(now.spread, math.Abs(s.x[i]*s.z[i]-s.target[i]))
		}
	}
	if s.ordinary > 0 {
		now.mu = now.gap / s.ordinary
	}
}

// factorise eliminates the rows of every group and factorizes the Schur complement of the capacities, the links and
// t. It returns false when a NaN occurs.
func (s *interior) factorise() bool {
	clear(s.schur)
	R := s.rows + 1 // the last row is that of t
	last := s.schur[s.rows*R:]
	for j := range s.capacity {
		s.schur[j*R+j] = s.x[s.c0+j] / s.z[s.c0+j]
	}
	for g, m := range s.count {
		s.block(g)
		s.couple(g, m, last)
	}
	for i := range s.rows {
		s.schur[i*R+i] *= 1 + steady
	}
	if !s.rising {
		last[s.rows] = 1
	}
	return decompose(s.schur, s.pivots)
}

// couple adds the contribution of a group to the Schur complement of the coupling rows and of t.
func (s *interior) couple(g int, m float64, last []float64) {
	f := &s.fact[g]
	rows := &s.touched[g]
	K := len(rows.kind)
	P := s.inverse[f.at : f.at+K*K]
	from := s.start[g]
	at := 0.0
	if s.rising {
		at = m * s.level[g] * f.part
	}
	for k := range K {
		row, use := int(rows.rows[rows.kind[k]]), s.use[from+k]
		last[row] -= at * use * s.g[from+k]
		other, side := -1, 0.0
		if b := rows.link[k]; b >= 0 {
			other, side = int(rows.rows[b]), s.side[from+k]
			last[other] -= at * side * s.g[from+k]
		}
		// Each column touches a capacity row and possibly a link row, so a pair of columns touches up to four
		// entries.
		for l := range k + 1 {
			v := m * P[k*K+l]
			twice := k != l
			row2, use2 := int(rows.rows[rows.kind[l]]), s.use[from+l]
			s.addSchur(row, row2, use*use2*v, twice)
			b := rows.link[l]
			if other < 0 && b < 0 {
				continue
			}
			if other >= 0 {
				s.addSchur(other, row2, side*use2*v, twice)
			}
			if b >= 0 {
				other2, side2 := int(rows.rows[b]), s.side[from+l]
				if twice {
					s.addSchur(row, other2, use*side2*v, true)
				}
				if other >= 0 {
					s.addSchur(other, other2, side*side2*v, twice)
				}
			}
		}
	}
	if s.rising && s.level[g] != 0 {
		keep := 1 - f.ratio
		last[s.rows] -= m * s.level[g] * s.level[g] * (f.inv2 + keep*keep*f.inv3)
	}
}

// steady is the relative perturbation of the diagonal of the coupling rows. It exceeds the rounding error of their
// sums, so that linearly dependent rows do not produce a step from rounding noise; later iterations correct the error
// introduced in the other rows.
const steady = 1e-14

// addSchur adds a product of two distinct columns (twice) or of a column with itself to the lower triangle.
func (s *interior) addSchur(a, b int, v float64, twice bool) {
	switch {
	case a < b:
		a, b = b, a
	case a == b && twice:
		v *= 2
	}
	s.schur[a*(s.rows+1)+b] += v
}

// block inverts the matrix of a group's Newton step, diag(z/x) + 1·1ᵀ·π/u + rate·rateᵀ·(λ/v + λ'/w). With θ = x/z,
// the slack of time as an additional column of rate 0, and e the slack of progress divided by its price, the inverse
// P is a quotient of sums of positive terms, so no cancellation occurs when θ and the slacks differ by many orders of
// magnitude:
//
//	D    = Σ_{m<n} θ_m θ_n (r_m − r_n)² + e·Σ_m θ_m
//	P_kk = θ_k (D without column k) / D
//	P_kl = −θ_k θ_l (e + Σ_m θ_m (r_k − r_m)(r_l − r_m)) / D
func (s *interior) block(g int) {
	from, to := s.start[g], s.start[g+1]
	f := &s.fact[g]
	th, rate := s.theta[from:to], s.rate[from:to]
	du := s.x[s.u0+g] / s.z[s.u0+g]
	s0, s1 := du, 0.0
	for k := range th {
		th[k] = s.x[from+k] / s.z[from+k]
		s0 += th[k]
		s1 += th[k] * rate[k]
	}
	f.d1, f.h = s0, s1/s0
	q := 0.0
	for k, a := range th {
		q += a * du * rate[k] * rate[k]
		for l, b := range th[:k] {
			d := rate[k] - rate[l]
			q += a * b * d * d
		}
	}
	q /= s0
	e, square := 1.0, 0.0 // the values without progress rows
	f.inv2, f.inv3, f.ratio, f.part = 0, 0, 1, 0
	if s.levelled[g] {
		e = s.x[s.v0+g] / s.z[s.v0+g]
		square = 1
		f.inv2 = 1 / (q + e)
		f.ratio = e * f.inv2
		f.part = 1
	}
	if s.floored[g] {
		dw := s.x[s.w0+g] / s.z[s.w0+g]
		f.inv3 = 1 / (q*f.ratio + dw)
		if s.levelled[g] {
			f.part = dw / (e + dw)
			e *= f.part
		} else {
			e = dw
		}
		square = 1
	}
	f.e = e
	s.invert(g, square, s0*(q*square+e))
}

// invert writes the inverse of a group's matrix and its product with the rates. square is 1 if the group has progress
// rows, else 0.
func (s *interior) invert(g int, square, D float64) {
	from, to := s.start[g], s.start[g+1]
	K := to - from
	f := &s.fact[g]
	th, rate := s.theta[from:to], s.rate[from:to]
	du, e := s.x[s.u0+g]/s.z[s.u0+g], f.e
	P := s.inverse[f.at : f.at+K*K]
	for k, a := range th {
		lean, others := 0.0, du // D without column k: the terms in θ² and those in e
		tilt := du * rate[k]
		for m, b := range th {
			if m == k {
				continue
			}
			others += b
			tilt += b * (rate[k] - rate[m])
			lean += b * du * rate[m] * rate[m]
			for n, c := range th[:m] {
				if n != k {
					d := rate[m] - rate[n]
					lean += b * c * d * d
				}
			}
		}
		P[k*K+k] = a * (lean*square + e*others) / D
		s.g[from+k] = square * a * tilt / D
		for l, b := range th[:k] {
			cross := du * rate[k] * rate[l]
			for m, c := range th {
				cross += c * (rate[k] - rate[m]) * (rate[l] - rate[m])
			}
			P[k*K+l] = -a * b * (e + square*cross) / D
			P[l*K+k] = P[k*K+l]
		}
	}
}

// direction solves the Newton system for the right-hand side given by kappa and the residuals. It eliminates the
// groups, solves for the coupling rows and t, and substitutes back. It returns false when the step of t is not
// finite.
func (s *interior) direction() bool {
	J := len(s.capacity)
	// Forward elimination of the groups.
	for j := range s.capacity {
		s.right[j] = -s.rowResidual[j] + s.kappa[s.c0+j]/s.z[s.c0+j]
	}
	for l := range s.links {
		s.right[J+l] = -s.rowResidual[J+l]
	}
	s.tRight = s.tResidual
	for g, m := range s.count {
		s.groupRight(g, m)
	}
	s.right[s.rows] = s.tRight
	// Coupling rows and t.
	substitute(s.schur, s.pivots, s.right)
	copy(s.dRows, s.right)
	s.dt = s.right[s.rows]
	for j := range s.capacity {
		s.right[j] = s.rowResidual[j]
	}
	// Back substitution.
	for g, m := range s.count {
		s.groupStep(g, m)
	}
	for j := range s.capacity {
		s.slackStep(s.c0+j, s.dRows[j], s.right[j])
	}
	return !math.IsNaN(s.dt) && !math.IsInf(s.dt, 0)
}

// slackStep sets the steps of a slack and of its price. The larger of the two follows from its row and the other from
// their product, so that the smaller one is accurate relative to its size.
func (s *interior) slackStep(i int, price, row float64) {
	if s.x[i] > s.z[i] {
		s.dx[i] = row
		s.dz[i] = (s.kappa[i] - s.z[i]*row) / s.x[i]
		return
	}
	s.dz[i] = price
	s.dx[i] = (s.kappa[i] - s.x[i]*price) / s.z[i]
}

// slackRight returns the right-hand sides of a group's rows after elimination of their slacks.
func (s *interior) slackRight(g int) (u, v, w float64) {
	r := &s.residual[g]
	i := s.u0 + g
	u = s.kappa[i]/s.z[i] - r.time
	if s.levelled[g] {
		i = s.v0 + g
		v = s.kappa[i]/s.z[i] - r.progress
	}
	if s.floored[g] {
		i = s.w0 + g
		w = s.kappa[i]/s.z[i] - r.floor
	}
	return u, v, w
}

// push returns the coefficient of s.g in the step of a group's columns that is due to the slacks of progress.
func (s *interior) push(g int, f *factor, v, w float64) float64 {
	if s.floored[g] {
		dw := s.x[s.w0+g] / s.z[s.w0+g]
		return v*f.part + w*f.e/dw
	}
	return v * f.part
}

// groupRight adds the contribution of an eliminated group to the right-hand side of the coupling rows.
func (s *interior) groupRight(g int, m float64) {
	from, to := s.start[g], s.start[g+1]
	K := to - from
	f := &s.fact[g]
	u, v, w := s.slackRight(g)
	sum := 0.0 // Σ (rate − h) θ · wish
	for k := from; k < to; k++ {
		wish := s.kappa[k]/s.x[k] - s.rd[k]
		s.wish[k] = wish
		sum += s.theta[k] * (s.rate[k] - f.h) * wish
	}
	push := s.push(g, f, v, w)
	J := len(s.capacity)
	P := s.inverse[f.at : f.at+K*K]
	for k := from; k < to; k++ {
		dx := push*s.g[k] - (s.theta[k]/f.d1-f.h*s.g[k])*u
		for l, c := range P[(k-from)*K : (k-from+1)*K] {
			dx += c * s.wish[from+l]
		}
		dx *= m
		s.right[s.kind[k]] += s.use[k] * dx
		if l := s.link[k]; l >= 0 {
			s.right[J+int(l)] += s.side[k] * dx
		}
	}
	if level := s.level[g]; level != 0 && s.rising {
		y2 := f.h*u + v - sum
		y3 := f.h*u + w - sum - (1-f.ratio)*y2
		s.tRight += m * level * (y2*f.inv2 - (1-f.ratio)*y3*f.inv3)
	}
}

// groupStep computes the step of a group from the steps of the coupling rows and of t, and subtracts its use of
// capacity from right.
func (s *interior) groupStep(g int, m float64) {
	from, to := s.start[g], s.start[g+1]
	K := to - from
	J := len(s.capacity)
	f := &s.fact[g]
	u, v, w := s.slackRight(g)
	v += s.level[g] * s.dt
	sum0, sum1 := 0.0, 0.0
	for k := from; k < to; k++ {
		q := s.use[k] * s.dRows[s.kind[k]]
		if l := s.link[k]; l >= 0 {
			q += s.side[k] * s.dRows[J+int(l)]
		}
		s.dz[k] = q
		s.wish[k] -= q
		e := s.theta[k] * s.wish[k]
		sum0 += e
		sum1 += (s.rate[k] - f.h) * e
	}
	// Duals of the rows: progress (dv), minimum progress (dw) and time (du).
	y2 := f.h*u + v - sum1
	y3 := f.h*u + w - sum1 - (1-f.ratio)*y2
	dw := y3 * f.inv3
	dv := y2*f.inv2 - (1-f.ratio)*dw
	du := (sum0+u)/f.d1 + f.h*(dv+dw)
	// Steps of the columns.
	push := s.push(g, f, v, w)
	time, rate := 0.0, 0.0
	P := s.inverse[f.at : f.at+K*K]
	for k := from; k < to; k++ {
		dx := push*s.g[k] - (s.theta[k]/f.d1-f.h*s.g[k])*u
		for l, c := range P[(k-from)*K : (k-from+1)*K] {
			dx += c * s.wish[from+l]
		}
		s.dx[k] = dx
		time += dx
		rate += s.rate[k] * dx
		s.right[s.kind[k]] -= m * s.use[k] * dx
	}
	// Slacks of the rows; each determines the more accurate of its step and its price.
	r := &s.residual[g]
	s.slackStep(s.u0+g, du, r.time-time)
	dp := 0.0
	if s.levelled[g] {
		s.slackStep(s.v0+g, dv, r.progress+rate-s.level[g]*s.dt)
		dp += s.dz[s.v0+g]
	}
	if s.floored[g] {
		s.slackStep(s.w0+g, dw, r.floor+rate)
		dp += s.dz[s.w0+g]
	}
	du = s.dz[s.u0+g]
	for k := from; k < to; k++ {
		s.dz[k] += du - s.rate[k]*dp + s.rd[k]
	}
}

// decompose computes in place an LU factorization with row exchanges of a symmetric matrix given by its lower
// triangle. The matrix is indefinite (t is free) and its capacity block may be nearly singular where t is decisive,
// which rules out Cholesky. A zero pivot is replaced by a huge one, which sets the step of its unknown to nearly 0.
// It returns false on NaN.
func decompose(a []float64, pivots []int) bool {
	n := len(pivots)
	for i := range n {
		for j := range i {
			a[j*n+i] = a[i*n+j]
		}
	}
	for k := range n {
		best, at := 0.0, k
		for i := k; i < n; i++ {
			v := math.Abs(a[i*n+k])
			if math.IsNaN(v) {
				return false
			}
			if v > best {
				best, at = v, i
			}
		}
		pivots[k] = at
		if at != k {
			for j := range n {
				a[k*n+j], a[at*n+j] = a[at*n+j], a[k*n+j]
			}
		}
		if best < 1e-60 {
			a[k*n+k] = 1e128
		}
		inv := 1 / a[k*n+k]
		top := a[k*n+k+1 : k*n+n]
		for i := k + 1; i < n; i++ {
			f := a[i*n+k] * inv
			a[i*n+k] = f
			if f == 0 {
				continue
			}
			row := a[i*n+k+1 : i*n+n]
			if len(top) >= 8 {
				floats.AddScaled(row, -f, top) // the same numbers, two at a time
				continue
			}
			for j, v := range top {
				row[j] -= f * v
			}
		}
	}
	return true
}

// substitute solves a linear system with the factors of decompose; b is overwritten by the solution.
func substitute(a []float64, pivots []int, b []float64) {
	n := len(pivots)
	for k, at := range pivots {
		b[k], b[at] = b[at], b[k]
	}
	for i := range n {
		v := b[i]
		for j, l := range a[i*n : i*n+i] {
			v -= l * b[j]
		}
		b[i] = v
	}
	for i := n - 1; i >= 0; i-- {
		v := b[i]
		for j := i + 1; j < n; j++ {
			v -= a[i*n+j] * b[j]
		}
		b[i] = v / a[i*n+i]
	}
}
