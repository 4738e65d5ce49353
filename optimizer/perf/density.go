package perf

import "math"

// evaluation is the state after the last evaluation of a posterior. Finite differences change one or two elements of z:
// each field is computed again only after a change of its inputs.
type evaluation struct {
	z, logPriors []float64
	nat          []float64 // natural parameters of the form
	tau, delta   float64
	density      float64   // log density at z, NaN when unknown
	shapes       []float64 // log shape of each place
	resid, uses  []float64 // residual of each segment, log likelihood of its utilization
	// cov is the transposed Cholesky factor for the scales tau and delta in factored and the present own and trust, if
	// current; drifts are the negative log likelihoods of the drift within each segment.
	cov                       [][]float64
	drifts, logDiagonal, half []float64
	factored                  [2]float64
	current, definite         bool
}

// unpack moves the evaluation to z and returns tau and delta.
func (p *posterior) unpack(z []float64) (tau, delta float64) {
	form := false
	for i, v := range z {
		if v == p.z[i] {
			continue
		}
		q := &p.params[i]
		p.z[i], p.logPriors[i], p.density = v, q.logPrior(v), math.NaN()
		switch x := q.natural(q.mean + q.sd*v); len(z) - i {
		case 2:
			p.tau = x
		case 1:
			p.delta = x
		default:
			p.nat[i], form = x, true
		}
	}
	if form {
		p.form.derive(p.nat)
		for g, at := range p.places {
			p.shapes[g] = p.form.logShape(p.nat, at)
		}
		for i, g := range p.place {
			s := &p.stretches[i]
			p.resid[i] = s.logMean - p.level - p.shapes[g] + p.shapes[p.ref]
			if s.used != (Utilization{}) {
				p.uses[i] = p.form.logUse(p.nat, p.places[g], s.used)
			}
		}
	}
	return p.tau, p.delta
}

// set sets the offset variance of a place or the trust of a segment.
func (p *posterior) set(to *float64, value float64) {
	if *to != value {
		*to, p.current, p.density = value, false, math.NaN()
	}
}

// errorVariance returns the variance of segment i around the curve and its discrepancy.
func (p *posterior) errorVariance(i int, delta float64) float64 {
	s := &p.stretches[i]
	v := delta*delta/s.trust + p.noise*p.noise/s.n + s.doubt*s.doubt
	if s.blocks.n > 0 { // half of the drift is assumed to average out over a long segment
		v -= delta * delta / s.trust * (1 - 1/s.blocks.n) / 2
	}
	if s.recalled {
		v += recalledScatter * recalledScatter
		if across(p.places[p.place[i]], p.perNode) {
			v += acrossDrift * acrossDrift
		}
	}
	return v
}

// covariance sets cov to the factor for the given scales. It returns false when the matrix is not positive definite or a
// value is not finite.
func (p *posterior) covariance(tau, delta float64) bool {
	scales := [2]float64{tau, delta}
	if p.current && p.factored == scales {
		return p.definite
	}
	for i := range p.stretches {
		s, row := &p.stretches[i], p.cov[i]
		for j := i; j < len(row); j++ {
			row[j] = tau*tau*p.gram[i][j] + levelPrior*levelPrior
			if s.recalled && p.stretches[j].recalled {
				row[j] += recalledOffset * recalledOffset
			}
			row[j] += p.shared[i][j]
			if p.place[i] == p.place[j] {
				row[j] += p.own[p.place[i]]
			}
		}
		row[i] += p.errorVariance(i, delta)
		if b := s.blocks; b.n > 0 {
			expected := delta*delta + b.noise
			p.drifts[i] = (b.n - 1) / 2 * (math.Log(expected) + b.variance/expected)
		}
	}
	p.factored, p.current, p.definite = scales, true, cholesky(p.cov)
	for i := range p.cov {
		p.logDiagonal[i] = math.Log(p.cov[i][i])
	}
	return p.definite
}

// logDensity returns the log posterior at z up to a constant, -Inf where it is not finite. O(n³) in the segments.
func (p *posterior) logDensity(z []float64) float64 {
	tau, delta := p.unpack(z)
	if !math.IsNaN(p.density) {
		return p.density
	}
	p.density = math.Inf(-1)
	if !p.covariance(tau, delta) {
		return p.density
	}
	var lp float64
	for _, l := range p.logPriors {
		lp += l
	}
	for i := range p.stretches {
		if p.stretches[i].blocks.n > 0 {
			lp -= p.drifts[i]
		}
	}
	forward(p.cov, p.resid, p.half)
	for i, h := range p.half {
		lp -= h*h/2 + p.logDiagonal[i]
	}
	for i := range p.stretches {
		if p.stretches[i].used != (Utilization{}) {
			lp += p.uses[i]
		}
	}
	if !math.IsNaN(lp) {
		p.density = lp
	}
	return p.density
}

// cholesky replaces the upper triangle of a by the transposed Cholesky factor. It returns false when a is not positive
// definite. Each column is subtracted from the later ones as soon as it is known, so that no operation of the innermost
// loop depends on the previous one.
func cholesky(a [][]float64) bool {
	for k, row := range a {
		if !(row[k] > 0) || math.IsInf(row[k], 0) {
			return false
		}
		row[k] = math.Sqrt(row[k])
		for i := k + 1; i < len(row); i++ {
			row[i] /= row[k]
		}
		for j := k + 1; j < len(row); j++ {
			subtract(a[j][j:], row[j], row[j:])
		}
	}
	return true
}

// subtract performs dst -= by·v, for slices of equal length.
func subtract(dst []float64, by float64, v []float64) {
	for i, x := range v[:len(dst)] {
		dst[i] -= x * by
	}
}

// forward solves L x = b for a transposed factor u. x may alias b.
func forward(u [][]float64, b, x []float64) {
	copy(x, b)
	for k, row := range u {
		x[k] /= row[k]
		subtract(x[k+1:], x[k], row[k+1:])
	}
}

// backward solves Lᵀ x = b in place for a transposed factor u.
func backward(u [][]float64, x []float64) {
	for i := len(x) - 1; i >= 0; i-- {
		s := x[i]
		for k := i + 1; k < len(x); k++ {
			s -= u[i][k] * x[k]
		}
		x[i] = s / u[i][i]
	}
}
