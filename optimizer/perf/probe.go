package perf

import (
	"cmp"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/resources"
)

// probe is an allocation worth measuring next, with the reason.
type probe struct {
	Allocation resources.Allocation
	// Gain is the expected decrease of the loss of the final choice; NaN while the ends and the middle of the range
	// are being measured.
	Gain   float64
	Reason string
}

// ProbeOptions tunes NextProbe. The zero value is useful.
type ProbeOptions struct {
	// Loss is the objective that the decision minimises, as a function of an allocation and its seconds per unit; it
	// must increase with the seconds. Nil means the logarithm of the seconds.
	Loss func(a resources.Allocation, secondsPerUnit float64) float64
	// Onward is the loss of moving to an allocation after the probe; nil means Loss, a move without cost.
	Onward func(a resources.Allocation, secondsPerUnit float64) float64
	// Without is the expected loss of the decision without another probe; nil means the minimum over Choices.
	Without *float64
	// Choices are the allocations available to the decision; nil means the candidates.
	Choices []resources.Allocation
	// MinGain is the minimum gain of a probe, in units of the loss; 0 means 0.01.
	MinGain float64
	// Cost is the cost of measuring at an allocation, in units of the loss; the gain of a probe must exceed it. With
	// a Cost, NextProbe skips the measurements at the far ends. Nil means no cost.
	Cost func(a resources.Allocation) float64
	// Units is the number of units that a probe will measure; 0 means 3.
	Units int
}

// NextProbe returns the candidate to measure next, or nil when no probe is worthwhile.
//
// Without a Cost, it first selects the far end of each knob (GPUs, then CPUs) from the first measurement, the other
// knobs unchanged, so that effects do not mix; with one knob also its geometric middle. These points fix the shape of
// any form. It then selects the candidate with the largest knowledge gradient with correlated beliefs (Frazier,
// Powell, Dayanik 2009): the expected decrease of the smallest expected loss after the measurement, less its cost,
// from the joint draws of the model. Candidates measured in the model or listed in measured are excluded.
//
// O(candidates × choices × draws) with at most 64 candidates and 128 choices.
func (m *Model) NextProbe(candidates, measured []resources.Allocation, o ProbeOptions) *probe {
	if m == nil || len(candidates) == 0 {
		return nil
	}
	o.MinGain = cmp.Or(o.MinGain, 0.01)
	if o.Units <= 0 {
		o.Units = 3
	}
	seen := make(map[point]bool)
	var points []point
	for _, a := range append(m.Measured(), measured...) {
		if p := m.pointer.at(a); !seen[p] {
			seen[p] = true
			points = append(points, p)
		}
	}
	if o.Cost == nil {
		if p := endpointProbe(m, candidates, points); p != nil {
			return p
		}
		o.Cost = func(resources.Allocation) float64 { return 0 }
	}
	return knowledgeGradient(m, thinned(candidates, 64), seen, o)
}

// endpointProbe selects the ends of the knobs, and the middle when only one knob varies and two points are measured. An
// end counts as measured when some point differs from the first one by at least a factor of 1.5 on that axis.
func endpointProbe(m *Model, candidates []resources.Allocation, points []point) *probe {
	ref := points[0]
	moving := 0
	for _, axis := range []int{1, 0} { // GPUs, CPUs
		var far resources.Allocation
		reach := math.Log2(1.5) - 1e-9
		done := false
		for _, p := range points {
			done = done || math.Abs(axisOctaves(ref, p, axis)) > reach
		}
		for _, a := range candidates {
			q := m.pointer.at(a)
			d := math.Abs(axisOctaves(ref, q, axis))
			if octaves(ref, q) < d+1e-9 && d > reach {
				far, reach = a, d
			}
		}
		if far.CPUs == 0 && !done {
			continue
		}
		moving++
		if !done {
			return &probe{far, math.NaN(), "the far end of the allowed range fixes the shape of the curve"}
		}
	}
	if moving != 1 || len(points) != 2 {
		return nil
	}
	return midpointProbe(m, candidates, points[0], points[1])
}

// midpointProbe returns the candidate between two points that is farthest from both, by at least a factor of 1.5; nil
// without one.
func midpointProbe(m *Model, candidates []resources.Allocation, p, q point) *probe {
	far := math.Log2(1.5) - 1e-9
	var best *probe
	for _, a := range candidates {
		x := m.pointer.at(a)
		if octaves(p, x)+octaves(x, q) > octaves(p, q)+1e-9 {
			continue
		}
		if d := min(octaves(p, x), octaves(x, q)); d > far+1e-9 {
			far, best = d, &probe{a, math.NaN(), "the middle of the range shows where the curve bends"}
		}
	}
	return best
}

