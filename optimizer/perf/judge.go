package perf

import (
	"math"

	"trainopt/morl"
	"trainopt/resources"
)

// CriticEstimate is an agent's estimate of continuing at an allocation.
type CriticEstimate struct {
	AllocationOutlook
	// Value is the remaining run as the agent corrects the performance model: Potential plus the critics' value of
	// "no change", averaged over the critics. The order is that of Objectives.
	Value [4]float64
	// Spread is the standard deviation of Value over the critics.
	Spread [4]float64
	// Utility is preference · Value, by critic; Mean is its mean.
	Utility []float64
	Mean    float64
}

// CriticEstimates evaluates allocations and corrects the prediction of the performance model by the critics of an agent trained
// in a training environment. The preference has one weight per objective; stay is the index of the "no change"
// action. O(allocations × (draws + parameters)).
func (o *Outlook) CriticEstimates(v morl.Valuer, stay int, allocations []resources.Allocation, preference [4]float64) []CriticEstimate {
	w := make([]float32, len(preference))
	for i, x := range preference {
		w[i] = float32(x)
	}
	out := make([]CriticEstimate, len(allocations))
	state := make([]float32, StateSize)
	for k, a := range allocations {
		j := CriticEstimate{AllocationOutlook: o.OutlookAt(a)}
		for i, x := range j.State {
			state[i] = float32(x)
		}
		members := v.Values(morl.Observation{State: state}, w)
		n := float64(len(members))
		var square [4]float64
		for _, q := range members {
			u := 0.0
			for i := range j.Value {
				corrected := j.Potential[i] + float64(q[stay*len(w)+i])
				j.Value[i] += corrected / n
				square[i] += corrected * corrected / n
				u += preference[i] * corrected
			}
			j.Utility = append(j.Utility, u)
			j.Mean += u / n
		}
		for i := range square {
			j.Spread[i] = math.Sqrt(max(0, square[i]-j.Value[i]*j.Value[i]))
		}
		out[k] = j
	}
	return out
}

// AdvantageOver compares two judgements critic by critic. It returns the mean advantage of a over b and its standard
// deviation over the critics, +Inf for fewer than two.
func (a CriticEstimate) AdvantageOver(b CriticEstimate) (advantage, sd float64) {
	n := float64(len(a.Utility))
	for i := range a.Utility {
		advantage += (a.Utility[i] - b.Utility[i]) / n
	}
	for i := range a.Utility {
		d := a.Utility[i] - b.Utility[i] - advantage
		sd += d * d
	}
	if n < 2 {
		return advantage, math.Inf(1)
	}
	return advantage, math.Sqrt(sd / (n - 1))
}
