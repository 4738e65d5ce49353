package sla

import "math"

// Measure is the state of one objective at one moment.
type Measure struct {
	// Value is the measurement so far in the unit of the objective: seconds since the start, USD spent, mean
	// throughput, peak memory, mean utilization. NaN or infinite means unknown.
	Value float64
	// Projected is the value at completion; nil if no projection exists. Unordered bounds are sorted. P95 may be
	// +Inf, for a run that may never finish; a NaN bound makes the projection unknown.
	Projected *Interval
	// Final is true once the run has ended: Value is then the outcome and Projected is ignored.
	Final bool
}

// Evaluate returns the verdict of every objective that has a limit, in the fixed order. An objective missing from m
// has no data and is unknown. The result does not depend on earlier calls.
//
// For maxima (time, cost, memory), which only grow:
//
//	violated  the value, or even the projected P5, exceeds the limit
//	at-risk   the projected P95 exceeds the limit
//	met       otherwise
//
// Without a projection, time and cost are unknown until the run has ended or the limit is exceeded, because a value
// below the limit during the run is no evidence. A projection below the current value is raised to it.
//
// For minima (throughput, utilization), whose running mean may move either way:
//
//	violated  the run has ended with the value below the limit, or even the projected P95 is below it
//	at-risk   the projected P5 is below the limit; without a projection, the running mean is
//	met       otherwise
//
// Severity is the relative excess or shortfall of the projected P50, or of the value if that is larger or if no
// projection exists: (x − limit)/limit for maxima, (limit − x)/limit for minima, clamped to 0…1; nil if unknown. It
// follows SLA-MORL, which evaluates the elapsed value instead.
func Evaluate(spec Spec, m map[Objective]Measure) []Verdict {
	verdicts := []Verdict{}
	for _, t := range targets {
		limit := t.get(spec)
		if !(limit > 0) {
			continue
		}
		v := Verdict{Objective: t.objective, Limit: limit, Unit: t.unit, Status: Unknown}
		if measure, ok := m[t.objective]; ok {
			t.judge(&v, measure)
		}
		verdicts = append(verdicts, v)
	}
	return verdicts
}

// judge sets the status, severity, value and projection of a verdict.
func (t target) judge(v *Verdict, m Measure) {
	value, known := m.Value, finite(m.Value)
	var p *Interval
	if !m.Final {
		p = t.usable(m.Projected, value)
	}
	if known {
		v.Value = &value
	}
	if p != nil && finite(p.P5) && finite(p.P50) && finite(p.P95) {
		v.Projected = p
	}
	if !known && p == nil {
		return
	}
	v.Status = t.status(v.Limit, value, known, p, m.Final)
	if v.Status == Unknown {
		return
	}
	severity := 0.0
	if p != nil {
		severity = t.excess(p.P50, v.Limit)
	}
	if known && (p == nil || !t.running) {
		severity = max(severity, t.excess(value, v.Limit))
	}
	v.Severity = &severity
}

// status compares the value and the ends of the projection with the limit, by the rules of Evaluate.
func (t target) status(limit, value float64, known bool, p *Interval, final bool) Status {
	beyond := func(x float64) bool { return t.excess(x, limit) > 0 }
	var best, worst float64 // the ends of the projection that are best and worst for this objective
	if p != nil {
		best, worst = p.P5, p.P95
		if !t.maximum {
			best, worst = worst, best
		}
	}
	switch {
	case known && beyond(value) && (final || !t.running):
		return Violated
	case final && known:
		return Met
	case p != nil && beyond(best):
		return Violated
	case p != nil && beyond(worst):
		return AtRisk
	case p != nil:
		return Met
	case t.projected:
		return Unknown
	case beyond(value):
		return AtRisk
	default:
		return Met
	}
}

// excess returns the relative amount by which x breaks the limit, clamped to 0…1; 0 if it does not or is NaN.
func (t target) excess(x, limit float64) float64 {
	e := (x - limit) / limit
	if !t.maximum {
		e = -e
	}
	switch {
	case math.IsInf(x, 1) && t.maximum:
		return 1
	case !(e > 0): // also NaN
		return 0
	}
	return min(e, 1)
}

// usable returns a sorted copy of a projection, raised to the current value if values only grow; nil if the
// projection is missing or has a NaN bound.
func (t target) usable(p *Interval, value float64) *Interval {
	if p == nil || math.IsNaN(p.P5) || math.IsNaN(p.P50) || math.IsNaN(p.P95) {
		return nil
	}
	q := *p
	if q.P5 > q.P50 {
		q.P5, q.P50 = q.P50, q.P5
	}
	if q.P50 > q.P95 {
		q.P50, q.P95 = q.P95, q.P50
	}
	if q.P5 > q.P50 {
		q.P5, q.P50 = q.P50, q.P5
	}
	if finite(value) && !t.running {
		q.P5, q.P50, q.P95 = max(q.P5, value), max(q.P50, value), max(q.P95, value)
	}
	return &q
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// Compliance returns the share of objectives that are met, 0…1: met counts 1, at-risk ½ and violated 0. No objective
// is at risk once the run has ended, so the final share is met/(met+violated). Unknown objectives are excluded; ok is
// false if no others exist.
func Compliance(verdicts []Verdict) (share float64, ok bool) {
	var kept float64
	var counted int
	for _, v := range verdicts {
		switch v.Status {
		case Met:
			kept++
		case AtRisk:
			kept += 0.5
		case Violated:
		default:
			continue
		}
		counted++
	}
	if counted == 0 {
		return 0, false
	}
	return kept / float64(counted), true
}
