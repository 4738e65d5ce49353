package solve

import (
	"errors"
	"math"
	"slices"
	"sync"
)

// ecosSolver solves a program as ECOS does (Domahidi, Chu and Boyd, ECC 2013; version 2.0): by the homogeneous
// self-dual embedding, with the starting point, step rules and tolerances of ECOS. The optima of these programs are
// rarely unique, and infeasible-start interior-point methods end at a point that depends on the starting point.
// Reproducing the allocations of Gavel therefore requires its solver's iterates. In exact arithmetic the iterates
// equal those of ECOS; the linear algebra is our own and exploits the structure. The promised gap is 1e-8; the
// solution is not certified like those of the other methods.
//
// The program is min c'x with Gx + s = h·τ, s ≥ 0, its dual G'z + c·τ = 0, z ≥ 0, and τ, κ ≥ 0. The rows ("lines") of
// G are −x ≤ 0 by column, then time and progress by group, then the capacities.
type ecosSolver struct {
	columns []ecosColumn
	groups  []float64 // number of jobs in each group
	kinds   int
	rising  bool // t is maximized and bounds the progress of each job from below

	h, count []float64 // by line: right-hand side, and number of lines represented
	limited  []limit   // lines with a nonzero right-hand side
	degree   float64   // number of lines
	hNorm    float64   // norm of h in the scale of ECOS
	rowScale []float64 // by line: divisor applied by ECOS
	colScale []float64 // by column: divisor applied by ECOS; the last entry is that of t
	overRow  []float64 // 1 / rowScale
	overCol  []float64 // 1 / colScale
	spare    []float64 // scratch by column, and for t

	x, s, z  []float64
	t        float64
	tau, kap float64
	gap      float64   // sum of s·z
	mu       float64   // mean of s·z and τ·κ
	v        []float64 // s / z
	overS    []float64 // 1 / s
	overZ    []float64 // 1 / z
	kkt      kkt
	blocks   *ecosBlocks // kkt if it is of this type; nil: the program has another shape

	rx, rz        []float64
	rxT, rt       float64
	cx, hz        float64
	fixed, moving step
	error, repair step // residual of a solution and its correction
	q             []float64

	layout layout // used for grouping jobs only
	single bool   // equal jobs are not grouped
	beside []int  // by pair: its first column
	buffer []float64
}

// ecosSolvers pools solvers: simulations solve thousands of programs of similar size.
var ecosSolvers = sync.Pool{New: func() any { return new(ecosSolver) }}

// ecosColumn is the time of a job, or of two co-located jobs, on a device type. It represents count equal columns.
type ecosColumn struct {
	count, use   float64
	rateA, rateB float64 // multiplied by the weights
	perA, perB   float64 // number of these columns to which one job of each group belongs
	// Lines of the time of both jobs, in which −1 is no second job, and of the device type; progress follows time.
	timeA, timeB, limit int32
}

// limit is a line with a nonzero right-hand side, summed over the lines represented.
type limit struct {
	line int
	h    float64
}

// step is a solution of the Newton system: columns, t, and prices by line.
type step struct {
	x, z []float64
	t    float64
}

// kkt solves G'z = b, G x − V z = d for the V of the last call of factorise.
type kkt interface {
	factorise(v []float64) bool
	solve(b []float64, bT float64, d []float64, out *step)
}

// Default settings of ECOS 2.0.
const (
	ecosTolerance   = 1e-8
	ecosSteps       = 100
	ecosLongest     = 0.99
	ecosReach       = 0.999
	ecosShortest    = 1e-6
	ecosCentring    = 1e-4
	ecosJump        = 500  // a primal residual that grows by a larger factor ends the run
	ecosEasy        = 1e-4 // mean of s·z above which Newton solutions are not refined
	ecosRefinements = 9
	ecosAccuracy    = 1e-14
	ecosRough       = 1e-4 // reduced accuracy that is still accepted as a solution
)

var errECOS = errors.New("the embedding ended without a solution")

