package solve

import "math"

// threeTypeInterior is a specialization of interior for the most frequent programs: three device types, columns for jobs alone
// only, a progress row in every group, and no floors or gains. The numbers of a group are adjacent in memory, and the
// formulas of newton.go are unrolled. Steps are longer and more strongly centred than those of interior, which suits
// programs with many distinct jobs: 12 steps instead of 16 for 2048. The embedded interior holds the iterate before
// the first step and after store.
type threeTypeInterior struct {
	*interior
	cells []cell

	schur    [16]float64
	pivots   [4]int
	right    [4]float64 // right-hand side of the rows of the capacities and t
	step     [4]float64 // steps of their prices and of t
	residual [3]float64 // of the capacities
	least    float64    // residual of the row of t
}

// cell is a group: three columns, followed by the slacks of time and of progress.
type cell struct {
	x, z, dx, dz [5]float64
	invX, invZ   [5]float64
	kappa        [5]float64 // required changes of the products x·z
	rate, use    [3]float64
	taken        [3]float64 // count · use
	count        float64
	base, level  float64

	unmet   [3]float64 // residuals of the columns (dual)
	late    float64    // residual of the time row
	short   float64    // residual of the progress row
	theta   [3]float64 // x / z
	lean    [3]float64 // θ·(rate − h)
	inverse [6]float64 // entries 00, 01, 11, 02, 12, 22 of the symmetric inverse
	g, away [3]float64 // responses to progress and to time
	h       float64
	d1, q2  float64 // reciprocals of the sum of θ and of the resistance of the progress row
}

// threeTypeLongest is the fraction of the step to the boundary that is taken, except in careful mode.
const threeTypeLongest = 0.999

// newThreeTypeInterior returns nil if the program has another shape.
func newThreeTypeInterior(s *interior) *threeTypeInterior {
	p := s.program
	if len(p.capacity) != 3 || p.links > 0 || !p.rising || p.logs || p.centred || len(p.rate) != 3*p.groups() {
		return nil
	}
	for g := range p.count {
		for k := range 3 {
			i := 3*g + k
			if p.start[g] != 3*g || p.kind[i] != int32(k) || p.gain[i] != 0 {
				return nil
			}
		}
		if !p.levelled[g] || p.floored[g] {
			return nil
		}
	}
	t := &threeTypeInterior{interior: s, cells: make([]cell, p.groups())}
	for g := range t.cells {
		c := &t.cells[g]
		c.count, c.base, c.level = p.count[g], p.base[g], p.level[g]
		copy(c.rate[:], p.rate[3*g:])
		copy(c.use[:], p.use[3*g:])
		for i, at := range t.places(g) {
			c.x[i], c.z[i] = s.x[at], s.z[at]
		}
		for k, use := range c.use {
			c.taken[k] = c.count * use
		}
	}
	return t
}

// places returns the indices of a group's numbers in the vectors of interior.
func (t *threeTypeInterior) places(g int) [5]int {
	return [5]int{3 * g, 3*g + 1, 3*g + 2, t.u0 + g, t.v0 + g}
}

// store copies the iterate back into interior.
func (t *threeTypeInterior) store() {
	for g := range t.cells {
		c := &t.cells[g]
		for i, at := range t.places(g) {
			t.x[at], t.z[at] = c.x[i], c.z[i]
		}
	}
}

// prepare measures the residuals and factorizes the Schur complement of the capacities and t. sound is false when the
// factorization fails.
func (t *threeTypeInterior) prepare() (now progress, sound bool) {
	t.schur = [16]float64{}
	var used [3]float64
	prices := t.z[t.c0 : t.c0+3]
	level := 0.0
	for g := range t.cells {
		c := &t.cells[g]
		c.measure(prices, t.t, &now)
		level += c.count * c.level * c.z[4]
		for k := range 3 {
			used[k] += c.taken[k] * c.x[k]
		}
		c.reciprocals()
		c.invert(c.x[0]*c.invZ[0], c.x[1]*c.invZ[1], c.x[2]*c.invZ[2], c.x[3]*c.invZ[3], c.x[4]*c.invZ[4])
		c.couple(&t.schur)
	}
	for j, limit := range t.capacity {
		x, z := t.x[t.c0+j], t.z[t.c0+j]
		now.gap += x * z
		t.residual[j] = limit - x - used[j]
		now.primal = max(now.primal, math.Abs(t.residual[j])/limit)
		t.schur[5*j] += x / z
		t.schur[5*j] *= 1 + steady
	}
	t.least = level - 1
	now.dual = max(now.dual, math.Abs(t.least))
	now.mu = now.gap / t.ordinary
	return now, decompose(t.schur[:], t.pivots[:])
}

