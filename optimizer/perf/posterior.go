package perf

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// scalePriors are the priors, in log space, of the scales shared by all forms.
//
// tau, the discrepancy: median 3 %. The Pollux form fitted to the step times published with Pollux (five models, 1–16
// T4 GPUs) leaves residuals of this order. delta, the drift of a segment against the long run: median 3 %, 5–95 %
// 0.9–9 %, chosen here as the usual range between a quiet and a shared machine. Repeated and long segments soon
// outweigh it.
var scalePriors = [2]parameter{
	{name: "tau", mean: math.Log(0.03), sd: 0.7},
	{name: "delta", mean: math.Log(0.03), sd: 0.7},
}

// Earlier runs share an unknown offset against this one (relative sd recalledOffset) and have additional scatter.
const (
	recalledOffset  = 0.15
	recalledScatter = 0.05
)

// acrossDrift is the additional drift of segments that exchange gradients between nodes: in the step times published
// with Pollux (AWS, 2–16 nodes), equivalent placements differ by this much.
const acrossDrift = 0.2

// knobOffsetVariance is the prior variance of the log seconds at a chosen thread-pool size, around the curve at as many
// CPUs: a factor of 0.2 to 5. One setting is no evidence for another.
const knobOffsetVariance = 1

// levelPrior is the sd of the log level around the mean of the measurements, wide enough to have no influence. The
// level enters linearly, as an offset shared by all segments, and is integrated out with the discrepancy.
const levelPrior = 1.0

const (
	proposals       = 768 // per round of the importance sampler
	kernels         = 24  // in the second round
	draws           = 256 // resampled
	proposalFreedom = 6   // degrees of freedom of the Student proposals, or 7, so that freedom + dimension is even
	outlierFreedom  = 3   // Student degrees of freedom of the drift between segments
	outlierRounds   = 5
)

// posterior is the joint density of form parameters, tau and delta given the segments. Its argument z is whitened:
// (value - prior mean) / prior sd.
type posterior struct {
	form      form
	params    []parameter // of the form, then tau, delta
	level     float64     // prior mean
	stretches []segment
	points    []point
	phi       [][features]float64
	gram      [][]float64 // phi·phi
	// places are the distinct points, place the index of each segment's point, and own the offset variance of each
	// place alone: at least its prior, more where the measurements contradict the form.
	places  []point
	place   []int
	own     []float64
	prior   []float64 // of own
	ref     point
	perNode int
	noise   float64

	theta, nat []float64
	cov        [][]float64
	resid      []float64
	half       []float64
}

// newPosterior computes everything that does not depend on the parameters: points, features and their inner products.
// The prior mean of the level is the mean of the segments, with weight 0.1 for recalled ones.
func newPosterior(f form, ctx formContext, stretches []segment, at pointer, noise float64) *posterior {
	p := &posterior{form: f, stretches: stretches, ref: ctx.ref, perNode: ctx.gpusPerNode, noise: noise}
	var level, weight float64
	for _, s := range stretches {
		w := 1.0
		if s.recalled {
			w = 0.1
		}
		level += w * s.logMean
		weight += w
		p.points = append(p.points, at.at(s.at))
		p.phi = append(p.phi, feature(p.points[len(p.points)-1]))
		p.locate(s, p.points[len(p.points)-1])
	}
	p.level = level / weight
	p.params = append(f.parameters(), scalePriors[0], scalePriors[1])
	n := len(stretches)
	p.gram, p.cov = square(n), square(n)
	for i := range n {
		for j := range n {
			p.gram[i][j] = dot(&p.phi[i], &p.phi[j])
		}
	}
	p.theta, p.nat = make([]float64, len(p.params)), make([]float64, maxNatural)
	p.resid, p.half = make([]float64, n), make([]float64, n)
	return p
}

