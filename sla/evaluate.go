package sla

import "math"

// Measure is what is known of one objective at one moment.
type Measure struct {
	// Value is what was measured so far, in the unit of the objective: seconds since the start, USD spent, mean
	// throughput, peak memory, mean utilisation. NaN (or infinite) is unknown.
	Value float64
	// Projected is the value at completion; nil when it cannot be projected. Bounds that are out of order are sorted;
	// P95 may be +Inf (it may never finish); a NaN bound makes it unknown.
	Projected *Interval
	// Final says that the run is over: Value is then the outcome and Projected is not looked at.
	Final bool
}

// Evaluate judges every agreed objective, in the fixed order; those not agreed have no verdict. An agreed objective
// missing from m has no data and is unknown. Nothing is carried over from earlier calls.
//
// For maxima (time, cost, memory), which only grow:
//
//	violated  the value exceeds the limit already, or even the projected P5 does
//	at-risk   the projected P95 exceeds the limit
//	met       otherwise
//
// Time and cost without a projection are unknown until the run is over or the limit is passed: to be within the
// limit in the middle of a run says nothing. A projection below what is used already is lifted to it.
//
// For minima (throughput, utilisation), whose running mean can still move either way:
//
//	violated  the run is over and the value is below the limit, or even the projected P95 is
//	at-risk   the projected P5 is below the limit; without a projection, the running mean is
//	met       otherwise
//
// Severity is the relative excess (shortfall) of the projected P50, or of the value when it is larger or when there is no
// projection: (x − limit)/limit for maxima, (limit − x)/limit for minima, cut to 0…1; nil when unknown
// (specs of the ancestor: SLA-MORL, there judged on the elapsed value). See [ExpectedSeverity] for the variant that
// also counts how likely the excess is.
func Evaluate(spec Spec, m map[Objective]Measure) []Verdict {
	verdicts := []Verdict{}
	for _, t := range terms {
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

func (t term) judge(v *Verdict, m Measure) {
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

func (t term) status(limit, value float64, known bool, p *Interval, final bool) Status {
	beyond := func(x float64) bool { return t.excess(x, limit) > 0 }
	var best, worst float64 // the projected ends, best and worst for this objective
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

// excess is the relative amount by which x breaks the limit, cut to 0…1; 0 when it does not.
func (t term) excess(x, limit float64) float64 {
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

// usable returns a sorted copy of a projection, lifted to what is used already where values only grow; nil when
// it holds nothing to judge on.
func (t term) usable(p *Interval, value float64) *Interval {
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

// Compliance is the share of the agreed objectives that are kept, 0…1: met counts 1, at-risk ½ (it may go either
// way; none is left when the run is over, so the final share is plainly met/(met+violated)), violated 0. Unknown
// is not counted, neither as kept nor as broken; ok is false when nothing is left to count.
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
