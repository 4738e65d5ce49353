package morl

import "math"

// PID is the multiplier λ ≥ 0 of one constraint J ≤ d, controlled by a proportional, an integral and a derivative
// term (Stooke, Achiam, Abbeel, Responsive safety in reinforcement learning by PID Lagrangian methods, ICML 2020,
// algorithm 2):
//
//	e = (J − d) / |d|,  I = max(0, I + Ki·e),  λ = max(0, Kp·e + I + Kd·max(0, ΔJ / |d|))
//
// With Kp = Kd = 0 it is the usual gradient ascent on λ, which overshoots and oscillates: the multiplier only grows
// while the constraint is violated and only decreases while it is satisfied. Errors are relative to the limit (to 1
// if it is 0).
//
// The proportional and derivative terms are for costs that react slowly to λ, as while a policy is learning or if the
// cost is a mean over recent decisions. A conditioned agent reacts to a new weight immediately, with jumps between
// points of the front: in that case, pass the mean cost or set Smooth, because the proportional term would amplify
// the jumps.
type PID struct {
	Kp, Ki, Kd float64 // gains; if all are zero: 1, 0.1, 1
	// Smooth is the weight of the past in the moving averages of e and J used by the proportional and the derivative
	// term, 0 ≤ Smooth < 1; 0: no smoothing.
	Smooth float64
	// Most bounds λ; default 100. While λ is at the bound, the integral does not grow (anti-windup).
	Most float64

	integral, lambda, error, cost float64
	started                       bool
}

// Update records the cost of the current policy and returns the new λ. If cost or limit is not finite, λ is
// unchanged.
func (p *PID) Update(cost, limit float64) float64 {
	if v := cost + limit; math.IsNaN(v) || math.IsInf(v, 0) {
		return p.lambda
	}
	kp, ki, kd := p.Kp, p.Ki, p.Kd
	if kp == 0 && ki == 0 && kd == 0 {
		kp, ki, kd = 1, 0.1, 1
	}
	most := p.Most
	if most == 0 {
		most = 100
	}
	unit := math.Abs(limit)
	if unit == 0 {
		unit = 1
	}
	e := bounded((cost - limit) / unit)
	if !p.started {
		p.error, p.cost, p.started = e, cost, true
	}
	before := p.cost
	p.error = p.Smooth*p.error + (1-p.Smooth)*e
	p.cost = p.Smooth*p.cost + (1-p.Smooth)*cost
	if p.lambda < most || e < 0 {
		p.integral = min(most, max(0, p.integral+ki*e))
	}
	p.lambda = min(most, max(0, kp*p.error+p.integral+kd*bounded(max(0, p.cost-before)/unit)))
	return p.lambda
}

// bounded clips relative errors to a range in which sums stay finite.
func bounded(v float64) float64 { return max(-1e9, min(1e9, v)) }

// Constrained returns the weights for an agent whose objectives have limits: (w + λ) / (1 + Σλ), where lambda has one
// multiplier ≥ 0 per objective (0: no limit) for the cost −r of that objective. The division restores a sum of 1 and
// bounds the utility when λ is large. In w, an objective that only has a limit has weight 0.
func Constrained(w []float32, lambda []float64) []float32 {
	total := 1.0
	for _, l := range lambda {
		total += l
	}
	out := make([]float32, len(w))
	for i, v := range w {
		out[i] = float32((float64(v) + lambda[i]) / total)
	}
	return out
}

// Weights adapts a preference to projected violations: w_i ∝ w_i (1 + κ s_i), where s_i in [0, 1] is the *projected*
// severity of the violation that objective i repairs, recomputed for every decision. The form is an interpretation of
// the dynamic weights that SLA-MORL (arXiv 2508.03509) mentions but does not define. The zero value has the
// documented defaults.
type Weights struct {
	Kappa float64 // an objective with a certain violation has 1 + κ times its weight; default 4
	// Floor is the minimum weight of an objective at full risk before scaling, even if the preference gives it none,
	// in proportion to the severity; default 0.25, negative: none.
	Floor float64
	// Rate is the maximum change of any weight between two decisions; default 0.1.
	Rate float64
}

// Target returns the final weights: they sum to 1 and equal the preference (which sums to 1) if no violation is
// projected. severity has one value per objective; nil means no violations, and NaN (no data) counts as 0. Each
// weight is raised to at least Floor in proportion to the severity, scaled by 1 + κ s, and normalised.
func (c Weights) Target(preference []float32, severity []float64) []float32 {
	kappa, floor := c.Kappa, c.Floor
	if kappa == 0 {
		kappa = 4
	}
	if floor == 0 {
		floor = 0.25
	}
	out := make([]float32, len(preference))
	copy(out, preference)
	atRisk, sum := false, 0.0
	raised := make([]float64, len(out))
	for i, p := range preference {
		s := 0.0
		if severity != nil && severity[i] > 0 {
			s, atRisk = min(1, severity[i]), true
		}
		raised[i] = max(float64(p), floor*s) * (1 + kappa*s)
		sum += raised[i]
	}
	if !atRisk || sum == 0 {
		return out
	}
	for i, v := range raised {
		out[i] = float32(v / sum)
	}
	return out
}

// Next moves the weights now (nil: the preference) towards Target in a straight line, by at most Rate per weight, so
// that they stay a preference. Repeated steps end at the target, which is the preference itself when no violation is
// projected.
func (c Weights) Next(now, preference []float32, severity []float64) []float32 {
	rate := c.Rate
	if rate == 0 {
		rate = 0.1
	}
	if now == nil {
		now = preference
	}
	target := c.Target(preference, severity)
	most := 0.0
	for i, v := range target {
		most = max(most, math.Abs(float64(v-now[i])))
	}
	if most <= rate {
		return target
	}
	share := float32(rate / most)
	for i, v := range target {
		target[i] = now[i] + share*(v-now[i])
	}
	return target
}