// locate appends the place of the next segment. A chosen thread or worker setting and the placement on several nodes of
// this run have an offset of their own, which lasts as long as the job stays there.
func (p *posterior) locate(s segment, at point) {
	g := slices.Index(p.places, at)
	if g < 0 {
		g = len(p.places)
		p.places, p.own, p.prior = append(p.places, at), append(p.own, 0), append(p.prior, 0)
	}
	p.place = append(p.place, g)
	if at.chosen() {
		p.prior[g] = knobOffsetVariance
	}
	if !s.recalled && across(at, p.perNode) {
		p.prior[g] = max(p.prior[g], acrossDrift*acrossDrift)
	}
	p.own[g] = p.prior[g]
}

func square(n int) [][]float64 {
	m := make([][]float64, n)
	for i := range m {
		m[i] = make([]float64, n)
	}
	return m
}

func (p *posterior) dim() int { return len(p.params) }

// unpack sets theta and nat from z and returns tau and delta.
func (p *posterior) unpack(z []float64) (tau, delta float64) {
	for i, q := range p.params {
		p.theta[i] = q.mean + q.sd*z[i]
	}
	d := p.dim()
	p.form.natural(p.theta[:d-2], p.nat)
	return math.Exp(p.theta[d-2]), math.Exp(p.theta[d-1])
}

// errorVariance returns the variance of segment i around the curve and its discrepancy.
func (p *posterior) errorVariance(i int, delta float64) float64 {
	s := p.stretches[i]
	v := delta*delta/s.trust + p.noise*p.noise/s.n + s.doubt*s.doubt
	if s.blocks.n > 0 { // half of the drift is assumed to average out over a long segment
		v -= delta * delta / s.trust * (1 - 1/s.blocks.n) / 2
	}
	if s.recalled {
		v += recalledScatter * recalledScatter
		if across(p.points[i], p.perNode) {
			v += acrossDrift * acrossDrift
		}
	}
	return v
}

// covariance fills cov and resid for the current theta and replaces the lower triangle of cov by its Cholesky factor.
// It returns false when the matrix is not positive definite or a value is not finite.
func (p *posterior) covariance(tau, delta float64) bool {
	refShape := p.form.logShape(p.nat, p.ref)
	for i, s := range p.stretches {
		p.resid[i] = s.logMean - p.level - p.form.logShape(p.nat, p.points[i]) + refShape
		for j := 0; j <= i; j++ {
			c := tau*tau*p.gram[i][j] + levelPrior*levelPrior
			if s.recalled && p.stretches[j].recalled {
				c += recalledOffset * recalledOffset
			}
			c += sharedEffects(s.effects, p.stretches[j].effects)
			if p.place[i] == p.place[j] {
				c += p.own[p.place[i]]
			}
			p.cov[i][j] = c
		}
		p.cov[i][i] += p.errorVariance(i, delta)
	}
	return cholesky(p.cov)
}

// logDensity returns the log posterior at z up to a constant, -Inf where it is not finite. O(n³) in the segments.
func (p *posterior) logDensity(z []float64) float64 {
	var lp float64
	for i, v := range z {
		lp += p.params[i].logPrior(v)
	}
	tau, delta := p.unpack(z)
	if !p.covariance(tau, delta) {
		return math.Inf(-1)
	}
	for _, s := range p.stretches { // the drift within long segments
		if b := s.blocks; b.n > 0 {
			expected := delta*delta + b.noise
			lp -= (b.n - 1) / 2 * (math.Log(expected) + b.variance/expected)
		}
	}
	forward(p.cov, p.resid, p.half)
	for i, h := range p.half {
		lp -= h*h/2 + math.Log(p.cov[i][i])
	}
	for i, s := range p.stretches {
		if s.used != (Utilization{}) {
			lp += p.form.logUse(p.nat, p.points[i], s.used)
		}
	}
	if math.IsNaN(lp) {
		return math.Inf(-1)
	}
	return lp
}