// measure computes the residuals of a group and accumulates their norms and the gap in now.
func (c *cell) measure(prices []float64, t float64, now *progress) {
	time, rate, sum := 0.0, 0.0, 0.0
	for k := range 3 {
		x := c.x[k]
		time += x
		rate += c.rate[k] * x
		sum += x * c.z[k]
		d := c.z[3] + c.use[k]*prices[k] - c.rate[k]*c.z[4] - c.z[k]
		c.unmet[k] = d
		if d = math.Abs(d); d > now.dual {
			now.dual = d
		}
	}
	c.late = 1 - time - c.x[3]
	c.short = rate - c.base - c.level*t - c.x[4]
	if d := math.Abs(c.late); d > now.primal {
		now.primal = d
	}
	if d := math.Abs(c.short); d > now.primal {
		now.primal = d
	}
	now.gap += c.count * (sum + c.x[3]*c.z[3] + c.x[4]*c.z[4])
}

func (c *cell) reciprocals() {
	for i := range 5 {
		both := 1 / (c.x[i] * c.z[i])
		c.invX[i], c.invZ[i] = both*c.z[i], both*c.x[i]
	}
}

// invert is interior.block for three columns. Its arguments are x/z of the columns, of the slack of time and of the
// slack of progress.
func (c *cell) invert(th0, th1, th2, du, e float64) {
	r0, r1, r2 := c.rate[0], c.rate[1], c.rate[2]
	d01, d02, d12 := r0-r1, r0-r2, r1-r2
	a01, a02, a12 := th0*th1*d01*d01, th0*th2*d02*d02, th1*th2*d12*d12
	b0, b1, b2 := th0*du*r0*r0, th1*du*r1*r1, th2*du*r2*r2
	s0 := du + th0 + th1 + th2
	over := 1 / ((a01 + a02 + a12 + b0 + b1 + b2 + e*s0) * s0)
	D := over * s0 // one over the determinant
	c.d1 = over * (a01 + a02 + a12 + b0 + b1 + b2 + e*s0)
	c.q2 = D * s0
	c.h = (th0*r0 + th1*r1 + th2*r2) * c.d1
	c.inverse = [6]float64{
		th0 * (a12 + b1 + b2 + e*(du+th1+th2)) * D,
		-th0 * th1 * (e + du*r0*r1 + th2*d02*d12) * D,
		th1 * (a02 + b0 + b2 + e*(du+th0+th2)) * D,
		-th0 * th2 * (e + du*r0*r2 - th1*d01*d12) * D,
		-th1 * th2 * (e + du*r1*r2 + th0*d01*d02) * D,
		th2 * (a01 + b0 + b1 + e*(du+th0+th1)) * D,
	}
	c.theta = [3]float64{th0, th1, th2}
	c.g = [3]float64{
		th0 * (du*r0 + th1*d01 + th2*d02) * D,
		th1 * (du*r1 - th0*d01 + th2*d12) * D,
		th2 * (du*r2 - th0*d02 - th1*d12) * D,
	}
	for k := range 3 {
		c.lean[k] = c.theta[k] * (c.rate[k] - c.h)
		c.away[k] = c.theta[k]*c.d1 - c.h*c.g[k]
	}
}

// couple adds the contribution of the group to the Schur complement of the capacities and t.
func (c *cell) couple(schur *[16]float64) {
	m, p := c.count, &c.inverse
	u0, u1, u2 := c.use[0], c.use[1], c.use[2]
	schur[0] += m * u0 * u0 * p[0]
	schur[4] += m * u1 * u0 * p[1]
	schur[5] += m * u1 * u1 * p[2]
	schur[8] += m * u2 * u0 * p[3]
	schur[9] += m * u2 * u1 * p[4]
	schur[10] += m * u2 * u2 * p[5]
	at := m * c.level
	schur[12] -= at * u0 * c.g[0]
	schur[13] -= at * u1 * c.g[1]
	schur[14] -= at * u2 * c.g[2]
	schur[15] -= at * c.level * c.q2
}

// plan computes the step of a group at fixed prices and t that takes its products to goal, minus the second-order
// term of the previous step.
func (c *cell) plan(goal, second float64) {
	for i := range c.kappa {
		c.kappa[i] = goal - c.x[i]*c.z[i] - second*c.dx[i]*c.dz[i]
	}
	c.ask([3]float64{
		c.kappa[0]*c.invX[0] - c.unmet[0], c.kappa[1]*c.invX[1] - c.unmet[1], c.kappa[2]*c.invX[2] - c.unmet[2],
	}, c.kappa[3]*c.invZ[3]-c.late, c.kappa[4]*c.invZ[4]-c.short)
}

