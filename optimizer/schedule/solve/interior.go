package solve

import "math"

// interior is a primal-dual interior-point method (Mehrotra's predictor-corrector, 1992) for a program. Its iterates
// tend to the analytic centre of the optimal face; the result is not rounded to a vertex. One iteration costs O(Σ_g
// (columns of g)² + R³) for R capacities and links.
type interior struct {
	*program
	cols, groupsN, rows int // rows: number of capacities and links
	u0, v0, w0, c0, n   int // offsets of the slacks u, v, w, c in x and z; n: total number of variables

	x, z      []float64 // columns, then slacks u, v, w, c; z holds the duals, so z[u0+g] is the price of a job's time
	weight    []float64 // number of identical pairs (x, z) that the entry represents; 0: the row does not exist
	target    []float64 // limit of x·z: 0, or 1 where the objective is a logarithm
	t         float64
	linkPrice []float64

	dx, dz             []float64
	dt                 float64
	dRows              []float64 // step of the row prices
	kappa              []float64
	fact               []factor
	theta, rd, wish, g []float64 // by column: x/z, dual residual, right-hand side, response to progress
	inverse            []float64 // by group: columns × columns
	rowResidual        []float64
	residual           []rowResiduals
	schur, right       []float64 // Schur complement and right-hand side of the capacities, the links and t
	pivots             []int
	tResidual, tRight  float64
	touched            []groupRows
	longest            float64            // fraction of the step to the boundary that is taken
	leastCentring      float64            // lower bound of the centring parameter sigma
	ordinary           float64            // Σ weight of the pairs with target 0
	worth              float64            // objective at the starting point
	threeType          *threeTypeInterior // specialized implementation; nil: the program has another shape
}

// factor is the factorization of the 3×3 block of a group, computed from sums without cancellation.
type factor struct {
	at                          int // offset of the group's inverse
	d1, h, inv2, inv3, ratio, e float64
	part                        float64 // share of e due to the slack of progress
}

// rowResiduals contains the primal residuals of the rows of a group.
type rowResiduals struct{ time, progress, floor float64 }

// groupRows contains the coupling rows that a group touches, and for each column the positions of its rows in that
// list.
type groupRows struct {
	rows []int32
	kind []int32
	link []int32 // −1: the column is in no link
}

const (
	maxIterations = 200
	usualLongest  = 0.995
	finestMu      = 1e-15
	centredEnough = 1e-3 // largest relative deviation from mu of the products of a centred point
)

// newInterior allocates the vectors of all groups from one buffer and sets the weights of the complementarity pairs.
// The iterate is placed by begin.
func newInterior(p *program) *interior {
	s := &interior{program: p, cols: len(p.rate), groupsN: p.groups(), rows: len(p.capacity) + p.links, longest: usualLongest, leastCentring: 1e-6}
	s.u0 = s.cols
	s.v0 = s.u0 + s.groupsN
	s.w0 = s.v0 + s.groupsN
	s.c0 = s.w0 + s.groupsN
	s.n = s.c0 + len(p.capacity)
	s.fact = make([]factor, s.groupsN)
	squares := 0
	for g := range s.fact {
		k := p.start[g+1] - p.start[g]
		s.fact[g].at = squares
		squares += k * k
	}
	buffer := make([]float64, 7*s.n+4*s.cols+squares+3*s.rows+1+(s.rows+1)*(s.rows+1)+p.links)
	take := func(n int) []float64 {
		b := buffer[:n:n]
		buffer = buffer[n:]
		return b
	}
	s.x, s.z, s.weight, s.target = take(s.n), take(s.n), take(s.n), take(s.n)
	s.dx, s.dz, s.kappa = take(s.n), take(s.n), take(s.n)
	s.theta, s.rd, s.wish, s.g = take(s.cols), take(s.cols), take(s.cols), take(s.cols)
	s.inverse = take(squares)
	s.rowResidual, s.right, s.dRows = take(s.rows), take(s.rows+1), take(s.rows)
	s.pivots = make([]int, s.rows+1)
	s.schur, s.linkPrice = take((s.rows+1)*(s.rows+1)), take(p.links)
	s.residual = make([]rowResiduals, s.groupsN)
	s.touched = p.touchedRows()
	s.weigh()
	return s
}

