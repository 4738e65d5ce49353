package morl

import (
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mat"
)

// With positions the logarithms of the arms' mean costs are a Gaussian process (as in GP-TS, Chowdhury and Gopalan
// 2017): a common level, a smooth curve of amplitude curveSD and Length, and an independent deviation per arm. Costs
// scatter around their arm's mean by a relative noise that is common to all arms and estimated from repeated pulls.
// The scales suit training runs over batch sizes: they were chosen on the six V100 jobs of the Zeus traces and
// validated on the eight of other GPUs (trainopt/simulator/trial).
const (
	levelSD     = 3.0  // log: a factor of 20 either way
	curveSD     = 0.7  // log: a factor of 2
	deviationSD = 0.05 // log: 5 %
)

// posterior is the joint posterior of the logarithms of the mean costs.
type posterior struct {
	mean []float64
	cov  *mat.SymDense
}

// smooth conditions the process on the arms' average log costs; nil without observations. O(observations + arms³). It
// solves the linear system of the observed arms by a Cholesky factorisation.
func (t *Thompson) smooth(obs []PullOutcome) *posterior {
	if len(obs) == 0 {
		return nil
	}
	level, average, pulls, noise := t.logCosts(obs)
	var at []int // arms with an observation
	for a, n := range pulls {
		if n > 0 {
			at = append(at, a)
		}
	}
	s := mat.NewSymDense(len(at), nil)
	resid := mat.NewVecDense(len(at), nil)
	cross := mat.NewDense(t.arms, len(at), nil)
	prior := mat.NewSymDense(t.arms, nil)
	for a := range t.arms {
		for b := a; b < t.arms; b++ {
			prior.SetSym(a, b, t.covariance(a, b))
		}
	}
	for i, a := range at {
		resid.SetVec(i, average[a]-level)
		for j, b := range at[:i+1] {
			s.SetSym(i, j, prior.At(a, b))
		}
		s.SetSym(i, i, prior.At(a, a)+noise*noise/float64(pulls[a]))
		for b := range t.arms {
			cross.Set(b, i, prior.At(b, a))
		}
	}
	var chol mat.Cholesky
	if !chol.Factorize(s) {
		panic("bandit: covariance of the observed arms is not positive definite")
	}
	var weights mat.VecDense
	var gain mat.Dense                   // S⁻¹ Kᵀ
	_ = chol.SolveVecTo(&weights, resid) // the error only reports a bad condition number
	_ = chol.SolveTo(&gain, cross.T())
	var mean mat.VecDense
	mean.MulVec(cross, &weights)
	var less mat.Dense
	less.Mul(cross, &gain)
	p := &posterior{mean: make([]float64, t.arms), cov: prior}
	for a := range t.arms {
		p.mean[a] = level + mean.AtVec(a)
		for b := a; b < t.arms; b++ {
			prior.SetSym(a, b, prior.At(a, b)-(less.At(a, b)+less.At(b, a))/2)
		}
	}
	return p
}

// covariance returns the prior covariance of the log mean costs of two arms.
func (t *Thompson) covariance(a, b int) float64 {
	d := (t.settings.Positions[a] - t.settings.Positions[b]) / t.settings.Length
	k := levelSD*levelSD + curveSD*curveSD*math.Exp(-d*d/2)
	if a == b {
		k += deviationSD * deviationSD
	}
	return k
}

// logCosts returns the mean over all observed arms, the averages and the numbers of pulls per arm, and the noise of
// one pull. A stopped pull counts as one noise above the cost at which it was stopped, or as its arm's average if
// that is higher.
func (t *Thompson) logCosts(obs []PullOutcome) (level float64, average []float64, pulls []int, noise float64) {
	average, pulls = make([]float64, t.arms), make([]int, t.arms)
	for _, o := range obs {
		if !o.Stopped {
			average[o.Arm] += math.Log(o.Cost)
			pulls[o.Arm]++
		}
	}
	for a, n := range pulls {
		average[a] /= float64(max(n, 1))
	}
	sum, freedom := t.settings.Spread*t.settings.Spread, 1.0
	reached := append([]int(nil), pulls...)
	for _, o := range obs {
		if !o.Stopped && reached[o.Arm] > 1 {
			d := math.Log(o.Cost) - average[o.Arm]
			sum += d * d
			freedom += 1 - 1/float64(reached[o.Arm])
		}
	}
	noise = math.Sqrt(sum / freedom)
	for _, o := range obs {
		if o.Stopped {
			y := math.Log(o.Cost) + noise
			if reached[o.Arm] > 0 {
				y = max(y, average[o.Arm])
			}
			pulls[o.Arm]++
			average[o.Arm] += (y - average[o.Arm]) / float64(pulls[o.Arm])
		}
	}
	arms := 0.0
	for a, n := range pulls {
		if n > 0 {
			level += average[a]
			arms++
		}
	}
	return level / arms, average, pulls, noise
}

// cost returns the median of an arm's mean cost and approximately the standard deviation of its posterior.
func (p *posterior) cost(arm int) (mean, sd float64) {
	m := math.Exp(p.mean[arm])
	return m, m * math.Sqrt(max(0, p.cov.At(arm, arm)))
}

// draw returns one joint draw of the log mean costs.
func (p *posterior) draw(rng *rand.Rand) []float64 {
	n := len(p.mean)
	out, z := make([]float64, n), mat.NewVecDense(n, nil)
	for a := range n {
		z.SetVec(a, rng.NormFloat64())
	}
	var chol mat.Cholesky
	for jitter := 1e-9; !chol.Factorize(p.cov); jitter *= 10 { // rounding: the posterior can be nearly singular
		for a := range n {
			p.cov.SetSym(a, a, p.cov.At(a, a)+jitter)
		}
	}
	var lower mat.TriDense
	chol.LTo(&lower)
	var x mat.VecDense
	x.MulVec(&lower, z)
	for a := range n {
		out[a] = p.mean[a] + x.AtVec(a)
	}
	return out
}
