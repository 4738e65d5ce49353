package solve

import (
	"errors"
	"math"
)

// embedding solves a program as ECOS does (Domahidi, Chu and Boyd, ECC 2013; version 2.0): the homogeneous self-dual embedding, from
// its starting point, with its step rules and tolerances. Best solutions of the programs here are rarely unique, and
// interior-point methods that begin outside of the feasible set end at a point that depends on where they began. Whoever wants
// the very shares that Gavel gives must end where its solver does. In exact arithmetic the iterates are those of ECOS; the
// linear algebra is ours and uses the structure. The proven optimum of the other methods is not promised, a gap of 1e-8 is.
//
// A program is min c'x with Gx + s = h·τ, s ≥ 0, its dual G'z + c·τ = 0, z ≥ 0, and τ, κ ≥ 0. Lines of G are first −x ≤ 0 by
// column, then time and progress by group, then the capacities.
type embedding struct {
	columns []embeddedColumn
	groups  []float64 // jobs in a group
	kinds   int
	rising  bool // t counts; progress is then to be at least t

	h, count []float64 // by line: right-hand side, and how many lines it stands for
	rowScale []float64 // by line: what ECOS divides it by
	colScale []float64 // by column, and for t the last

	x, s, z  []float64
	t        float64
	tau, kap float64
	mu       float64   // the mean of s·z and τ·κ
	v        []float64 // s / z
	overS    []float64 // 1 / s
	overZ    []float64 // 1 / z
	kkt      kkt

	rx, rz        []float64
	rxT, rt       float64
	cx, hz        float64
	fixed, moving step
	error, repair step // of a solution, and what to add to it
	q             []float64
}

// embeddedColumn is time of a job, or of two beside each other, on a kind.
type embeddedColumn struct {
	count, use   float64
	kind         int
	a, b         int     // groups; b −1: alone
	rateA, rateB float64 // times weight
}

// step is a solution of the Newton system: columns, t, and prices by line.
type step struct {
	x, z []float64
	t    float64
}

// kkt solves G'z = b, G x − V z = d for the V of the last factorise.
type kkt interface {
	factorise(v []float64) bool
	solve(b []float64, bT float64, d []float64, out *step)
}

// What ECOS 2.0 has as defaults.
const (
	embeddedTolerance   = 1e-8
	embeddedSteps       = 100
	embeddedLongest     = 0.99
	embeddedReach       = 0.999
	embeddedShortest    = 1e-6
	embeddedCentring    = 1e-4
	embeddedJump        = 500  // a primal residual that grows by more ends the run
	embeddedEasy        = 1e-4 // the mean of s·z down to which a solution of the Newton system needs no refinement
	embeddedRefinements = 9
	embeddedAccuracy    = 1e-14
	embeddedRough       = 1e-4 // what then still counts as a solution
)

var errEmbedding = errors.New("the embedding ended without a solution")

func (e *embedding) progressLine(g int) int { return len(e.columns) + 2*g + 1 }
func (e *embedding) timeLine(g int) int     { return len(e.columns) + 2*g }
func (e *embedding) kindLine(j int) int     { return len(e.columns) + 2*len(e.groups) + j }
func (e *embedding) lines() int             { return e.kindLine(e.kinds) }

