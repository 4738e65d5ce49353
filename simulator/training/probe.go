package training

import (
	"math"

	"trainopt/resources"
)

// Probe is an allocation worth measuring next, and why.
type Probe struct {
	Allocation resources.Allocation
	// Gain is the expected decrease of the loss of the final choice, as a fraction of its present value; NaN while
	// the ends and the middle of the range are still being measured.
	Gain   float64
	Reason string
}

// ProbeOptions tunes NextProbe; the zero value is useful.
type ProbeOptions struct {
	// Loss is what the decision wants small, as a function of an allocation and its seconds per unit; it must
	// increase with the seconds. Nil means the seconds themselves.
	Loss func(a resources.Allocation, secondsPerUnit float64) float64
	// Allowed says which candidates may be chosen in the end; nil allows all.
	Allowed func(a resources.Allocation) bool
	// MinGain is the least relative gain worth a probe; 0 means 0.01.
	MinGain float64
	// Units is how many units a probe will measure; 0 means 3.
	Units int
}

// NextProbe says which candidate to measure next, or nil when nothing is worth it. First the far end of the range
// from what was measured, then its geometric middle; these two fix the shape of any form. Then the candidate
// with the largest knowledge gradient with correlated beliefs (Frazier, Powell, Dayanik 2009): the expected decrease
// of the smallest expected loss once it is measured, from the joint draws of the model. O(candidates² × draws).
func NextProbe(m *Model, candidates, measured []resources.Allocation, o ProbeOptions) *Probe {
	if m == nil || len(candidates) == 0 {
		return nil
	}
	if o.MinGain == 0 {
		o.MinGain = 0.01
	}
	if o.Units <= 0 {
		o.Units = 3
	}
	seen := make(map[point]bool)
	var points []point
	for _, a := range append(append([]resources.Allocation{}, m.Measured()...), measured...) {
		if p := m.pointer.at(a); !seen[p] {
			seen[p] = true
			points = append(points, p)
		}
	}
	if a, why := spreading(m, candidates, points); why != "" {
		return &Probe{a, math.NaN(), why}
	}
	return knowledgeGradient(m, thinned(candidates, 64), seen, o)
}

// spreading picks the far end with one point measured, and the middle with two, when it is at least a factor 1.5
// from what was measured.
func spreading(m *Model, candidates []resources.Allocation, points []point) (best resources.Allocation, why string) {
	if len(points) == 0 || len(points) > 2 {
		return best, ""
	}
	far := 0.0
	for _, a := range candidates {
		q, nearest := m.pointer.at(a), math.Inf(1)
		for _, p := range points {
			nearest = min(nearest, octaves(p, q))
		}
		if len(points) == 2 && octaves(points[0], q)+octaves(points[1], q) > 1.5*octaves(points[0], points[1])+1e-9 {
			continue // not between the two
		}
		if nearest > far+1e-9 {
			far, best = nearest, a
		}
	}
	if far < math.Log2(1.5) {
		return best, ""
	}
	if len(points) == 1 {
		return best, "the far end of the allowed range fixes the shape of the curve"
	}
	return best, "the middle of the range shows where the curve bends"
}

// octaves is the distance between two points: the sum of the doublings in each knob.
func octaves(p, q point) float64 {
	return math.Abs(math.Log2(p.cpus/q.cpus)) + math.Abs(math.Log2(max(p.gpus, 0.5)/max(q.gpus, 0.5))) + math.Abs(math.Log2(p.batch/q.batch))
}

// thinned keeps at most n candidates, evenly by position.
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

func knowledgeGradient(m *Model, candidates []resources.Allocation, seen map[point]bool, o ProbeOptions) *Probe {
	loss := o.Loss
	if loss == nil {
		loss = func(_ resources.Allocation, s float64) float64 { return s }
	}
	var logs, losses [][]float64
	var mean []float64
	best := math.Inf(1)
	for _, a := range candidates {
		l := m.logDraws(a)
		logs = append(logs, l)
		if o.Allowed != nil && !o.Allowed(a) {
			continue
		}
		v := make([]float64, len(l))
		for k := range l {
			v[k] = loss(a, math.Exp(l[k]))
		}
		losses, mean = append(losses, v), append(mean, average(v))
		best = min(best, mean[len(mean)-1])
	}
	if len(losses) == 0 || math.IsNaN(best) {
		return nil
	}
	var out *Probe
	slope := make([]float64, len(losses))
	for i, a := range candidates {
		if seen[m.pointer.at(a)] {
			continue
		}
		variance := covariance(logs[i], logs[i])
		for j := range losses {
			slope[j] = covariance(losses[j], logs[i]) / math.Sqrt(variance+m.probeNoise(o.Units))
		}
		gain := (best - expectedMinimum(mean, slope)) / math.Abs(best)
		if gain >= o.MinGain && (out == nil || gain > out.Gain) {
			out = &Probe{a, gain, "measuring it is expected to improve the choice most"}
		}
	}
	return out
}

// probeNoise is the variance of a stretch of n units around the curve, in log space.
func (m *Model) probeNoise(n int) float64 {
	v := m.noise * m.noise / float64(n)
	for _, d := range m.draws {
		v += d.delta * d.delta / float64(len(m.draws))
	}
	return v
}

// expectedMinimum is E[min_j mean_j + slope_j Z] for a standard normal Z, by 15 equally likely values of Z.
func expectedMinimum(mean, slope []float64) float64 {
	const n = 15
	var sum float64
	for k := range n {
		z := normalQuantile((float64(k) + 0.5) / n)
		low := math.Inf(1)
		for j := range mean {
			low = min(low, mean[j]+slope[j]*z)
		}
		sum += low / n
	}
	return sum
}

func average(v []float64) float64 {
	var s float64
	for _, x := range v {
		s += x
	}
	return s / float64(len(v))
}

func covariance(a, b []float64) float64 {
	ma, mb := average(a), average(b)
	var s float64
	for i := range a {
		s += (a[i] - ma) * (b[i] - mb)
	}
	return s / float64(len(a)-1)
}
