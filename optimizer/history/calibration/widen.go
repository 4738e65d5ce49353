package calibration

import (
	"cmp"
	"math"
)

const (
	// priorRuns is how many runs a prior belief in the width is worth.
	priorRuns = 10
	// far is how many (widened) standard deviations count at most, so that an accident does not widen everything.
	far = 3
	// leastRuns is how many scored runs it takes before an interval is made narrower than the model says.
	leastRuns         = 20
	narrowest, widest = 0.7, 3.0
)

// scale sets the factors: for each family the posterior mean of the variance of Z under a scaled inverse-χ² prior (Gelman et
// al., Bayesian Data Analysis, section 2.6) centred at what the other families say, and that under one centred at 1.
func (t *Table) scale() {
	for i := range t.Families {
		family := t.Families[i].Family
		own, others := t.deviations(func(f string) bool { return f == family }), t.deviations(func(f string) bool { return f != family })
		t.Families[i].Widen = factor(variance(own, variance(others, 1)), len(own))
	}
	all := t.deviations(func(string) bool { return true })
	t.All.Widen = factor(variance(all, 1), len(all))
}

// deviations are |Z| of the seconds of the families that are wanted.
func (t *Table) deviations(wanted func(family string) bool) []float64 {
	var out []float64
	for _, s := range t.Scores {
		if s.Quantity == Seconds && wanted(s.Family) {
			out = append(out, math.Abs(s.Z))
		}
	}
	return out
}

// variance is the posterior mean of the variance of deviations, each counted to far standard deviations: a fixed point, from
// the robust estimate by the median.
func variance(z []float64, prior float64) float64 {
	v := prior
	if len(z) > 0 {
		m := median(append([]float64(nil), z...)) / normal(0.75)
		v = max(prior, m*m)
	}
	for range 50 {
		sum := priorRuns * prior
		for _, x := range z {
			sum += min(x*x, far*far*v)
		}
		v = sum / float64(priorRuns+len(z))
	}
	return v
}

func factor(variance float64, n int) float64 {
	least := 1.0
	if n >= leastRuns {
		least = narrowest
	}
	return min(max(math.Sqrt(variance), least), widest)
}

// Widen is the factor on the log-width of the next interval of a family: above 1 when past intervals were too narrow,
// shrunk towards what the other families ask for, and that towards 1. It is below 1 only after twenty scored runs of the
// family (of all, for a family that was never scored), and always within 0.7…3. It is 1 when nothing was scored.
func (t *Table) Widen(family string) float64 {
	family = cmp.Or(family, unknown)
	for i := range t.Families {
		if t.Families[i].Family == family {
			return t.Families[i].Widen
		}
	}
	return t.All.Widen
}
