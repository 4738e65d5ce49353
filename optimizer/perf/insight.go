package perf

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"

	"trainopt/resources"
	"trainopt/sla"
)

// check is a leave-one-out test of the model: the prediction for an allocation from the other measurements, and the
// measurement there. Both are mean seconds per unit of the measured segment. A calibrated model has Measured within
// P5…P95 in nine cases of ten.
type check struct {
	Allocation resources.Allocation `json:"allocation"`
	Predicted  sla.Interval         `json:"predicted"`
	Measured   float64              `json:"measured"`
}

// LeaveOneOut predicts each measured allocation from the others, with one fit per allocation. It returns nil when
// fewer than two allocations were measured.
func (m *Model) LeaveOneOut() []check {
	measured := m.Measured()
	if len(measured) < 2 {
		return nil
	}
	var checks []check
	for _, a := range measured {
		var rest []Observation
		for _, o := range m.observed {
			if !m.samePoint(o.Allocation, a) {
				rest = append(rest, o)
			}
		}
		o := m.options
		o.Form = m.form
		without, err := Fit(rest, o)
		if err != nil {
			continue
		}
		mean, n := m.measuredAt(a)
		if m.samples > 0 && without.samples > 0 {
			mean *= without.samples / m.samples
		}
		checks = append(checks, check{a, without.segmentSeconds(a, n), mean})
	}
	return checks
}

// measuredAt returns the mean seconds per unit measured at an allocation and its number of units n.
func (m *Model) measuredAt(a resources.Allocation) (mean, n float64) {
	for _, s := range m.stretches {
		if !s.inferred && m.samePoint(s.at, a) {
			mean += s.n * s.logMean
			n += s.n
		}
	}
	return math.Exp(mean / n), n
}

// segmentSeconds is UnitSeconds for the mean of a segment of n units, including their noise.
func (m *Model) segmentSeconds(a resources.Allocation, n float64) sla.Interval {
	v := m.Draws(a)
	rng := rand.New(rand.NewPCG(m.options.Seed, 0xda942042e4dd58b5))
	for k, e := range stratifiedNormals(len(v), rng) {
		v[k] *= math.Exp(e * m.noise / math.Sqrt(n))
	}
	return sla.Quantiles(v)
}

// knob is a dimension of the allocation that a script may ignore.
type knob struct {
	name, many string
	verdict    string // text when it has no effect
	value      func(resources.Allocation) int
}

var knobs = []knob{
	{"cpus", "CPUs", "the script seems to ignore the CPU count", func(a resources.Allocation) int { return a.CPUs }},
	{"gpus", "GPUs", "the script seems to ignore the GPU count", func(a resources.Allocation) int { return a.GPUs }},
	{"batch_size", "samples per batch", "the script seems to ignore the batch size, or its speed does not depend on it", func(a resources.Allocation) int { return a.BatchSize }},
}

// IgnoredKnobs describes the knobs without a measurable effect although the measurements suffice to detect a fifth of
// perfect scaling, such as "cpus: 2 → 1 CPUs changed the speed by 1 % ± 3 %: the script seems to ignore the CPU
// count". It compares the widest pair of measured allocations that differ in that knob only.
func (m *Model) IgnoredKnobs() []string {
	var out []string
	measured := m.Measured()
	for k, kn := range knobs {
		a, b, ok := m.widestPair(measured, k)
		if !ok {
			continue
		}
		mean, half := m.logRatio(a, b)
		perfect := math.Log(float64(kn.value(a)) / float64(max(kn.value(b), 1)))
		if kn.value(b) == 0 || math.Abs(mean) > half+0.02 || math.Abs(mean)+half > 0.2*perfect {
			continue
		}
		out = append(out, fmt.Sprintf("%s: %d → %d %s changed the speed by %.0f %% ± %.0f %%: %s",
			kn.name, kn.value(a), kn.value(b), kn.many, 100*math.Abs(math.Expm1(-mean)), 100*half, kn.verdict))
	}
	return out
}

// widestPair returns two measured allocations, the larger first, that differ in knob k only.
func (m *Model) widestPair(measured []resources.Allocation, k int) (more, fewer resources.Allocation, ok bool) {
	best := 1.0
	for _, a := range measured {
		for _, b := range measured {
			same := true
			for j, other := range knobs {
				if j != k && other.value(a) != other.value(b) {
					same = false
				}
			}
			if hi, lo := float64(knobs[k].value(a)), float64(knobs[k].value(b)); same && hi > lo && hi/max(lo, 0.5) > best {
				best, more, fewer, ok = hi/max(lo, 0.5), a, b, true
			}
		}
	}
	return more, fewer, ok
}

// logRatio returns the mean and the half-width of the 90 % interval of log(seconds at b / seconds at a), including
// the uncertainty due to the drift of each segment.
func (m *Model) logRatio(a, b resources.Allocation) (mean, half float64) {
	ratio := slices.Clone(m.at(b).log)
	floats.Sub(ratio, m.at(a).log)
	q := sla.Quantiles(ratio)
	return q.P50, (q.P95 - q.P5) / 2
}
