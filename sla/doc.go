// Package sla holds the agreement for one training run and judges it: what was agreed ([Spec]), how each term
// stands ([Evaluate], on the projection to completion and not on what has merely elapsed), what a log says
// of it afterwards ([Violations]), what to agree on when there is only history ([Forecast]), and when a run
// must be stopped because its money or time is used up ([Guard]).
//
// It is not a monitor and not a planner: it reads no files, no clock and no job, and it changes nothing. All of it
// is pure; callers bring the numbers and act on the answers. Money is in USD, time in seconds or
// time.Duration, memory in GiB, utilisation in percent.
//
// A term that is zero in a Spec is not agreed: it has no verdict and stops nothing. A measurement that nobody made is
// NaN: its verdict is [Unknown], never [Met].
//
//	spec := sla.Spec{TimeMax: 2 * time.Hour, CostMaxUSD: 10}
//	verdicts := sla.Evaluate(spec, map[sla.Objective]sla.Measure{
//		sla.Time: {Value: 1800, Projected: &sla.Interval{P5: 6000, P50: 6800, P95: 7700}}, // at-risk
//		sla.Cost: {Value: 2.1, Projected: &sla.Interval{P5: 7, P50: 8, P95: 9}},           // met
//	})
package sla
