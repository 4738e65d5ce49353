package perf

import (
	"fmt"
	"math"
	"slices"

	"trainopt/resources"
	"trainopt/sla"
)

// Model predicts how long a unit of work takes at an allocation. Make one with Fit; it does not change afterwards
// and may be used by several goroutines.
type Model struct {
	form      string
	options   FitOptions
	observed  []Observation
	stretches []stretch
	noise     float64
	samples   float64 // in the reference unit, 0 when unknown
	peak      float64
	pointer   pointer
	ref       point
	curve     form
	places    []point // measured
	draws     []draw
}

// Draws are posterior draws of the seconds per unit at an allocation, as the mean over a long stretch. Every
// allocation gets the same number, and draw k belongs to the same state of the world everywhere, so that two
// allocations are compared draw by draw. The order of the draws means nothing.
func (m *Model) Draws(a resources.Allocation) []float64 {
	out := m.logDraws(a)
	extra := m.drift(m.pointer.at(a))
	for k := range out {
		d := &m.draws[k]
		out[k] += d.drift * math.Hypot(d.delta, extra)
	}
	m.widen(out)
	for k := range out {
		out[k] = math.Exp(out[k])
	}
	return out
}

// widen moves each draw of a logarithm away from their median by the factor that earlier predictions ask for.
func (m *Model) widen(log []float64) {
	w := m.options.Widen
	if w <= 0 || w == 1 {
		return
	}
	middle := quantiles(slices.Clone(log)).P50
	for k := range log {
		log[k] = middle + w*(log[k]-middle)
	}
}

// drawAt is draw k of Draws.
func (m *Model) DrawAt(a resources.Allocation, k int) float64 {
	if m.options.Widen > 0 && m.options.Widen != 1 {
		return m.Draws(a)[k]
	}
	p, d := m.pointer.at(a), &m.draws[k]
	phi := feature(p)
	return math.Exp(m.logAt(d, p, &phi, m.placeOf(p)) + d.drift*math.Hypot(d.delta, m.drift(p)))
}

// placeOf is the index of a measured point, -1 when it is not measured.
func (m *Model) placeOf(p point) int { return slices.Index(m.places, p) }

// logAt is log seconds per unit of one draw at a point, given its features and place.
func (m *Model) logAt(d *draw, p point, phi *[features]float64, place int) float64 {
	log := d.level + m.curve.logShape(d.nat, p) + dot(phi, &d.waves)
	switch {
	case place >= 0:
		log += d.own[place]
	case p.chosen():
		log += d.pools
	}
	return log
}

// drift is the further drift at a point where gradients are exchanged between nodes and this run was not timed.
func (m *Model) drift(p point) float64 {
	if across(p, m.options.GPUsPerNode) && !m.timedAt(p) {
		return acrossDrift
	}
	return 0
}

// timedAt reports whether this run itself was timed at a point.
func (m *Model) timedAt(p point) bool {
	return slices.ContainsFunc(m.stretches, func(s stretch) bool { return !s.recalled && m.pointer.at(s.at) == p })
}

// logDraws are log seconds per unit without the drift of the remainder.
func (m *Model) logDraws(a resources.Allocation) []float64 {
	p := m.pointer.at(a)
	phi, place := feature(p), m.placeOf(p)
	out := make([]float64, len(m.draws))
	for k := range m.draws {
		out[k] = m.logAt(&m.draws[k], p, &phi, place)
	}
	return out
}

// UnitSeconds is the predicted mean seconds per unit over a long stretch at an allocation.
func (m *Model) UnitSeconds(a resources.Allocation) sla.Interval { return quantiles(m.Draws(a)) }

// UnitNoise is the relative standard deviation of a single unit around the mean of its stretch.
func (m *Model) UnitNoise() float64 { return m.noise }

// UnitSamples is the number of training samples in a unit of this model, 0 when unknown.
func (m *Model) UnitSamples() float64 { return m.samples }

// PeakMemoryGiB is the largest peak memory measured, NaN when none was.
func (m *Model) PeakMemoryGiB() float64 { return m.peak }

// Throughput is predicted samples/s where samples per unit are known, else units/s.
func (m *Model) Throughput(a resources.Allocation) sla.Interval {
	per := m.samples
	if per == 0 {
		per = 1
	}
	t := m.UnitSeconds(a)
	return sla.Interval{P5: per / t.P95, P50: per / t.P50, P95: per / t.P5}
}

// Measured lists the distinct allocations (as the curve sees them) that were measured, in order of measurement.
func (m *Model) Measured() []resources.Allocation {
	var out []resources.Allocation
	for i, s := range m.stretches {
		if !slices.ContainsFunc(m.stretches[:i], func(t stretch) bool { return m.samePoint(t.at, s.at) }) {
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

// Describe names the form, its fitted parameters (posterior medians; relative scales "tau", "delta" and "unit_noise"
// included) and what they are based on, in words.
func (m *Model) Describe() (formName string, params map[string]float64, basis string) {
	params = map[string]float64{"unit_noise": m.noise}
	for i, q := range m.curve.parameters() {
		v := make([]float64, len(m.draws))
		for k := range m.draws {
			v[k] = m.draws[k].nat[i]
		}
		params[q.name] = median(v)
	}
	delta := make([]float64, len(m.draws))
	for k := range m.draws {
		delta[k] = m.draws[k].delta
	}
	params["delta"] = median(delta)
	if m.options.Widen > 0 {
		params["widen"] = m.options.Widen
	}
	recalled, units := 0, 0
	for _, s := range m.stretches {
		if s.recalled {
			recalled++
		}
	}
	for _, o := range m.observed {
		units += len(cleanUnits(o.UnitSeconds))
	}
	basis = fmt.Sprintf("%s at %s", count(units, "unit"), count(len(m.Measured()), "allocation"))
	if recalled > 0 {
		basis += fmt.Sprintf(", %d of %s from earlier runs", recalled, count(len(m.stretches), "stretch"))
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
	if noun == "stretch" {
		return fmt.Sprintf("%d stretches", n)
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// quantiles sorts its argument and returns the 5th, 50th and 95th percentile (linear between order statistics).
func quantiles(v []float64) sla.Interval {
	slices.Sort(v)
	return sla.Interval{P5: quantile(v, 0.05), P50: quantile(v, 0.50), P95: quantile(v, 0.95)}
}

func quantile(sorted []float64, q float64) float64 {
	h := q * float64(len(sorted)-1)
	i := int(h)
	if i+1 >= len(sorted) {
		return sorted[len(sorted)-1]
	}
	return sorted[i] + (h-float64(i))*(sorted[i+1]-sorted[i])
}