// newEmbedding is the program of a sharing in which progress is to be at least floor by job, or with a nil floor the least of
// weight times progress is to be as large as possible. Equal jobs are one group when there are no pairs.
// It also says which group a job is in, −1 for none, and which kinds have devices.
func newEmbedding(s *Sharing, weight, floor []float64) (e *embedding, groupOf, kinds []int) {
	l := newLayout(s, nil, nil, nil, weight, floor)
	e = &embedding{kinds: len(l.kinds), rising: floor == nil}
	if len(s.Pairs) > 0 {
		l.member, l.count = nil, nil
		for i := range l.groupOf {
			l.groupOf[i] = i
			l.member = append(l.member, i)
			l.count = append(l.count, 1)
		}
	}
	weightOf := func(i int) float64 {
		if weight == nil {
			return 1
		}
		return weight[i]
	}
	e.groups = l.count
	for g, i := range l.member {
		for c, j := range l.kinds {
			e.columns = append(e.columns, embeddedColumn{
				count: l.count[g], use: s.Scale[i], kind: c, a: g, b: -1, rateA: weightOf(i) * s.Rate[i][j],
			})
		}
	}
	for _, p := range s.Pairs {
		for c, j := range l.kinds {
			e.columns = append(e.columns, embeddedColumn{
				count: 1, use: s.Scale[p.A], kind: c, a: l.groupOf[p.A], b: l.groupOf[p.B],
				rateA: weightOf(p.A) * p.RateA[j], rateB: weightOf(p.B) * p.RateB[j],
			})
		}
	}
	n := e.lines()
	e.h, e.count = make([]float64, n), make([]float64, n)
	for k := range e.columns {
		e.count[k] = e.columns[k].count
	}
	for g, i := range l.member {
		e.h[e.timeLine(g)] = 1
		e.count[e.timeLine(g)], e.count[e.progressLine(g)] = l.count[g], l.count[g]
		if floor != nil {
			e.h[e.progressLine(g)] = -floor[i]
		}
	}
	for c, j := range l.kinds {
		e.h[e.kindLine(c)], e.count[e.kindLine(c)] = s.Devices[j], 1
	}
	e.allocate()
	return e, l.groupOf, l.kinds
}

func (e *embedding) allocate() {
	n, cols := e.lines(), len(e.columns)
	buffer := make([]float64, 13*n+7*cols)
	take := func(n int) []float64 {
		b := buffer[:n:n]
		buffer = buffer[n:]
		return b
	}
	e.s, e.z, e.v, e.rz, e.q = take(n), take(n), take(n), take(n), take(n)
	e.overS, e.overZ = take(n), take(n)
	e.x, e.rx = take(cols), take(cols)
	e.fixed, e.moving = step{x: take(cols), z: take(n)}, step{x: take(cols), z: take(n)}
	e.error, e.repair = step{x: take(cols), z: take(n)}, step{x: take(cols), z: take(n)}
	if len(e.columns) == 3*len(e.groups) && e.kinds == 3 {
		e.kkt = newEmbeddedBlocks(e)
	} else {
		e.kkt = newEmbeddedRows(e)
	}
}

// times adds G x to out, which has a number by line.
func (e *embedding) times(x []float64, t float64, out []float64) {
	for k := range e.columns {
		c := &e.columns[k]
		v := x[k]
		out[k] -= v
		out[e.timeLine(c.a)] += v
		out[e.progressLine(c.a)] -= c.rateA * v
		if c.b >= 0 {
			out[e.timeLine(c.b)] += v
			out[e.progressLine(c.b)] -= c.rateB * v
		}
		out[e.kindLine(c.kind)] += c.count * c.use * v
	}
	if e.rising {
		for g := range e.groups {
			out[e.progressLine(g)] += t
		}
	}
}

// against is what a column pays at prices z: its part of G'z, without the line of its own.
func (e *embedding) against(c *embeddedColumn, z []float64) float64 {
	sum := z[e.timeLine(c.a)] - c.rateA*z[e.progressLine(c.a)] + c.use*z[e.kindLine(c.kind)]
	if c.b >= 0 {
		sum += z[e.timeLine(c.b)] - c.rateB*z[e.progressLine(c.b)]
	}
	return sum
}

// level is the part of G'z that belongs to t.
func (e *embedding) level(z []float64) float64 {
	sum := 0.0
	if e.rising {
		for g, m := range e.groups {
			sum += m * z[e.progressLine(g)]
		}
	}
	return sum
}

// aim is what t counts in c.
func (e *embedding) aim() float64 {
	if e.rising {
		return -1
	}
	return 0
}

// dot is a sum over all lines.
func (e *embedding) dot(a, b []float64) float64 {
	sum := 0.0
	for i, m := range e.count {
		sum += m * a[i] * b[i]
	}
	return sum
}

// residuals computes how far the iterate is from satisfying the embedding.
func (e *embedding) residuals() {
	for k := range e.columns {
		e.rx[k] = e.z[k] - e.against(&e.columns[k], e.z)
	}
	e.rxT = -e.level(e.z) - e.aim()*e.tau
	copy(e.rz, e.s)
	e.times(e.x, e.t, e.rz)
	for i, h := range e.h {
		e.rz[i] -= h * e.tau
	}
	e.cx, e.hz = e.aim()*e.t, e.dot(e.h, e.z)
	e.rt = e.kap + e.cx + e.hz
}

