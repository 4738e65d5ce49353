package morl

import (
	"math"
	"math/rand/v2"
	"slices"
)

// armBelief is the posterior of an arm's mean cost.
type armBelief struct {
	Mean float64 // expected cost; NaN if unknown
	SD   float64 // standard deviation of the posterior of Mean, in the unit of cost; +Inf if unknown
	// Pulls is the number of observations, Stopped the number of unsuccessful ones among them.
	Pulls, Stopped int
	// Dropped arms failed during pruning and are not sampled.
	Dropped bool
}

// Beliefs returns the beliefs about all arms. O(observations + arms); O(arms³) with positions.
func (t *Thompson) Beliefs() []armBelief { return slices.Clone(t.believed()) }

// believed returns the beliefs, computed once per history.
func (t *Thompson) believed() []armBelief {
	if t.beliefs == nil {
		t.beliefs = t.believe()
	}
	return t.beliefs
}

// believe computes the beliefs of all arms from the observations: the posteriors with or without
// positions, the counts, and the arms dropped by pruning.
func (t *Thompson) believe() []armBelief {
	obs := t.history
	kept, _ := t.prune(obs)
	out := make([]armBelief, t.arms)
	if t.settings.Positions == nil {
		for a, g := range t.gaussians(obs) {
			out[a].Mean, out[a].SD = g.mean, g.sd
		}
	} else if p := t.smooth(obs); p != nil {
		for a := range out {
			out[a].Mean, out[a].SD = p.cost(a)
		}
	} else {
		for a := range out {
			out[a].Mean, out[a].SD = math.NaN(), math.Inf(1)
		}
	}
	for _, o := range obs {
		out[o.Arm].Pulls++
		if o.Stopped {
			out[o.Arm].Stopped++
		}
	}
	for a := range out {
		out[a].Dropped = !kept[a]
	}
	return out
}

// draw returns one joint draw of the arms' mean costs (of their logarithms with positions). Unknown independent arms
// get -Inf, so that they are tried.
func (t *Thompson) draw(obs []PullOutcome, rng *rand.Rand) []float64 {
	if t.settings.Positions != nil {
		return t.smooth(obs).draw(rng)
	}
	out := make([]float64, t.arms)
	for a, g := range t.gaussians(obs) {
		z := rng.NormFloat64() // drawn for every arm, so that the other draws do not depend on the state of one
		if out[a] = g.mean + g.sd*z; math.IsNaN(g.mean) {
			out[a] = math.Inf(-1)
		}
	}
	return out
}

// gaussian is the posterior of one arm's mean.
type gaussian struct{ mean, sd float64 }

// gaussians returns independent posteriors: a flat prior on the mean, and the variance estimated from the arm's own
// costs with one pseudo-observation of the relative Spread (so that two equal costs do not imply certainty).
func (t *Thompson) gaussians(obs []PullOutcome) []gaussian {
	reached, stopped := make([][]float64, t.arms), make([][]float64, t.arms)
	for _, o := range obs {
		if o.Stopped {
			stopped[o.Arm] = append(stopped[o.Arm], o.Cost)
		} else {
			reached[o.Arm] = append(reached[o.Arm], o.Cost)
		}
	}
	out := make([]gaussian, t.arms)
	for a := range out {
		out[a] = t.gaussian(reached[a], stopped[a])
	}
	return out
}

// gaussian returns the posterior of one arm from its successful and stopped pulls; the latter count with their
// expected cost.
func (t *Thompson) gaussian(reached, stopped []float64) gaussian {
	n := len(reached) + len(stopped)
	if n == 0 {
		return gaussian{math.NaN(), math.Inf(1)}
	}
	costs := append([]float64(nil), reached...)
	mean, sd := meanAndSpread(reached, t.settings.Spread)
	for _, c := range stopped {
		costs = append(costs, beyond(c, mean, sd, t.settings.Spread))
	}
	mean, sd = meanAndSpread(costs, t.settings.Spread)
	return gaussian{mean, sd / math.Sqrt(float64(n))}
}

// meanAndSpread returns the mean of costs and the standard deviation of a single one; NaN if there are no costs.
func meanAndSpread(costs []float64, spread float64) (mean, sd float64) {
	for _, c := range costs {
		mean += c
	}
	n := float64(len(costs))
	mean /= n
	prior := spread * mean
	sum := prior * prior
	for _, c := range costs {
		sum += (c - mean) * (c - mean)
	}
	return mean, math.Sqrt(sum / n) // one pseudo-observation minus one degree of freedom
}

// beyond returns the expected cost of a pull that was stopped at c: E[x | x > c] of the arm's normal distribution
// (Tobin 1958), or c increased by Spread if the arm has never succeeded.
func beyond(c, mean, sd, spread float64) float64 {
	if math.IsNaN(mean) {
		return c * (1 + spread)
	}
	z := (c - mean) / sd
	tail := math.Erfc(z/math.Sqrt2) / 2
	if tail < 1e-12 { // asymptotic mean excess of a normal in the far tail
		return c + sd/z
	}
	return mean + sd*math.Exp(-z*z/2)/math.Sqrt(2*math.Pi)/tail
}