// progressLine, timeLine and kindLine return the lines of G of a group or a device type; the lines of the columns come
// first.
func (e *ecosSolver) progressLine(g int) int { return len(e.columns) + 2*g + 1 }
func (e *ecosSolver) timeLine(g int) int     { return len(e.columns) + 2*g }
func (e *ecosSolver) kindLine(j int) int     { return len(e.columns) + 2*len(e.groups) + j }
func (e *ecosSolver) lines() int             { return e.kindLine(e.kinds) }

// build sets up the program of a sharing: with floor, the progress of each job is at least its floor; with a nil
// floor, the minimum of weight times progress is maximized. Unless single is set, equal jobs form one group, and the pairs of
// two groups one column by type, because the iterates do not distinguish them. Afterwards layout contains the group of
// each job and the types that have devices, and beside the first column of each pair.
func (e *ecosSolver) build(s *Sharing, weight, floor []float64) error {
	l := &e.layout
	p, err := newPairing("pairs", s, nil)
	if err != nil {
		return err
	}
	l.group(s, p, nil, nil, weight, floor)
	if e.single || p != nil && (p.uneven() || slices.Contains(l.groupOf, -1)) {
		l.apart()
	}
	e.kinds, e.rising, e.groups = len(l.kinds), floor == nil, l.count
	e.columns = e.columns[:0]
	for g, i := range l.member {
		for c, j := range l.kinds {
			e.columns = append(e.columns, ecosColumn{
				count: l.count[g], use: s.Scale[i], limit: int32(c), timeA: int32(g), timeB: -1, rateA: weights(weight).of(i) * s.Rate[i][j],
			})
		}
	}
	e.beside = e.beside[:0]
	first := make([]int, len(l.count)*len(l.count)) // by two groups: the first column; 0: none yet
	for _, p := range s.Pairs {
		a, b := l.groupOf[p.A], l.groupOf[p.B]
		if a > b {
			a, b, p = b, a, Pair{p.B, p.A, p.RateB, p.RateA}
		}
		at := &first[a*len(l.count)+b]
		if *at == 0 {
			*at = len(e.columns)
			for c, j := range l.kinds {
				e.columns = append(e.columns, ecosColumn{
					use: s.Scale[p.A], limit: int32(c), timeA: int32(a), timeB: int32(b),
					rateA: weights(weight).of(p.A) * p.RateA[j], rateB: weights(weight).of(p.B) * p.RateB[j],
				})
			}
		}
		for c := range l.kinds {
			e.columns[*at+c].count++
		}
		e.beside = append(e.beside, *at)
	}
	e.allocate()
	for k := range e.columns {
		c := &e.columns[k]
		e.count[k], c.perA = c.count, c.count/l.count[c.timeA]
		c.timeA, c.limit = int32(e.timeLine(int(c.timeA))), int32(e.kindLine(int(c.limit)))
		if c.timeB >= 0 {
			c.timeB, c.perB = int32(e.timeLine(int(c.timeB))), c.count/l.count[c.timeB]
		}
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
	e.degree, e.limited = 0, e.limited[:0]
	for i, m := range e.count {
		e.degree += m
		if e.h[i] != 0 {
			e.limited = append(e.limited, limit{i, m * e.h[i]})
		}
	}
	return nil
}

// solveSharing builds and runs the program of a sharing.
func (e *ecosSolver) solveSharing(s *Sharing, weight, floor []float64) error {
	if err := e.build(s, weight, floor); err != nil || len(e.groups) == 0 {
		return err
	}
	return e.run()
}

// apart makes every job a group of its own.
func (l *layout) apart() {
	l.member, l.count = l.member[:0], l.count[:0]
	for i := range l.groupOf {
		l.groupOf[i] = i
		l.member = append(l.member, i)
		l.count = append(l.count, 1)
	}
}

// allocate carves all vectors from one buffer, which is reused between programs, and selects the solver of the Newton
// system.
func (e *ecosSolver) allocate() {
	n, cols := e.lines(), len(e.columns)
	size := 17*n + 9*cols + 3
	if len(e.buffer) < size {
		e.buffer = make([]float64, size+size/2)
	}
	buffer := e.buffer[:size]
	clear(buffer)
	take := func(n int) []float64 {
		b := buffer[:n:n]
		buffer = buffer[n:]
		return b
	}
	e.h, e.count, e.rowScale, e.colScale = take(n), take(n), take(n), take(cols+1)
	e.overRow, e.overCol, e.spare = take(n), take(cols+1), take(cols+1)
	e.s, e.z, e.v, e.rz, e.q = take(n), take(n), take(n), take(n), take(n)
	e.overS, e.overZ = take(n), take(n)
	e.x, e.rx = take(cols), take(cols)
	e.fixed, e.moving = step{x: take(cols), z: take(n)}, step{x: take(cols), z: take(n)}
	e.error, e.repair = step{x: take(cols), z: take(n)}, step{x: take(cols), z: take(n)}
	over := take(n)
	e.t, e.mu = 0, 0
	if e.kinds != 3 || len(e.columns) != 3*len(e.groups) {
		e.kkt, e.blocks = newECOSRows(e), nil
		return
	}
	if e.blocks == nil {
		e.blocks = &ecosBlocks{ecosSolver: e}
	}
	e.blocks.begin(over)
	e.kkt = e.blocks
}

// times adds G x to out, which has one entry per line.
func (e *ecosSolver) times(x []float64, t float64, out []float64) {
	if e.blocks != nil {
		e.blocks.times(x, t, out)
		return
	}
	for k := range e.columns {
		c := &e.columns[k]
		v := x[k]
		out[k] -= v
		out[c.timeA] += c.perA * v
		out[c.timeA+1] -= c.perA * c.rateA * v
		if c.timeB >= 0 {
			out[c.timeB] += c.perB * v
			out[c.timeB+1] -= c.perB * c.rateB * v
		}
		out[c.limit] += c.count * c.use * v
	}
	if e.rising {
		for g := range e.groups {
			out[e.progressLine(g)] += t
		}
	}
}

// against returns the entry of G'z for a column, without the contribution of the column's own line.
func (c *ecosColumn) against(z []float64) float64 {
	sum := z[c.timeA] - c.rateA*z[c.timeA+1] + c.use*z[c.limit]
	if c.timeB >= 0 {
		sum += z[c.timeB] - c.rateB*z[c.timeB+1]
	}
	return sum
}

// columnsOff computes from − G'z by column, where G'z excludes the columns' own lines.
func (e *ecosSolver) columnsOff(from, z, out []float64) {
	if e.blocks != nil {
		e.blocks.columnsOff(from, z, out)
		return
	}
	for k := range e.columns {
		out[k] = from[k] - e.columns[k].against(z)
	}
}

// level returns the entry of G'z for t.
func (e *ecosSolver) level(z []float64) float64 {
	sum := 0.0
	if e.rising {
		for g, m := range e.groups {
			sum += m * z[e.progressLine(g)]
		}
	}
	return sum
}

// aim returns the entry of c for t.
func (e *ecosSolver) aim() float64 {
	if e.rising {
		return -1
	}
	return 0
}

// limits returns h'z.
func (e *ecosSolver) limits(z []float64) float64 {
	sum := 0.0
	for _, l := range e.limited {
		sum += l.h * z[l.line]
	}
	return sum
}

// residuals computes the residuals at the iterate.
func (e *ecosSolver) residuals() {
	e.columnsOff(e.z, e.z, e.rx)
	e.rxT = -e.level(e.z) - e.aim()*e.tau
	copy(e.rz, e.s)
	e.times(e.x, e.t, e.rz)
	for i, h := range e.h {
		e.rz[i] -= h * e.tau
	}
	e.gap = 0
	s, z := e.s[:len(e.count)], e.z[:len(e.count)]
	for i, m := range e.count {
		e.gap += m * s[i] * z[i]
	}
	e.cx, e.hz = e.aim()*e.t, e.limits(e.z)
	e.rt = e.kap + e.cx + e.hz
}

// ecosState is the status of the iterate.
type ecosState int

const (
	ecosGoing ecosState = iota
	ecosSolved
	ecosInfeasible
)

// primalNorms returns the Euclidean norms of x, s and the primal residual in the scale of ECOS.
func (e *ecosSolver) primalNorms() (x, s, left float64) {
	cols := len(e.columns)
	scale, count := e.colScale[:cols], e.count[:cols]
	for k, v := range e.x[:cols] {
		x += count[k] * sq(v*scale[k])
	}
	if e.rising {
		x += sq(e.t * e.colScale[cols])
	}
	n := len(e.s)
	rz, over, count := e.rz[:n], e.overRow[:n], e.count[:n]
	for i, v := range e.s {
		m, o := count[i], over[i]
		s += m * sq(v*o)
		left += m * sq(rz[i]*o)
	}
	return math.Sqrt(x), math.Sqrt(s), math.Sqrt(left)
}

// dualNorms returns the norms of z, of the dual residual and of G'z in the scale of ECOS.
func (e *ecosSolver) dualNorms() (z, left, gz float64) {
	cols := len(e.columns)
	over, count := e.overCol[:cols], e.count[:cols]
	for k, v := range e.rx[:cols] {
		left += count[k] * sq(v*over[k])
	}
	gz = left
	if e.rising {
		left += sq(e.rxT * e.overCol[cols])
		gz += sq((e.rxT + e.aim()*e.tau) * e.overCol[cols])
	}
	n := len(e.z)
	scale, count := e.rowScale[:n], e.count[:n]
	for i, v := range e.z {
		z += count[i] * sq(v*scale[i])
	}
	return math.Sqrt(z), math.Sqrt(left), math.Sqrt(gz)
}

func sq(v float64) float64 { return v * v }

// look tests the iterate for optimality and infeasibility at the given tolerances and returns its relative primal
// residual.
func (e *ecosSolver) look(tolerance, gapTolerance float64) (state ecosState, primal float64) {
	x, s, left := e.primalNorms()
	primal = left / max(max(1, e.hNorm)+x+s, 1) / e.tau
	relative := math.Inf(1)
	if p, d := e.cx/e.tau, -e.hz/e.tau; p < 0 {
		relative = e.gap / -p
	} else if d > 0 {
		relative = e.gap / d
	}
	solved := (-e.cx > 0 || -e.hz >= -gapTolerance) && primal < tolerance && (e.gap < gapTolerance || relative < gapTolerance)
	if !solved && e.hz >= 0 {
		return ecosGoing, primal
	}
	z, left, gz := e.dualNorms()
	cost := 1.0 // ‖c‖, at least 1
	if e.rising {
		cost = max(1, 1/e.colScale[len(e.columns)])
	}
	switch {
	case solved && left/max(cost+z, 1)/e.tau < tolerance:
		return ecosSolved, primal
	case e.hz/max(z, 1) < -ecosTolerance && gz/max(z, 1) < tolerance:
		return ecosInfeasible, primal
	}
	return ecosGoing, primal
}

// run iterates to an optimal point. It returns ErrInfeasible when infeasibility is proven, and errECOS when no
// solution is found.
func (e *ecosSolver) run() error {
	if !e.begin() {
		return errECOS
	}
	last := math.Inf(1)
	for range ecosSteps {
		e.residuals()
		state, primal := e.look(ecosTolerance, ecosTolerance)
		switch {
		case state == ecosSolved:
			return nil
		case state == ecosInfeasible:
			return ErrInfeasible
		case math.IsNaN(primal) || primal > ecosJump*last:
			return errECOS
		}
		last = primal
		if !e.advance() {
			if state, _ := e.look(ecosRough, ecosRough/2); state == ecosSolved {
				return nil
			}
			return errECOS
		}
	}
	return errECOS
}