// mode returns a point near a maximum of the density, starting at z (BFGS, forward differences), and its log density.
// An approximate maximum suffices, since it only centres proposals.
func (p *posterior) mode(z []float64) ([]float64, float64) {
	negative := func(x []float64) float64 {
		v := -p.logDensity(x)
		if math.IsInf(v, 0) {
			return 1e300
		}
		return v
	}
	work := make([]float64, len(z))
	problem := optimize.Problem{
		Func: negative,
		Grad: func(grad, x []float64) {
			const h = 1e-5
			copy(work, x)
			here := negative(x)
			for i := range x {
				work[i] = x[i] + h
				grad[i] = (negative(work) - here) / h
				work[i] = x[i]
			}
		},
	}
	settings := &optimize.Settings{MajorIterations: 25, GradientThreshold: 0.02}
	best, value := append([]float64(nil), z...), negative(z)
	// gonum returns an error for a failed line search near the maximum; the best point found is still usable.
	if r, _ := optimize.Minimize(problem, best, settings, &optimize.BFGS{}); r != nil && r.F < value {
		best, value = append([]float64(nil), r.X...), r.F
	}
	return best, -value
}

// spread returns the square root of the covariance of the Laplace approximation at a mode, and the log of its
// determinant. Curvatures are at least a quarter of the prior's, for densities flatter than a Gaussian. The Hessian
// is computed by central differences and inverted through its eigenvalues; the identity replaces it when the
// decomposition fails.
func (p *posterior) spread(z []float64) (root *mat.Dense, logDet float64) {
	d, h := len(z), 1e-2
	hess := mat.NewSymDense(d, nil)
	work := append([]float64(nil), z...)
	at := func(i int, a float64, j int, b float64) float64 {
		work[i] += a
		work[j] += b
		v := p.logDensity(work)
		copy(work, z)
		return v
	}
	centre := p.logDensity(z)
	for i := range d {
		hess.SetSym(i, i, -(at(i, h, i, 0)+at(i, -h, i, 0)-2*centre)/(h*h))
		for j := range i {
			v := at(i, h, j, h) - at(i, h, j, -h) - at(i, -h, j, h) + at(i, -h, j, -h)
			hess.SetSym(i, j, -v/(4*h*h))
		}
	}
	for i := range d {
		for j := 0; j <= i; j++ {
			if v := hess.At(i, j); math.IsNaN(v) || math.IsInf(v, 0) {
				hess.SetSym(i, j, 0)
			}
		}
	}
	var eigen mat.EigenSym
	root = mat.NewDense(d, d, nil)
	if !eigen.Factorize(hess, true) {
		for i := range d {
			root.Set(i, i, 1)
		}
		return root, 0
	}
	var vectors mat.Dense
	eigen.VectorsTo(&vectors)
	for k, lambda := range eigen.Values(nil) {
		lambda = max(lambda, 0.25)
		logDet -= math.Log(lambda) / 2
		for i := range d {
			root.Set(i, k, vectors.At(i, k)/math.Sqrt(lambda))
		}
	}
	return root, logDet
}

// cholesky factors the lower triangle of a in place. It returns false when a is not positive definite.
func cholesky(a [][]float64) bool {
	for i := range a {
		for j := 0; j <= i; j++ {
			s := a[i][j]
			for k := range j {
				s -= a[i][k] * a[j][k]
			}
			if i != j {
				a[i][j] = s / a[j][j]
			} else if s > 0 && !math.IsInf(s, 0) {
				a[i][i] = math.Sqrt(s)
			} else {
				return false
			}
		}
	}
	return true
}

// forward solves L x = b for the lower triangle of l. x may alias b.
func forward(l [][]float64, b, x []float64) {
	for i := range b {
		s := b[i]
		for k := range i {
			s -= l[i][k] * x[k]
		}
		x[i] = s / l[i][i]
	}
}

// backward solves Lᵀ x = b in place.
func backward(l [][]float64, x []float64) {
	for i := len(x) - 1; i >= 0; i-- {
		s := x[i]
		for k := i + 1; k < len(x); k++ {
			s -= l[k][i] * x[k]
		}
		x[i] = s / l[i][i]
	}
}