// touchedRows returns the coupling rows of each group. Consecutive groups whose columns have the same kinds and links
// share one list.
func (p *program) touchedRows() []groupRows {
	place := make([]int32, len(p.capacity)+p.links)
	for i := range place {
		place[i] = -1
	}
	all := make([]groupRows, p.groups())
	for g := range all {
		from, to := p.start[g], p.start[g+1]
		if g > 0 && p.sameRows(g-1, g) {
			all[g] = all[g-1]
			continue
		}
		t := groupRows{kind: make([]int32, to-from), link: make([]int32, to-from)}
		at := func(row int32) int32 {
			if place[row] < 0 {
				place[row] = int32(len(t.rows))
				t.rows = append(t.rows, row)
			}
			return place[row]
		}
		for k := from; k < to; k++ {
			t.kind[k-from] = at(p.kind[k])
			t.link[k-from] = -1
			if p.link[k] >= 0 {
				t.link[k-from] = at(int32(len(p.capacity)) + p.link[k])
			}
		}
		for _, r := range t.rows {
			place[r] = -1
		}
		all[g] = t
	}
	return all
}

// sameRows reports whether the columns of two groups have the same kinds and links in the same order.
func (p *program) sameRows(a, b int) bool {
	n := p.start[a+1] - p.start[a]
	if p.start[b+1]-p.start[b] != n {
		return false
	}
	for k := range n {
		ka, kb := p.start[a]+k, p.start[b]+k
		if p.kind[ka] != p.kind[kb] || p.link[ka] != p.link[kb] {
			return false
		}
	}
	return true
}

// weigh sets the weights and targets of all complementarity pairs and gives neutral values to the slacks of absent
// rows.
func (s *interior) weigh() {
	pair := func(i int, weight float64, log bool) {
		s.weight[i] = weight
		if log {
			s.target[i] = 1
		} else {
			s.ordinary += weight
		}
	}
	for g, m := range s.count {
		for k := s.start[g]; k < s.start[g+1]; k++ {
			pair(k, m, s.centred)
		}
		pair(s.u0+g, m, s.centred)
		s.x[s.v0+g], s.z[s.v0+g], s.x[s.w0+g], s.z[s.w0+g] = 1, 0, 1, 0
		if s.levelled[g] {
			pair(s.v0+g, m, s.logs || s.centred)
		}
		if s.floored[g] {
			pair(s.w0+g, m, s.centred)
		}
	}
	for j := range s.capacity {
		pair(s.c0+j, 1, s.centred)
	}
}

// progress contains the distances of the iterate from the optimum.
type progress struct {
	primal, dual float64 // largest residuals, in the scale of the rows
	gap          float64 // Σ x·z of the pairs with target 0
	mu           float64 // gap per pair
	spread       float64 // largest distance of a logarithmic pair from its target
}

// run iterates until done returns true, the merit function stalls, or maxIterations is reached. It returns the last
// measurement.
func (s *interior) run(done func(progress) bool) progress {
	var now progress
	best, stalled := math.Inf(1), 0
	for range maxIterations {
		now = s.look()
		if math.IsNaN(now.primal + now.dual + now.gap + now.spread) {
			return now
		}
		if done(now) {
			return now
		}
		merit := now.primal + now.dual + now.gap + now.spread
		if merit < 0.9*best {
			best, stalled = merit, 0
		} else if stalled++; stalled > 15 {
			return now
		}
		if now.mu > 0 && now.mu < finestMu {
			return now
		}
		if !s.iterate(now.mu) {
			return now
		}
	}
	return now
}

// look measures the iterate. With three types it also factorizes the next Newton system.
func (s *interior) look() progress {
	if s.threeType == nil {
		return s.measure()
	}
	now, sound := s.threeType.prepare()
	if !sound {
		now.gap = math.NaN()
	}
	return now
}

