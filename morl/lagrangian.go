package morl

import (
	"errors"
	"fmt"
	"math"
)

// PID is the multiplier λ ≥ 0 of one constraint J ≤ d, controlled by a proportional, an integral and a derivative term
// (Stooke, Achiam, Abbeel, Responsive safety in reinforcement learning by PID Lagrangian methods, ICML 2020,
// algorithm 2):
//
//	e = (J − d) / |d|,  I = max(0, I + Ki·e),  λ = max(0, Kp·e + I + Kd·max(0, ΔJ / |d|))
//
// With Kp = Kd = 0 it is the usual gradient ascent on λ, which overshoots and oscillates, as the multiplier only grows
// while the constraint is broken and only falls while it is kept. Errors are relative to the limit (to 1 when it is 0).
//
// The terms beside the integral are for costs that follow λ slowly, as when a policy learns or the cost is a mean over the
// last decisions. A conditioned agent answers a new weight at once, with jumps from one point of the front to the next:
// there, feed the mean cost, or set Smooth, or the proportional term makes the jumps larger.
type PID struct {
	Kp, Ki, Kd float64 // gains; all zero: 1, 0.1, 1
	// Smooth is the weight of the past in the moving averages of e and J that the proportional and the derivative term
	// see, 0 ≤ Smooth < 1; 0: none.
	Smooth float64
	// Most bounds λ, default 100. While λ is there the integral does not grow (anti-windup).
	Most float64

	integral, lambda, error, cost float64
	started                       bool
}

// Validate reports every setting that makes no sense.
func (p *PID) Validate() error {
	var errs []error
	for _, g := range []struct {
		name string
		v    float64
	}{{"Kp", p.Kp}, {"Ki", p.Ki}, {"Kd", p.Kd}, {"most", p.Most}} {
		if !(g.v >= 0) || math.IsInf(g.v, 0) {
			errs = append(errs, fmt.Errorf("multiplier: %s = %g, want at least 0", g.name, g.v))
		}
	}
	if !(p.Smooth >= 0 && p.Smooth < 1) {
		errs = append(errs, fmt.Errorf("multiplier: smoothing %g, want 0 ≤ s < 1", p.Smooth))
	}
	return errors.Join(errs...)
}

// Update takes in what the present policy costs and returns the new λ. A cost or limit that is not finite is no data: λ
// stays.
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

// bounded keeps relative errors to numbers that can be added up.
func bounded(v float64) float64 { return max(-1e9, min(1e9, v)) }

// Lambda is the present multiplier, 0 before the first Update.
func (p *PID) Lambda() float64 { return p.lambda }

// Constrained are the weights with which an agent is asked when some objectives have limits: (w + λ) / (1 + Σλ), where
// lambda has one multiplier ≥ 0 an objective (0: no limit) for the cost −r of that objective. Preferences sum to 1, so the
// division, which keeps the size of the utility when λ is large, gives weights that sum to 1 again. A preference for the
// free objectives alone has weight 0 where there is a limit.
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

// Weights turn a preference into one that minds what is at risk: w_i ∝ w_i (1 + κ s_i), where s_i in [0, 1] is the
// *projected* severity of the violation that objective i repairs, computed afresh for every decision. The form is this
// package's reading of the dynamic weights that SLA-MORL names (arXiv 2508.03509) and does not define. The zero value has
// the documented settings.
type Weights struct {
	Kappa float64 // how much more an objective counts whose violation is certain: 1 + κ times; default 4
	// Floor is the weight from which an objective at full risk is counted up even when the preference gives it none,
	// in proportion to the severity; default 0.25, negative: none.
	Floor float64
	// Rate is the most that any weight changes from one decision to the next, default 0.1.
	Rate float64
}

// Target is where the weights go: they sum to 1, and equal the preference (which sums to 1) when nothing is at risk.
// severity has one number an objective; nil is nothing at risk, NaN is no data and counts as 0.
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

// Next moves the weights now (nil: the preference) towards Target, by Rate at most in each, along a straight line, so that
// they stay a preference. The steps end at the target: the preference itself when nothing is at risk any more.
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
