package training

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/optimize"
)

// Priors of the scales that every form shares, in log space.
//
// tau, the discrepancy: median 3 %. The Pollux form fitted to the step times published with Pollux (five
// models, 1–16 T4 GPUs) leaves residuals of this order.
// delta, the drift of a stretch against the long run: median 2.5 %, 5–95 % 0.8–8 %; ours: the usual range between
// a quiet machine and one with neighbours.
var scalePriors = [2]parameter{
	{"tau", math.Log(0.03), 0.7},
	{"delta", math.Log(0.025), 0.7},
}

// Earlier runs share an unknown offset against this one (relative sd recalledOffset), and scatter more.
const (
	recalledOffset  = 0.15
	recalledScatter = 0.05
)

// levelPrior is the sd of the log level around the mean of the measurements: wide enough not to matter.
const levelPrior = 1.0

const (
	proposals       = 1024 // of the importance sampler
	draws           = 256  // kept
	proposalFreedom = 6    // of the Student proposal
	outlierFreedom  = 4    // Student degrees of freedom of the drift between stretches
	outlierRounds   = 2
)

// posterior is the joint density of level, form parameters, tau and delta given the stretches. The vector z that
// it takes is whitened: each prior is N(0, 1).
type posterior struct {
	form      form
	params    []parameter // level, the form's, tau, delta
	stretches []stretch
	points    []point
	phi       [][features]float64
	gram      [][]float64 // phi·phi
	ref       point
	noise     float64

	theta, nat []float64
	cov        [][]float64
	resid      []float64
	half       []float64
}

func newPosterior(f form, ctx formContext, stretches []stretch, at pointer, noise float64) *posterior {
	p := &posterior{form: f, stretches: stretches, ref: ctx.ref, noise: noise}
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
	}
	p.params = append([]parameter{{"level", level / weight, levelPrior}}, f.parameters()...)
	p.params = append(p.params, scalePriors[0], scalePriors[1])
	n := len(stretches)
	p.gram, p.cov = square(n), square(n)
	for i := range n {
		for j := range n {
			p.gram[i][j] = dot(&p.phi[i], &p.phi[j])
		}
	}
	p.theta, p.nat = make([]float64, len(p.params)), make([]float64, len(p.params))
	p.resid, p.half = make([]float64, n), make([]float64, n)
	return p
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
	p.form.natural(p.theta[1:d-2], p.nat)
	return math.Exp(p.theta[d-2]), math.Exp(p.theta[d-1])
}

// errorVariance of a stretch around the curve and its discrepancy.
func (p *posterior) errorVariance(i int, delta float64) float64 {
	s := p.stretches[i]
	v := delta*delta/s.trust + p.noise*p.noise/s.n
	if s.recalled {
		v += recalledScatter * recalledScatter
	}
	return v
}

// covariance fills cov and resid for the current theta; the lower triangle of cov becomes its Cholesky factor.
// It reports false when the matrix is not positive definite or anything is not finite.
func (p *posterior) covariance(tau, delta float64) bool {
	refShape := p.form.logShape(p.nat, p.ref)
	for i, s := range p.stretches {
		p.resid[i] = s.logMean - p.theta[0] - p.form.logShape(p.nat, p.points[i]) + refShape
		for j := 0; j <= i; j++ {
			c := tau * tau * p.gram[i][j]
			if s.recalled && p.stretches[j].recalled {
				c += recalledOffset * recalledOffset
			}
			p.cov[i][j] = c
		}
		p.cov[i][i] += p.errorVariance(i, delta)
	}
	return cholesky(p.cov)
}

// logDensity is the log posterior at z up to a constant, -Inf where it is not finite. O(n³) in the stretches.
func (p *posterior) logDensity(z []float64) float64 {
	var lp float64
	for _, v := range z {
		lp -= v * v / 2
	}
	tau, delta := p.unpack(z)
	if !p.covariance(tau, delta) {
		return math.Inf(-1)
	}
	forward(p.cov, p.resid, p.half)
	for i, h := range p.half {
		lp -= h*h/2 + math.Log(p.cov[i][i])
	}
	if math.IsNaN(lp) {
		return math.Inf(-1)
	}
	return lp
}