// ask solves the block of the group for right-hand sides of its columns, of time and of progress.
func (c *cell) ask(wish [3]float64, u, v float64) {
	w0, w1, w2 := wish[0], wish[1], wish[2]
	p := &c.inverse
	c.dx[0] = v*c.g[0] - c.away[0]*u + p[0]*w0 + p[1]*w1 + p[3]*w2
	c.dx[1] = v*c.g[1] - c.away[1]*u + p[1]*w0 + p[2]*w1 + p[4]*w2
	c.dx[2] = v*c.g[2] - c.away[2]*u + p[3]*w0 + p[4]*w1 + p[5]*w2
	c.dz[4] = (c.h*u + v - c.lean[0]*w0 - c.lean[1]*w1 - c.lean[2]*w2) * c.q2
	c.dz[3] = (c.theta[0]*w0+c.theta[1]*w1+c.theta[2]*w2+u)*c.d1 + c.h*c.dz[4]
}

// answer adds the effect of the steps of the prices and of t to the planned step. It returns the steps of the columns
// and of the prices of time and progress.
func (c *cell) answer(step *[4]float64) (dx [3]float64, du, dv float64) {
	q0, q1, q2 := c.use[0]*step[0], c.use[1]*step[1], c.use[2]*step[2]
	rise := c.level * step[3]
	p := &c.inverse
	dx[0] = c.dx[0] + rise*c.g[0] - p[0]*q0 - p[1]*q1 - p[3]*q2
	dx[1] = c.dx[1] + rise*c.g[1] - p[1]*q0 - p[2]*q1 - p[4]*q2
	dx[2] = c.dx[2] + rise*c.g[2] - p[3]*q0 - p[4]*q1 - p[5]*q2
	more := (rise + c.lean[0]*q0 + c.lean[1]*q1 + c.lean[2]*q2) * c.q2
	du = c.dz[3] - (c.theta[0]*q0+c.theta[1]*q1+c.theta[2]*q2)*c.d1 + c.h*more
	return dx, du, c.dz[4] + more
}

// follow completes a planned step given the steps of the prices and of t.
func (c *cell) follow(step *[4]float64) {
	d, du, dv := c.answer(step)
	c.slack(3, du, c.late-d[0]-d[1]-d[2])
	c.slack(4, dv, c.short+c.rate[0]*d[0]+c.rate[1]*d[1]+c.rate[2]*d[2]-c.level*step[3])
	u, v := c.dz[3], c.dz[4]
	c.dx[0], c.dz[0] = d[0], c.use[0]*step[0]+u-c.rate[0]*v+c.unmet[0]
	c.dx[1], c.dz[1] = d[1], c.use[1]*step[1]+u-c.rate[1]*v+c.unmet[1]
	c.dx[2], c.dz[2] = d[2], c.use[2]*step[2]+u-c.rate[2]*v+c.unmet[2]
}

// stepped accumulates the largest feasible step lengths and the products x·z along a step.
type stepped struct {
	primal, dual           float64 // largest −Δ/value
	x0z0, x0dz, dxz0, dxdz float64
}

// see includes a pair (x, z) and its step.
func (r *stepped) see(weight, x, z, dx, dz, invX, invZ float64) {
	if v := -dx * invX; v > r.primal {
		r.primal = v
	}
	if v := -dz * invZ; v > r.dual {
		r.dual = v
	}
	r.x0z0 += weight * x * z
	r.x0dz += weight * x * dz
	r.dxz0 += weight * dx * z
	r.dxdz += weight * dx * dz
}

// seeCell is see for all pairs of a group.
func (r *stepped) seeCell(c *cell) {
	primal, dual := r.primal, r.dual
	xz, xd, dz, dd := 0.0, 0.0, 0.0, 0.0
	for i := range 5 {
		x, z, dx, dz0 := c.x[i], c.z[i], c.dx[i], c.dz[i]
		if v := -dx * c.invX[i]; v > primal {
			primal = v
		}
		if v := -dz0 * c.invZ[i]; v > dual {
			dual = v
		}
		xz += x * z
		xd += x * dz0
		dz += dx * z
		dd += dx * dz0
	}
	r.primal, r.dual = primal, dual
	r.x0z0 += c.count * xz
	r.x0dz += c.count * xd
	r.dxz0 += c.count * dz
	r.dxdz += c.count * dd
}

// after returns the sum of the products after the given fractions of the step.
func (r *stepped) after(primal, dual float64) float64 {
	return r.x0z0 + primal*r.dxz0 + dual*r.x0dz + primal*dual*r.dxdz
}

