package history

import (
	"cmp"
	"math"

	"trainopt/internal/stat"
	"trainopt/optimizer/journal"
)

const (
	// priorRuns is the weight of the prior on the width, as a number of runs.
	priorRuns = 10
	// maxDeviations bounds the contribution of one run, in (widened) standard deviations, so that an outlier does not widen
	// everything.
	maxDeviations = 3
	// minScoredRuns is the number of scored runs required before an interval is made narrower than the model's.
	minScoredRuns     = 20
	narrowest, widest = 0.7, 3.0
)

// setFactors sets the factors: for each family the posterior mean of the variance of the deviations under a scaled inverse-χ² prior
// (Gelman et al., Bayesian Data Analysis, section 2.6) centred at the variance of the other families, whose own prior
// is centred at 1.
func (t *Calibration) setFactors() {
	for i := range t.Families {
		family := t.Families[i].Family
		own, others := t.deviations(func(f string) bool { return f == family }), t.deviations(func(f string) bool { return f != family })
		t.Families[i].Widen = journal.Number(widenFactor(posteriorVariance(own, posteriorVariance(others, 1)), len(own)))
	}
	all := t.deviations(func(string) bool { return true })
	t.All.Widen = journal.Number(widenFactor(posteriorVariance(all, 1), len(all)))
}

// deviations returns the deviations of the seconds of the selected families: |Z| in standard deviations of the model,
// without the factor by which its interval was widened. The next factor applies to those, too.
func (t *Calibration) deviations(wanted func(family string) bool) []float64 {
	var out []float64
	for _, s := range t.Scores {
		if s.Quantity == QuantitySeconds && wanted(s.Family) {
			out = append(out, math.Abs(s.Z)*s.Widen)
		}
	}
	return out
}

// posteriorVariance returns the posterior mean of the variance of deviations, each clipped at maxDeviations standard deviations. It is
// computed by a fixed-point iteration that starts from the robust estimate by the median.
func posteriorVariance(z []float64, prior float64) float64 {
	v := prior
	if len(z) > 0 {
		m := stat.Median(z) / normalQuantile(0.75)
		v = max(prior, m*m)
	}
	for range 50 {
		sum := priorRuns * prior
		for _, x := range z {
			sum += min(x*x, maxDeviations*maxDeviations*v)
		}
		v = sum / float64(priorRuns+len(z))
	}
	return v
}

// widenFactor returns the standard deviation clipped to narrowest…widest, with a lower bound of 1 below minScoredRuns runs.
func widenFactor(variance float64, n int) float64 {
	least := 1.0
	if n >= minScoredRuns {
		least = narrowest
	}
	return min(max(math.Sqrt(variance), least), widest)
}

// Widen returns the factor for the log width of the next interval of a family: above 1 if past intervals were too
// narrow, shrunk towards the factor of the other families, and that towards 1. It is below 1 only after twenty scored
// runs of the family (of all families, for a family without scores), and always within 0.7…3. It is 1 if nothing was
// scored.
func (t *Calibration) Widen(family string) float64 {
	family = cmp.Or(family, unknownFamily)
	for i := range t.Families {
		if t.Families[i].Family == family {
			return float64(t.Families[i].Widen)
		}
	}
	return float64(t.All.Widen)
}