// embeddedState says what a look at the iterate found.
type embeddedState int

const (
	embeddedGoing embeddedState = iota
	embeddedSolved
	embeddedInfeasible
)

// norms are Euclidean lengths in the scale of ECOS.
type norms struct{ x, s, z, h, rx, rz, gz float64 }

func (e *embedding) norms() (n norms) {
	for k := range e.columns {
		c, m := e.colScale[k], e.columns[k].count
		n.x += m * sq(e.x[k]*c)
		n.rx += m * sq(e.rx[k]/c)
	}
	n.gz = n.rx
	if e.rising {
		c := e.colScale[len(e.columns)]
		n.x += sq(e.t * c)
		n.rx += sq(e.rxT / c)
		n.gz += sq((e.rxT + e.aim()*e.tau) / c)
	}
	for i, m := range e.count {
		r := e.rowScale[i]
		n.s += m * sq(e.s[i]/r)
		n.z += m * sq(e.z[i]*r)
		n.h += m * sq(e.h[i]/r)
		n.rz += m * sq(e.rz[i]/r)
	}
	return norms{math.Sqrt(n.x), math.Sqrt(n.s), math.Sqrt(n.z), math.Sqrt(n.h), math.Sqrt(n.rx), math.Sqrt(n.rz), math.Sqrt(n.gz)}
}

func sq(v float64) float64 { return v * v }

// look says whether the iterate is an answer, to a tolerance, and gives its primal residual.
func (e *embedding) look(tolerance, gapTolerance float64) (state embeddedState, primal float64) {
	n := e.norms()
	cost := 1.0 // ‖c‖, at least 1
	if e.rising {
		cost = max(1, 1/e.colScale[len(e.columns)])
	}
	primal = n.rz / max(max(1, n.h)+n.x+n.s, 1) / e.tau
	dual := n.rx / max(cost+n.z, 1) / e.tau
	gap := e.dot(e.s, e.z)
	relative := math.Inf(1)
	if p, d := e.cx/e.tau, -e.hz/e.tau; p < 0 {
		relative = gap / -p
	} else if d > 0 {
		relative = gap / d
	}
	switch {
	case (-e.cx > 0 || -e.hz >= -gapTolerance) && primal < tolerance && dual < tolerance && (gap < gapTolerance || relative < gapTolerance):
		return embeddedSolved, primal
	case e.hz/max(n.z, 1) < -embeddedTolerance && n.gz/max(n.z, 1) < tolerance:
		return embeddedInfeasible, primal
	}
	return embeddedGoing, primal
}

// run iterates from the start to an answer.
func (e *embedding) run() error {
	if !e.begin() {
		return errEmbedding
	}
	last := math.Inf(1)
	for range embeddedSteps {
		e.residuals()
		state, primal := e.look(embeddedTolerance, embeddedTolerance)
		switch {
		case state == embeddedSolved:
			return nil
		case state == embeddedInfeasible:
			return ErrInfeasible
		case math.IsNaN(primal) || primal > embeddedJump*last:
			return errEmbedding
		}
		last = primal
		if !e.advance() {
			if state, _ := e.look(embeddedRough, embeddedRough/2); state == embeddedSolved {
				return nil
			}
			return errEmbedding
		}
	}
	return errEmbedding
}

