package perf

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/floats"

	"trainopt/internal/stat"
	"trainopt/resources"
	"trainopt/sla"
)

// Model predicts the duration of a unit of work at an allocation. It is created by Fit and safe for concurrent use; its
// predictions do not change.
type Model struct {
	form      string
	options   FitOptions
	observed  []Observation
	stretches []segment
	noise     float64
	samples   float64 // in the reference unit, 0 when unknown
	peak      float64
	pointer   pointer
	curve     form
	places    []point // distinct measured points
	draws     []draw
	waves     [features][]float64 // weights of the discrepancy by draw, tau included

	mu    sync.Mutex
	known map[point]*prediction // a decision evaluates each allocation several times
}

// prediction is the prediction at a point, by draw.
type prediction struct {
	log      []float64 // log seconds per unit without the drift of the remainder
	seconds  []float64 // per unit, as the mean over a long segment
	interval sla.Interval
}

// Draws returns posterior draws of the seconds per unit at an allocation, as the mean over a long segment. Every
// allocation has the same number of draws, and draw k belongs to the same posterior sample everywhere, so that
// allocations can be compared draw by draw. The order of the draws has no meaning.
func (m *Model) Draws(a resources.Allocation) []float64 { return slices.Clone(m.at(a).seconds) }

// at returns the prediction at an allocation.
func (m *Model) at(a resources.Allocation) *prediction {
	p := m.pointer.at(a)
	m.mu.Lock()
	defer m.mu.Unlock()
	x := m.known[p]
	if x == nil {
		x = m.predict(p)
		m.known[p] = x
	}
	return x
}

// predict computes the prediction at a point.
func (m *Model) predict(p point) *prediction {
	x := &prediction{log: m.logDraws(p)}
	x.seconds = slices.Clone(x.log)
	extra := m.drift(p)
	for k := range x.seconds {
		d := &m.draws[k]
		x.seconds[k] += d.drift * math.Hypot(d.delta, extra)
	}
	m.widen(x.seconds)
	for k, log := range x.seconds {
		x.seconds[k] = math.Exp(log)
	}
	x.interval = sla.Quantiles(slices.Clone(x.seconds))
	return x
}

// widen scales the distance of log draws from their median by FitOptions.Widen.
func (m *Model) widen(log []float64) {
	w := m.options.Widen
	if w <= 0 || w == 1 {
		return
	}
	middle := sla.Quantiles(slices.Clone(log)).P50
	for k := range log {
		log[k] = middle + w*(log[k]-middle)
	}
}

// DrawAt returns draw k of Draws.
func (m *Model) DrawAt(a resources.Allocation, k int) float64 { return m.at(a).seconds[k] }

// placeOf returns the index of a measured point, -1 when it was not measured.
func (m *Model) placeOf(p point) int { return slices.Index(m.places, p) }

// drift returns the additional drift at a point that exchanges gradients between nodes and was not measured in this
// run.
func (m *Model) drift(p point) float64 {
	if across(p, m.options.GPUsPerNode) && !slices.ContainsFunc(m.stretches, func(s segment) bool { return !s.recalled && m.pointer.at(s.at) == p }) {
		return acrossDrift
	}
	return 0
}

// logDraws returns the draws of the log seconds per unit without the drift of the remainder.
func (m *Model) logDraws(p point) []float64 {
	phi, place := feature(p), m.placeOf(p)
	out := make([]float64, len(m.draws))
	for i, x := range phi {
		floats.AddScaled(out, x, m.waves[i])
	}
	for k, discrepancy := range out {
		d := &m.draws[k]
		out[k] = d.level + m.curve.logShape(d.nat, p) + discrepancy
		switch {
		case place >= 0:
			out[k] += d.own[place]
		case p.chosen():
			out[k] += d.pools
		}
	}
	return out
}

// UnitSeconds returns the predicted mean seconds per unit over a long segment at an allocation.
func (m *Model) UnitSeconds(a resources.Allocation) sla.Interval { return m.at(a).interval }

