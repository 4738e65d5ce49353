package analysis

import (
	"cmp"
	"math"
	"slices"
	"time"

	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// limitSummary contains the number of runs that meet given limits, and the violations.
type limitSummary struct {
	Terms []term `json:"terms"`
	// Broken contains the violations by limit, largest first.
	Broken []violation `json:"broken"`
}

// term is one limit evaluated over all runs.
type term struct {
	Objective sla.Objective `json:"objective"`
	Limit     page.Number   `json:"limit"`
	Unit      string        `json:"unit"`
	Met       int           `json:"met"`
	Violated  int           `json:"violated"`
	Unknown   int           `json:"unknown"` // not measured, or an unfinished run
	// Share is violated/(met+violated), 0…1; NaN when both are 0.
	Share page.Number `json:"share_violated"`
}

// violation is a limit missed by a run.
type violation struct {
	RunID     string        `json:"run_id"`
	Name      string        `json:"name"`
	Model     string        `json:"model"`
	Objective sla.Objective `json:"objective"`
	Limit     page.Number   `json:"limit"`
	Value     page.Number   `json:"value"`
	Unit      string        `json:"unit"`
	// OverPct is the excess over a maximum or the shortfall below a minimum, in percent of the limit; unlike the severity it is
	// not clipped.
	OverPct page.Number `json:"over_pct"`
}

// judge evaluates a run that has ended against limits and returns one verdict per limit, unknown when the run lacks
// the measurement. Throughput is that of the steady state; time and cost are those of the whole run. A failed or
// stopped run meets no limit: it misses it or its verdict is unknown ([sla.Unfinished]).
func (r *run) judge(limits sla.Spec) []sla.Verdict {
	m := map[sla.Objective]sla.Measure{}
	for objective, value := range map[sla.Objective]float64{sla.Time: r.Seconds, sla.Cost: r.USD, sla.Throughput: r.Speed,
		sla.Memory: r.PeakMemoryGiB, sla.GPUUtil: r.GPUUtil, sla.CPUUtil: r.CPUUtil} {
		m[objective] = sla.Measure{Value: value, Final: true}
	}
	if r.On.GPUs == 0 { // a minimum GPU utilization does not apply to a run without GPUs
		delete(m, sla.GPUUtil)
	}
	verdicts := sla.Evaluate(limits, m)
	if r.State == "failed" || r.State == "stopped" {
		return sla.Unfinished(verdicts, "")
	}
	return verdicts
}

// agreement evaluates all trainings against the limits. It returns nil without limits. Violations are sorted by limit
// and then by excess.
func agreement(list []training, limits sla.Spec) *limitSummary {
	agreed := limits.Agreed()
	if len(agreed) == 0 {
		return nil
	}
	a := &limitSummary{Broken: []violation{}}
	terms := map[sla.Objective]*term{}
	for _, o := range agreed {
		limit, _, unit, _ := limits.Limit(o)
		terms[o] = &term{Objective: o, Limit: page.Number(limit), Unit: unit}
	}
	for _, t := range list {
		for _, v := range t.Whole.judge(limits) {
			term := terms[v.Objective]
			switch v.Status {
			case sla.Met:
				term.Met++
			case sla.Violated:
				term.Violated++
				a.Broken = append(a.Broken, violation{RunID: t.Whole.ID, Name: t.Whole.name, Model: t.Whole.model, Objective: v.Objective,
					Limit: page.Number(v.Limit), Value: page.Number(*v.Value), Unit: v.Unit, OverPct: page.Number(math.Abs(100 * (*v.Value/v.Limit - 1)))})
			default:
				term.Unknown++
			}
		}
	}
	for _, o := range agreed {
		t := terms[o]
		t.Share = page.Number(float64(t.Violated) / float64(t.Met+t.Violated))
		a.Terms = append(a.Terms, *t)
	}
	slices.SortStableFunc(a.Broken, func(x, y violation) int {
		return cmp.Or(slices.Index(agreed, x.Objective)-slices.Index(agreed, y.Objective), cmp.Compare(y.OverPct, x.OverPct))
	})
	return a
}

// span returns the first and the last known start.
func span(list []training) (from, to time.Time) {
	for _, t := range list {
		at := t.Whole.At
		if at.IsZero() {
			continue
		}
		if from.IsZero() || at.Before(from) {
			from = at
		}
		if at.After(to) {
			to = at
		}
	}
	return from, to
}