// axisOctaves returns the doublings from p to q in CPUs (axis 0) or GPUs (axis 1).
func axisOctaves(p, q point, axis int) float64 {
	if axis == 0 {
		return math.Log2(q.cpus / p.cpus)
	}
	return math.Log2(max(q.gpus, 0.5) / max(p.gpus, 0.5))
}

// octaves returns the distance between two points: the sum of the doublings in each knob.
func octaves(p, q point) float64 {
	return math.Abs(math.Log2(p.cpus/q.cpus)) + math.Abs(math.Log2(max(p.gpus, 0.5)/max(q.gpus, 0.5))) + math.Abs(math.Log2(p.batch/q.batch))
}

// thinned returns at most n candidates, evenly spaced by position.
func thinned(all []resources.Allocation, n int) []resources.Allocation {
	if len(all) <= n {
		return all
	}
	out := make([]resources.Allocation, n)
	for i := range out {
		out[i] = all[i*(len(all)-1)/(n-1)]
	}
	return out
}

// knowledgeGradient returns the unmeasured candidate with the largest expected gain net of its cost, nil when no gain
// reaches MinGain or exceeds the cost. The value of a measurement is that of the best choice given its result; see
// expectedChoice.
func knowledgeGradient(m *Model, candidates []resources.Allocation, seen map[point]bool, o ProbeOptions) *probe {
	loss := o.Loss
	if loss == nil {
		loss = func(_ resources.Allocation, s float64) float64 { return math.Log(s) }
	}
	choices := o.Choices
	if choices == nil {
		choices = candidates
	}
	onward := o.Onward
	if onward == nil {
		onward = loss
	}
	var losses [][]float64
	best := math.Inf(1)
	for _, a := range thinned(choices, 128) {
		v := lossDraws(m.at(a).log, a, onward)
		losses = append(losses, v)
		best = min(best, stat.Mean(v))
	}
	if o.Without != nil {
		best = *o.Without
	}
	if math.IsNaN(best) || math.IsInf(best, 0) {
		return nil
	}
	var out *probe
	most := 0.0
	noise := math.Sqrt(m.probeNoise(o.Units))
	losses = append(losses, nil) // the last entry is for staying at the measured candidate
	for _, a := range candidates {
		if seen[m.pointer.at(a)] {
			continue
		}
		log := m.at(a).log
		losses[len(losses)-1] = lossDraws(log, a, loss)
		gain := best - expectedChoice(losses, sortedByMeasurement(log, noise))
		if net := gain - o.Cost(a); gain >= o.MinGain && net > most {
			most, out = net, &probe{a, gain, "measuring it is expected to improve the choice most, for what it costs"}
		}
	}
	return out
}

// sortedByMeasurement returns the draws in ascending order of a measurement of their log seconds with a standard
// deviation of noise.
func sortedByMeasurement(log []float64, noise float64) []int {
	const step = 0.6180339887498949 // golden ratio: a sequence of evenly spread quantiles
	order, measured := make([]int, len(log)), make([]float64, len(log))
	for k := range log {
		_, q := math.Modf((float64(k) + 0.5) * step)
		order[k], measured[k] = k, log[k]+noise*normalQuantile(q)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(measured[i], measured[j]) })
	return order
}

// measurementBins is the number of equally likely ranges of the result of a measurement.
const measurementBins = 8

// expectedChoice returns the expected loss of the best choice after a measurement, given the losses of each choice by
// draw and the order of the draws by the result. Draws with similar results are the belief after the measurement. In
// each half of them the choice is that of the other half, so that the selection is not optimistic.
func expectedChoice(losses [][]float64, order []int) float64 {
	n, total := len(order), 0.0
	for b := range measurementBins {
		bin := order[b*n/measurementBins : (b+1)*n/measurementBins]
		var chosen, least [2]float64
		for h := range least {
			least[h] = math.Inf(1)
		}
		for _, v := range losses {
			var sum [2]float64
			for i, k := range bin {
				sum[i%2] += v[k]
			}
			for h := range sum {
				if sum[h] < least[h] {
					least[h], chosen[h] = sum[h], sum[1-h]
				}
			}
		}
		total += chosen[0] + chosen[1]
	}
	return total / float64(n)
}

// lossDraws returns the losses for draws of the log seconds per unit at an allocation.
func lossDraws(log []float64, a resources.Allocation, loss func(resources.Allocation, float64) float64) []float64 {
	out := make([]float64, len(log))
	for k, l := range log {
		out[k] = loss(a, math.Exp(l))
	}
	return out
}

// probeNoise returns the variance of a segment of n units around the curve, in log space.
func (m *Model) probeNoise(n int) float64 {
	v := m.noise * m.noise / float64(n)
	for _, d := range m.draws {
		v += d.delta * d.delta / float64(len(m.draws))
	}
	return v
}