// current copies the iterate of three types back into x and z.
func (s *interior) current() {
	if s.threeType != nil {
		s.threeType.store()
	}
}

// iterate performs one predictor-corrector step. It returns false when the step fails or is negligible.
func (s *interior) iterate(mu float64) bool {
	if s.threeType != nil {
		return s.threeType.iterate(mu)
	}
	// Predictor: an affine step to the targets.
	for i := range s.x {
		s.kappa[i] = s.target[i] - s.x[i]*s.z[i]
	}
	if !s.factorise() || !s.direction() {
		return false
	}
	ap, ad := s.reach()
	// Centring parameter: the cube of the reduction of mu by the predictor (Mehrotra).
	if s.ordinary > 0 {
		after := 0.0
		for i, w := range s.weight {
			if w > 0 && s.target[i] == 0 {
				after += w * (s.x[i] + ap*s.dx[i]) * (s.z[i] + ad*s.dz[i])
			}
		}
		after /= s.ordinary
		sigma := after / mu
		sigma = max(sigma*sigma*sigma, s.leastCentring)
		s.correct(sigma*mu, ap*ad)
	} else {
		s.correct(0, ap*ad)
	}
	// Corrector, with the factorization of the predictor.
	if !s.direction() {
		return false
	}
	ap, ad = s.reach()
	s.move(min(1, s.longest*ap), min(1, s.longest*ad))
	return ap > 1e-10 || ad > 1e-10
}

// correct sets the right-hand side of the corrector: the target mu and the second-order term of the predictor, scaled
// by the length of the predictor step.
func (s *interior) correct(mu, second float64) {
	for i := range s.x {
		k := mu - s.x[i]*s.z[i] - second*s.dx[i]*s.dz[i]
		if s.target[i] > 0 {
			k = s.target[i] - s.x[i]*s.z[i] - second*s.dx[i]*s.dz[i]
		}
		s.kappa[i] = k
	}
}

// careful shortens the steps and keeps the iterates closer to the central path.
func (s *interior) careful() { s.longest, s.leastCentring = 0.9, 0.05 }

// centre takes Newton steps towards the point of the central path at mu, so that the result does not depend on the
// path of the iterates.
func (s *interior) centre(mu float64, steps int) {
	if s.threeType != nil {
		s.threeType.centre(mu, steps)
		return
	}
	for range steps {
		worst := 0.0
		for i, w := range s.weight {
			if w == 0 {
				continue
			}
			goal := mu
			if s.target[i] > 0 {
				goal = s.target[i]
			}
			s.kappa[i] = goal - s.x[i]*s.z[i]
			worst = max(worst, math.Abs(s.kappa[i])/goal)
		}
		if worst < centredEnough {
			return
		}
		s.measure()
		if !s.factorise() || !s.direction() {
			return
		}
		ap, ad := s.reach()
		// Equal primal and dual steps keep the products near their targets.
		a := min(1, 0.9*min(ap, ad))
		s.move(a, a)
	}
}

// reach returns the largest steps of x and z along the direction that keep them nonnegative.
func (s *interior) reach() (primal, dual float64) {
	return reach(s.x, s.dx), reach(s.z, s.dz)
}

func reach(x, dx []float64) float64 {
	bx, bd := 1e10, 1.0 // numerator and denominator of the smallest x / −dx found
	dx = dx[:len(x)]
	for i, v := range x {
		if d := -dx[i]; d*bx > v*bd {
			bx, bd = v, d
		}
	}
	return bx / bd
}

// move adds a step to the iterate.
func (s *interior) move(primal, dual float64) {
	for i := range s.x {
		s.x[i] += primal * s.dx[i]
		s.z[i] += dual * s.dz[i]
	}
	s.t += primal * s.dt
	for l := range s.linkPrice {
		s.linkPrice[l] += dual * s.dRows[len(s.capacity)+l]
	}
}