// mode climbs to a maximum of the density from z (BFGS, central differences).
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
			const h = 1e-4
			copy(work, x)
			for i := range x {
				work[i] = x[i] + h
				up := negative(work)
				work[i] = x[i] - h
				grad[i] = (up - negative(work)) / (2 * h)
				work[i] = x[i]
			}
		},
	}
	settings := &optimize.Settings{MajorIterations: 60, GradientThreshold: 1e-3, Concurrent: 0}
	best, value := append([]float64(nil), z...), negative(z)
	// A failed line search near the maximum is an error to gonum; its best point is what we want anyway.
	if r, _ := optimize.Minimize(problem, best, settings, &optimize.BFGS{}); r != nil && r.F < value {
		best, value = append([]float64(nil), r.X...), r.F
	}
	return best, -value
}

// spread is the square root of the covariance of the Laplace approximation at a mode, and log of its determinant;
// curvatures are floored at a quarter of the prior's, where the density is flatter than a Gaussian.
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

// component is one Student proposal of the importance sampler.
type component struct {
	centre  []float64
	root    *mat.Dense
	inverse *mat.Dense
	logDet  float64
	weight  float64
}

// sample draws from the posterior: Student proposals at the modes, weighted and resampled systematically, so that
// skew and several modes count. It is a function of the seed alone.
func (p *posterior) sample(modes [][]float64, values []float64, seed uint64) [][]float64 {
	d := p.dim()
	best := math.Inf(-1)
	for _, v := range values {
		best = max(best, v)
	}
	var mixture []component
	for i, m := range modes {
		if best-values[i] > 8 || near(m, modes[:i]) {
			continue
		}
		root, logDet := p.spread(m)
		var inverse mat.Dense
		if err := inverse.Inverse(root); err != nil && inverse.IsEmpty() {
			continue
		}
		mixture = append(mixture, component{m, root, &inverse, logDet, 1})
	}
	for i := range mixture {
		mixture[i].weight = 1 / float64(len(mixture))
	}
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	zs := make([][]float64, proposals)
	logw := make([]float64, proposals)
	eps := make([]float64, d)
	for k := range zs {
		c := mixture[k%len(mixture)]
		zs[k] = make([]float64, d)
		var chi float64
		for range proposalFreedom {
			g := rng.NormFloat64()
			chi += g * g
		}
		scale := math.Sqrt(proposalFreedom / chi)
		for i := range eps {
			eps[i] = rng.NormFloat64() * scale
		}
		for i := range d {
			v := c.centre[i]
			for j := range d {
				v += c.root.At(i, j) * eps[j]
			}
			zs[k][i] = v
		}
		logw[k] = p.logDensity(zs[k]) - logMixture(mixture, zs[k])
	}
	return resample(zs, logw, rng.Float64())
}

func near(z []float64, others [][]float64) bool {
	for _, o := range others {
		var dist float64
		for i := range z {
			dist += (z[i] - o[i]) * (z[i] - o[i])
		}
		if dist < 0.25 {
			return true
		}
	}
	return false
}

func logMixture(mixture []component, z []float64) float64 {
	d := float64(len(z))
	var sum float64
	for _, c := range mixture {
		var r2 float64
		for i := range z {
			var v float64
			for j := range z {
				v += c.inverse.At(i, j) * (z[j] - c.centre[j])
			}
			r2 += v * v
		}
		sum += c.weight * math.Exp(-c.logDet-(proposalFreedom+d)/2*math.Log1p(r2/proposalFreedom))
	}
	return math.Log(sum)
}

// resample turns weighted proposals into equally weighted draws (systematic resampling).
func resample(zs [][]float64, logw []float64, u float64) [][]float64 {
	top := math.Inf(-1)
	for _, l := range logw {
		if !math.IsNaN(l) {
			top = max(top, l)
		}
	}
	var total float64
	w := make([]float64, len(zs))
	for i, l := range logw {
		if e := math.Exp(l - top); !math.IsNaN(e) {
			w[i] = e
		}
		total += w[i]
	}
	out := make([][]float64, draws)
	j, sum := 0, w[0]
	for k := range out {
		target := (float64(k) + u) / draws * total
		for sum < target && j < len(zs)-1 {
			j++
			sum += w[j]
		}
		out[k] = zs[j]
	}
	return out
}

// cholesky factors the lower triangle of a in place; false when a is not positive definite.
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

// forward solves L x = b for the lower triangle of l.
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