// UnitNoise returns the relative standard deviation of a single unit around the mean of its segment.
func (m *Model) UnitNoise() float64 { return m.noise }

// UnitSamples returns the number of training samples in a unit of this model, 0 when unknown.
func (m *Model) UnitSamples() float64 { return m.samples }

// PeakMemoryGiB returns the largest measured peak memory, NaN without a measurement.
func (m *Model) PeakMemoryGiB() float64 { return m.peak }

// Throughput returns the predicted samples/s, or units/s when the samples per unit are unknown.
func (m *Model) Throughput(a resources.Allocation) sla.Interval {
	per := cmp.Or(m.samples, 1)
	t := m.UnitSeconds(a)
	return sla.Interval{P5: per / t.P95, P50: per / t.P50, P95: per / t.P5}
}

// Measured returns the distinct measured allocations (as points of the curve), in order of measurement, inferred ones
// excluded.
func (m *Model) Measured() []resources.Allocation {
	var out []resources.Allocation
	for i, s := range m.stretches {
		if !s.inferred && !slices.ContainsFunc(m.stretches[:i], func(t segment) bool { return !t.inferred && m.samePoint(t.at, s.at) }) {
			out = append(out, s.at)
		}
	}
	return out
}

func (m *Model) samePoint(a, b resources.Allocation) bool { return m.pointer.at(a) == m.pointer.at(b) }

// Extrapolates reports whether an allocation lies outside the measured range of any knob.
func (m *Model) Extrapolates(a resources.Allocation) bool {
	p := m.pointer.at(a)
	lo, hi := [3]float64{math.Inf(1), math.Inf(1), math.Inf(1)}, [3]float64{}
	for _, s := range m.stretches {
		if s.inferred {
			continue
		}
		q := m.pointer.at(s.at)
		for i, v := range [3]float64{q.cpus, q.gpus, q.batch} {
			lo[i], hi[i] = min(lo[i], v), max(hi[i], v)
		}
	}
	for i, v := range [3]float64{p.cpus, p.gpus, p.batch} {
		if v < lo[i]*(1-1e-9) || v > hi[i]*(1+1e-9) {
			return true
		}
	}
	return false
}

// Describe returns the name of the form, its fitted parameters (posterior medians, including the relative scales
// "delta" and "unit_noise" and, where set, "widen") and a description of the evidence.
func (m *Model) Describe() (formName string, params map[string]float64, basis string) {
	params = map[string]float64{"unit_noise": m.noise}
	for i, q := range m.curve.parameters() {
		v := make([]float64, len(m.draws))
		for k := range m.draws {
			v[k] = m.draws[k].nat[i]
		}
		params[q.name] = stat.Median(v)
	}
	delta := make([]float64, len(m.draws))
	for k := range m.draws {
		delta[k] = m.draws[k].delta
	}
	params["delta"] = stat.Median(delta)
	if m.options.Widen > 0 {
		params["widen"] = m.options.Widen
	}
	recalled, measured, inferred := 0, 0, 0
	for _, s := range m.stretches {
		switch {
		case s.inferred:
			inferred++
		case s.recalled:
			recalled++
		}
	}
	for _, o := range m.observed {
		if !o.Inferred {
			measured += len(cleanUnits(o.UnitSeconds)) // each of one unit or of several short ones
		}
	}
	basis = fmt.Sprintf("%s at %s", count(measured, "measurement"), count(len(m.Measured()), "allocation"))
	if recalled > 0 {
		basis += fmt.Sprintf(", %d of %s from earlier runs", recalled, count(len(m.stretches)-inferred, "segment"))
	}
	if inferred > 0 {
		basis += fmt.Sprintf(", and a prior from other trainings at %s", count(inferred, "allocation"))
	}
	if slices.ContainsFunc(m.stretches, func(s segment) bool { return s.used != (Utilization{}) }) {
		basis += ", utilization included"
	}
	if w := m.options.Widen; w > 0 && w != 1 {
		basis += fmt.Sprintf("; intervals widened ×%.2f after earlier predictions", w)
	}
	return m.form, params, basis
}

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
