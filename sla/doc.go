// Package sla represents the limits of one training run and evaluates them: the limits ([Spec]), the status of each
// one during and after the run ([Evaluate], based on the projection to completion rather than on elapsed values), the
// evaluation of a finished training log ([violations]), limits derived from earlier runs ([Forecast]), and the stop
// of a run whose budget or deadline is used up ([Guard]).
//
// The package neither monitors nor plans. All of it is pure: it reads no files, clock or processes and has no side
// effects; callers supply the measurements and act on the results. Money is in USD, time in seconds or time.Duration,
// memory in GiB, utilization in percent.
//
// A zero limit in a Spec is not set: it has no verdict and stops nothing. A missing measurement is NaN: its verdict
// is [Unknown], never [Met].
//
//	spec := sla.Spec{TimeMax: 2 * time.Hour, CostMaxUSD: 10}
//	verdicts := sla.Evaluate(spec, map[sla.Objective]sla.Measure{
//		sla.Time: {Value: 1800, Projected: &sla.Interval{P5: 6000, P50: 6800, P95: 7700}}, // at-risk
//		sla.Cost: {Value: 2.1, Projected: &sla.Interval{P5: 7, P50: 8, P95: 9}},           // met
//	})
package sla
