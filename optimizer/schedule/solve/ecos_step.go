package solve

import "math"

// advance performs one predictor-corrector step. It returns false when no step is possible.
func (e *ecosSolver) advance() bool {
	e.divide()
	if !e.kkt.factorise(e.v) {
		return false
	}
	e.mu = (e.gap + e.kap*e.tau) / (e.degree + 1)
	mu := e.mu
	for k := range e.columns {
		e.moving.x[k] = 0
	}
	// The part of the step that is proportional to the step of τ.
	e.solve(e.moving.x, -e.aim(), e.h, &e.fixed)
	// Predictor.
	for i := range e.q {
		e.q[i] = e.s[i] - e.rz[i]
	}
	e.solve(e.rx, e.rxT, e.q, &e.moving)
	resists := e.kap/e.tau - e.aim()*e.fixed.t - e.limits(e.fixed.z)
	dtau := (e.rt - e.kap + e.aim()*e.moving.t + e.limits(e.moving.z)) / resists
	dkap := -e.kap - e.kap/e.tau*dtau
	reach := ecosLine{}
	n := len(e.q)
	s, z, v, q, rz, fixed := e.s[:n], e.z[:n], e.v[:n], e.q[:n], e.rz[:n], e.fixed.z[:n]
	overS, overZ := e.overS[:n], e.overZ[:n]
	for i, dz := range e.moving.z[:n] {
		dz += dtau * fixed[i]
		ds := -v[i]*dz - s[i]
		reach.see(ds*overS[i], dz*overZ[i])
		q[i] = ds * dz // second-order term
	}
	alpha := reach.length(e.tau, dtau, e.kap, dkap)
	sigma := min(1, max(ecosCentring, (1-alpha)*(1-alpha)*(1-alpha)))

	// Corrector, with the second-order terms of the predictor.
	keep := 1 - sigma
	for i, second := range q {
		q[i] = (s[i]*z[i] + second - sigma*mu) * overZ[i]
		rz[i] = q[i] - keep*rz[i]
	}
	for k := range e.rx {
		e.rx[k] *= keep
	}
	e.solve(e.rx, keep*e.rxT, e.rz, &e.moving)
	pull := e.kap*e.tau + dkap*dtau - sigma*mu
	dtau = (keep*e.rt - pull/e.tau + e.aim()*e.moving.t + e.limits(e.moving.z)) / resists
	return e.follow(dtau, -(pull+e.kap*dtau)/e.tau)
}

// divide computes 1 / s, 1 / z and s / z.
func (e *ecosSolver) divide() {
	n := len(e.s)
	z, overS, overZ, v := e.z[:n], e.overS[:n], e.overZ[:n], e.v[:n]
	for i, s := range e.s {
		both := 1 / (s * z[i])
		overS[i], overZ[i] = both*z[i], both*s
		v[i] = s * overZ[i]
	}
}

// follow moves along the direction as far as the step rules of ECOS allow. It returns false when the step is too
// short.
func (e *ecosSolver) follow(dtau, dkap float64) bool {
	reach := ecosLine{}
	n := len(e.q)
	moving, fixed, v, overS, overZ := e.moving.z[:n], e.fixed.z[:n], e.v[:n], e.overS[:n], e.overZ[:n]
	for i, q := range e.q {
		dz := moving[i] + dtau*fixed[i]
		ds := -q - v[i]*dz
		moving[i], e.q[i] = dz, ds
		reach.see(ds*overS[i], dz*overZ[i])
	}
	alpha := ecosLongest * reach.length(e.tau, dtau, e.kap, dkap)
	if math.IsNaN(alpha) || alpha <= ecosLongest*ecosShortest {
		return false
	}
	for k := range e.x {
		e.x[k] += alpha * (e.moving.x[k] + dtau*e.fixed.x[k])
	}
	e.t += alpha * (e.moving.t + dtau*e.fixed.t)
	s, z := e.s[:n], e.z[:n]
	for i, ds := range e.q {
		s[i] += alpha * ds
		z[i] += alpha * moving[i]
	}
	e.tau += alpha * dtau
	e.kap += alpha * dkap
	return true
}

// solve solves the Newton system. Once mu is small, it refines the solution iteratively: it solves for the residual
// and adds the correction, while the residual exceeds the accuracy and shrinks by a factor of 6.
func (e *ecosSolver) solve(b []float64, bT float64, d []float64, out *step) {
	e.kkt.solve(b, bT, d, out)
	if e.mu > ecosEasy {
		return
	}
	most := mostOf(d, mostOf(b, math.Abs(bT)))
	last := math.Inf(1)
	for range ecosRefinements {
		wrong := e.wrong(b, bT, d, out)
		if !(wrong > ecosAccuracy*(1+most)) || wrong > last/6 {
			return
		}
		last = wrong
		e.kkt.solve(e.error.x, e.error.t, e.error.z, &e.repair)
		for k, v := range e.repair.x {
			out.x[k] += v
		}
		for i, v := range e.repair.z {
			out.z[i] += v
		}
		out.t += e.repair.t
	}
}

// mostOf returns the largest absolute value of a list, at least most.
func mostOf(list []float64, most float64) float64 {
	for _, v := range list {
		if v = math.Abs(v); v > most {
			most = v
		}
	}
	return most
}

// wrong stores the residual of a solution in e.error and returns its largest absolute entry.
func (e *ecosSolver) wrong(b []float64, bT float64, d []float64, out *step) float64 {
	e.error.t = bT - e.level(out.z)
	most := math.Abs(e.error.t)
	e.columnsOff(out.z, out.z, e.error.x)
	for k, r := range e.error.x {
		r += b[k]
		e.error.x[k] = r
		if r = math.Abs(r); r > most {
			most = r
		}
	}
	left := e.error.z
	clear(left)
	e.times(out.x, out.t, left)
	d, v, z := d[:len(left)], e.v[:len(left)], out.z[:len(left)]
	for i, gx := range left {
		r := d[i] - gx + v[i]*z[i]
		left[i] = r
		if r = math.Abs(r); r > most {
			most = r
		}
	}
	return most
}

// ecosLine accumulates the largest relative decreases along a direction.
type ecosLine struct{ s, z float64 }

func (l *ecosLine) see(ds, dz float64) {
	if ds < l.s {
		l.s = ds
	}
	if dz < l.z {
		l.z = dz
	}
}

func (l *ecosLine) length(tau, dtau, kap, dkap float64) float64 {
	alpha := math.Inf(1)
	if worst := min(l.s, l.z); worst < 0 {
		alpha = -1 / worst
	}
	if r := -tau / dtau; r > 0 && r < alpha {
		alpha = r
	}
	if r := -kap / dkap; r > 0 && r < alpha {
		alpha = r
	}
	return min(max(alpha, ecosShortest), ecosReach)
}
