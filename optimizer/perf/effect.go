package perf

import (
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/resources"
)

// loading is the coefficient of a named standard normal effect in the log seconds of a segment.
type loading struct {
	name string
	by   float64
}

// loadings returns the loadings of an observation and the sum of its known offsets.
func loadings(o Observation) (out []loading, offset float64) {
	for _, e := range o.Effects {
		offset += e.Offset
		out = append(out, loading{e.Name, e.Level})
		if e.Slope != 0 {
			out = append(out, loading{e.Name + " by width", e.Slope * math.Log2(width(o.Allocation)/width(e.Reference))})
		}
	}
	return out, offset
}

// width returns the number of GPUs, or of CPUs for a job without GPUs.
func width(a resources.Allocation) float64 {
	if a.GPUs > 0 {
		return float64(a.GPUs)
	}
	return float64(max(a.CPUs, 1))
}

// sharedEffects returns the prior covariance of two segments due to effects with the same name.
func sharedEffects(a, b []loading) float64 {
	var sum float64
	for _, x := range a {
		for _, y := range b {
			if x.name == y.name {
				sum += x.by * y.by
			}
		}
	}
	return sum
}

// drawEffects draws all effects from their prior and returns their sum in each segment.
func (p *posterior) drawEffects(rng *rand.Rand) []float64 {
	var names []string
	var values []float64
	out := make([]float64, len(p.stretches))
	for i, s := range p.stretches {
		for _, l := range s.effects {
			k := slices.Index(names, l.name)
			if k < 0 {
				k, names, values = len(names), append(names, l.name), append(values, rng.NormFloat64())
			}
			out[i] += l.by * values[k]
		}
	}
	return out
}
