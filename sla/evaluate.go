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

const z95 = 1.6448536269514722 // standard normal quantile at 0.95

// Exceedance is the probability, 0…1, that a projected quantity breaks a limit: ends above a maximum, or below a minimum.
// The distribution is the two-piece normal through P5, P50 and P95 (half of the mass on each side of P50, each side with
// its own spread). NaN when the interval has a NaN.
func Exceedance(p Interval, limit float64, maximum bool) float64 {
	if !maximum {
		return Exceedance(mirror(p), -limit, true)
	}
	if math.IsNaN(p.P5 + p.P50 + p.P95 + limit) {
		return math.NaN()
	}
	low, high := spreads(p)
	switch d := limit - p.P50; {
	case d >= 0 && high == 0:
		return 0
	case d >= 0:
		return upperTail(d / high)
	case low == 0:
		return 1
	default:
		return upperTail(d / low)
	}
}

// ExpectedSeverity is the probability-aware severity: the expected relative excess (shortfall) over the limit,
// E[max(0, x − limit)]/limit, cut to 0…1, under the distribution of [Exceedance]. It is above 0 already while P50 is
// within the limit but P95 is not, so a decision maker can lean away from a limit before it is broken on average.
// NaN when the interval has a NaN or the limit is not positive.
func ExpectedSeverity(p Interval, limit float64, maximum bool) float64 {
	if !(limit > 0) || math.IsNaN(p.P5+p.P50+p.P95) {
		return math.NaN()
	}
	if (maximum && math.IsInf(p.P95, 1)) || (!maximum && math.IsInf(p.P5, -1)) {
		return 1
	}
	if maximum {
		return min(expectedExcess(p, limit)/limit, 1)
	}
	return min(expectedExcess(mirror(p), -limit)/limit, 1)
}

func mirror(p Interval) Interval { return Interval{P5: -p.P95, P50: -p.P50, P95: -p.P5} }

func spreads(p Interval) (low, high float64) {
	return max(0, p.P50-p.P5) / z95, max(0, p.P95-p.P50) / z95
}

func upperTail(z float64) float64 { return math.Erfc(z/math.Sqrt2) / 2 }
func density(z float64) float64   { return math.Exp(-z*z/2) / math.Sqrt(2*math.Pi) }

// expectedExcess is E[max(0, x − limit)] of the two-piece normal; each piece is a truncated-normal first moment.
func expectedExcess(p Interval, limit float64) float64 {
	low, high := spreads(p)
	if limit >= p.P50 {
		if high == 0 {
			return 0
		}
		z := (limit - p.P50) / high
		return max(0, high*(density(z)-z*upperTail(z)))
	}
	above := (p.P50-limit)/2 + high*density(0)
	if low == 0 {
		return above + (p.P50-limit)/2
	}
	z := (limit - p.P50) / low
	return above + low*(density(z)-density(0)-z*(upperTail(z)-0.5))
}
