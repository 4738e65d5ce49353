package perf

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
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
	{name: "tau", mean: math.Log(0.03), sd: 0.7, natural: math.Exp},
	{name: "delta", mean: math.Log(0.03), sd: 0.7, natural: math.Exp},
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
	gram      [][]float64 // phi·phi of each segment and the later ones
	shared    [][]float64 // their covariance by effects
	// places are the distinct points, phi their features, place the index of each segment's point, and own the offset
	// variance of each place alone: at least its prior, more where the measurements contradict the form.
	places  []point
	phi     [][features]float64
	place   []int
	own     []float64
	prior   []float64 // of own
	ref     int       // of places
	perNode int
	noise   float64

	evaluation
}

// newPosterior computes everything that does not depend on the parameters: points, features and their inner products.
// The prior mean of the level is the mean of the segments, with weight 0.1 for recalled ones.
func newPosterior(f form, ctx formContext, stretches []segment, at pointer, noise float64) *posterior {
	p := &posterior{form: f, stretches: stretches, perNode: ctx.gpusPerNode, noise: noise}
	var level, weight float64
	for _, s := range stretches {
		w := 1.0
		if s.recalled {
			w = 0.1
		}
		level += w * s.logMean
		weight += w
		p.locate(s, at.at(s.at))
	}
	p.level, p.ref = level/weight, slices.Index(p.places, ctx.ref)
	p.params = append(f.parameters(), scalePriors[0], scalePriors[1])
	n, d := len(stretches), len(p.params)
	p.gram, p.shared, p.cov = square(n), square(n), square(n)
	for i := range n {
		for j := i; j < n; j++ {
			p.gram[i][j] = dot(&p.phi[p.place[i]], &p.phi[p.place[j]])
			p.shared[i][j] = sharedEffects(stretches[j].effects, stretches[i].effects)
		}
	}
	p.z, p.logPriors, p.nat, p.shapes = slices.Repeat([]float64{math.NaN()}, d), make([]float64, d), make([]float64, maxNatural), make([]float64, len(p.places))
	p.resid, p.uses, p.drifts, p.logDiagonal, p.half = make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	return p
}

// locate appends the place of the next segment. A chosen thread or worker setting and the placement on several nodes of
// this run have an offset of their own, which lasts as long as the job stays there.
func (p *posterior) locate(s segment, at point) {
	g := slices.Index(p.places, at)
	if g < 0 {
		g = len(p.places)
		p.places, p.phi, p.own, p.prior = append(p.places, at), append(p.phi, feature(at)), append(p.own, 0), append(p.prior, 0)
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

// The search for a mode ends after modeIterations or below a slope of modeSlope: an approximate maximum suffices, since it
// only centres proposals.
const (
	modeIterations = 25
	modeSlope      = 0.02
)

// mode returns a point near a maximum of the density, starting at z (BFGS, forward differences), and its log density. It
// iterates gonum's method itself: optimize.Minimize passes each evaluation through four goroutines, which takes longer than
// the evaluation.
func (p *posterior) mode(z []float64) ([]float64, float64) {
	negative := func(x []float64) float64 {
		v := -p.logDensity(x)
		if math.IsInf(v, 0) {
			return 1e300
		}
		return v
	}
	work := make([]float64, len(z))
	slope := func(grad, x []float64) {
		const h = 1e-5
		copy(work, x)
		here := negative(x)
		for i := range x {
			work[i] = x[i] + h
			grad[i] = (negative(work) - here) / h
			work[i] = x[i]
		}
	}
	start := negative(z)
	best, value := slices.Clone(z), start
	at := &optimize.Location{X: slices.Clone(z), F: start, Gradient: make([]float64, len(z))}
	slope(at.Gradient, at.X)
	flat := func() bool { return floats.Norm(at.Gradient, math.Inf(1)) < modeSlope }
	if flat() || slices.ContainsFunc(at.Gradient, func(g float64) bool { return math.IsNaN(g) || math.IsInf(g, 0) }) {
		return best, -value
	}
	search := optimize.LinesearchMethod{NextDirectioner: &optimize.BFGS{}, Linesearcher: &optimize.Bisection{}}
	// gonum returns an error for a failed line search near the maximum; the best point found is still usable.
	op, err := search.Init(at)
	for n := 1; err == nil; op, err = search.Iterate(at) {
		if op&optimize.FuncEvaluation != 0 {
			at.F = negative(at.X)
		}
		if op&optimize.GradEvaluation != 0 {
			slope(at.Gradient, at.X)
		}
		if op == optimize.MajorIteration {
			if n++; at.F < start {
				best, value = append(best[:0], at.X...), at.F
			}
			if n == modeIterations || flat() {
				break
			}
		}
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