// advance makes one step of predictor and corrector; false says that none is possible.
func (e *embedding) advance() bool {
	for i, s := range e.s {
		both := 1 / (s * e.z[i])
		e.overS[i], e.overZ[i] = both*e.z[i], both*s
		e.v[i] = s * e.overZ[i]
	}
	if !e.kkt.factorise(e.v) {
		return false
	}
	e.mu = (e.dot(e.s, e.z) + e.kap*e.tau) / (e.degree() + 1)
	mu := e.mu
	for k := range e.columns {
		e.moving.x[k] = 0
	}
	e.solve(e.moving.x, -e.aim(), e.h, &e.fixed)
	for i := range e.q {
		e.q[i] = e.s[i] - e.rz[i]
	}
	e.solve(e.rx, e.rxT, e.q, &e.moving)
	resists := e.kap/e.tau - e.aim()*e.fixed.t - e.dot(e.h, e.fixed.z)
	dtau := (e.rt - e.kap + e.aim()*e.moving.t + e.dot(e.h, e.moving.z)) / resists
	dkap := -e.kap - e.kap/e.tau*dtau
	reach := embeddedLine{}
	for i, dz := range e.moving.z {
		dz += dtau * e.fixed.z[i]
		ds := -e.v[i]*dz - e.s[i]
		reach.see(ds*e.overS[i], dz*e.overZ[i])
		e.q[i] = ds * dz // of second order
	}
	alpha := reach.length(e.tau, dtau, e.kap, dkap)
	sigma := min(1, max(embeddedCentring, (1-alpha)*(1-alpha)*(1-alpha)))

	keep := 1 - sigma
	for i := range e.q {
		second := e.q[i]
		e.q[i] = (e.s[i]*e.z[i] + second - sigma*mu) * e.overZ[i]
		e.rz[i] = e.q[i] - keep*e.rz[i]
	}
	for k := range e.rx {
		e.rx[k] *= keep
	}
	e.solve(e.rx, keep*e.rxT, e.rz, &e.moving)
	pull := e.kap*e.tau + dkap*dtau - sigma*mu
	dtau = (keep*e.rt - pull/e.tau + e.aim()*e.moving.t + e.dot(e.h, e.moving.z)) / resists
	return e.follow(dtau, -(pull+e.kap*dtau)/e.tau)
}

// follow goes along the direction as far as the rules of ECOS allow.
func (e *embedding) follow(dtau, dkap float64) bool {
	reach := embeddedLine{}
	for i := range e.moving.z {
		e.moving.z[i] += dtau * e.fixed.z[i]
		e.q[i] = -e.q[i] - e.v[i]*e.moving.z[i]
		reach.see(e.q[i]*e.overS[i], e.moving.z[i]*e.overZ[i])
	}
	alpha := embeddedLongest * reach.length(e.tau, dtau, e.kap, dkap)
	if math.IsNaN(alpha) || alpha <= embeddedLongest*embeddedShortest {
		return false
	}
	for k := range e.x {
		e.x[k] += alpha * (e.moving.x[k] + dtau*e.fixed.x[k])
	}
	e.t += alpha * (e.moving.t + dtau*e.fixed.t)
	for i := range e.s {
		e.s[i] += alpha * e.q[i]
		e.z[i] += alpha * e.moving.z[i]
	}
	e.tau += alpha * dtau
	e.kap += alpha * dkap
	return true
}

// solve solves the Newton system, and what was not solved of it once more, while that helps.
func (e *embedding) solve(b []float64, bT float64, d []float64, out *step) {
	e.kkt.solve(b, bT, d, out)
	if e.mu > embeddedEasy {
		return
	}
	most := math.Abs(bT)
	for _, v := range b {
		most = max(most, math.Abs(v))
	}
	for _, v := range d {
		most = max(most, math.Abs(v))
	}
	last := math.Inf(1)
	for range embeddedRefinements {
		wrong := e.wrong(b, bT, d, out)
		if !(wrong > embeddedAccuracy*(1+most)) || wrong > last/6 {
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

// wrong is what is left of the right-hand side.
func (e *embedding) wrong(b []float64, bT float64, d []float64, out *step) float64 {
	most := 0.0
	for k := range e.columns {
		r := b[k] + out.z[k] - e.against(&e.columns[k], out.z)
		e.error.x[k] = r
		most = max(most, math.Abs(r))
	}
	e.error.t = bT - e.level(out.z)
	clear(e.error.z)
	e.times(out.x, out.t, e.error.z)
	for i, gx := range e.error.z {
		r := d[i] - gx + e.v[i]*out.z[i]
		e.error.z[i] = r
		most = max(most, math.Abs(r))
	}
	return max(most, math.Abs(e.error.t))
}

// degree is the number of lines.
func (e *embedding) degree() float64 {
	sum := 0.0
	for _, m := range e.count {
		sum += m
	}
	return sum
}

// embeddedLine is the search along a direction: the smallest relative changes.
type embeddedLine struct{ s, z float64 }

func (l *embeddedLine) see(ds, dz float64) {
	if ds < l.s {
		l.s = ds
	}
	if dz < l.z {
		l.z = dz
	}
}

func (l *embeddedLine) length(tau, dtau, kap, dkap float64) float64 {
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
	return min(max(alpha, embeddedShortest), embeddedReach)
}