// reach returns the largest feasible steps of x and z.
func (r *stepped) reach() (primal, dual float64) {
	return 1 / max(r.primal, 1e-10), 1 / max(r.dual, 1e-10)
}

// direction solves for the step that takes the products to goal and returns its step lengths. sound is false when the
// step is not finite.
func (t *threeTypeInterior) direction(goal, second float64) (r stepped, sound bool) {
	for j := range 3 {
		i := t.c0 + j
		t.kappa[i] = goal - t.x[i]*t.z[i] - second*t.dx[i]*t.dz[i]
		t.right[j] = t.kappa[i]/t.z[i] - t.residual[j]
	}
	// Forward elimination of the groups.
	r0, r1, r2, rt := 0.0, 0.0, 0.0, 0.0
	for g := range t.cells {
		c := &t.cells[g]
		c.plan(goal, second)
		r0 += c.taken[0] * c.dx[0]
		r1 += c.taken[1] * c.dx[1]
		r2 += c.taken[2] * c.dx[2]
		rt += c.count * c.level * c.dz[4]
	}
	t.right[0] += r0
	t.right[1] += r1
	t.right[2] += r2
	t.right[3] = t.least + rt
	// Capacities and t.
	substitute(t.schur[:], t.pivots[:], t.right[:])
	t.step = t.right
	// Back substitution, with the step lengths along the way.
	l0, l1, l2 := t.residual[0], t.residual[1], t.residual[2]
	for g := range t.cells {
		c := &t.cells[g]
		c.follow(&t.step)
		l0 -= c.taken[0] * c.dx[0]
		l1 -= c.taken[1] * c.dx[1]
		l2 -= c.taken[2] * c.dx[2]
		r.seeCell(c)
	}
	for j, left := range [3]float64{l0, l1, l2} {
		i := t.c0 + j
		t.slackStep(i, t.step[j], left)
		r.see(1, t.x[i], t.z[i], t.dx[i], t.dz[i], 1/t.x[i], 1/t.z[i])
	}
	dt := t.step[3]
	return r, !math.IsNaN(dt) && !math.IsInf(dt, 0)
}

// slack is interior.slackStep for a cell.
func (c *cell) slack(i int, price, row float64) {
	if c.x[i] > c.z[i] {
		c.dx[i] = row
		c.dz[i] = (c.kappa[i] - c.z[i]*row) * c.invX[i]
		return
	}
	c.dz[i] = price
	c.dx[i] = (c.kappa[i] - c.x[i]*price) * c.invZ[i]
}

// iterate performs one predictor-corrector step on the system factorized by prepare.
func (t *threeTypeInterior) iterate(mu float64) bool {
	r, sound := t.direction(0, 0)
	if !sound {
		return false
	}
	ap, ad := r.reach()
	sigma := r.after(ap, ad) / t.ordinary / mu
	sigma = max(sigma*math.Sqrt(sigma), t.leastCentring)
	if r, sound = t.direction(sigma*mu, ap*ad); !sound {
		return false
	}
	ap, ad = r.reach()
	longest := t.longest
	if longest == usualLongest {
		longest = threeTypeLongest
	}
	t.advance(min(1, longest*ap), min(1, longest*ad))
	return ap > 1e-10 || ad > 1e-10
}

func (t *threeTypeInterior) advance(primal, dual float64) {
	for g := range t.cells {
		c := &t.cells[g]
		for i := range 5 {
			c.x[i] += primal * c.dx[i]
			c.z[i] += dual * c.dz[i]
		}
	}
	for i := t.c0; i < t.c0+3; i++ {
		t.x[i] += primal * t.dx[i]
		t.z[i] += dual * t.dz[i]
	}
	t.t += primal * t.step[3]
}

// centre is interior.centre for three types.
func (t *threeTypeInterior) centre(mu float64, steps int) {
	for range steps {
		if t.distance(mu) < centredEnough {
			break
		}
		if _, sound := t.prepare(); !sound {
			break
		}
		r, sound := t.direction(mu, 0)
		if !sound {
			break
		}
		ap, ad := r.reach()
		a := min(1, 0.9*min(ap, ad))
		t.advance(a, a)
	}
	t.store()
}

// distance returns the largest distance of a product from mu, relative to mu.
func (t *threeTypeInterior) distance(mu float64) float64 {
	worst := 0.0
	for g := range t.cells {
		c := &t.cells[g]
		for i := range 5 {
			worst = max(worst, math.Abs(mu-c.x[i]*c.z[i]))
		}
	}
	for i := t.c0; i < t.c0+3; i++ {
		worst = max(worst, math.Abs(mu-t.x[i]*t.z[i]))
	}
	return worst / mu
}
