// Package plan chooses the allocation of a training job. It enumerates the allowed allocations, predicts time, cost
// and resource use of the whole run for each with a perf.Model, checks them against the SLA, marks the Pareto front
// and selects the point that the preference favours. A plan contains the reason and the binding constraint as text.
//
// The package starts no job, measures nothing and reads no clock: Decide is a pure function of the Snapshot.
//
// Example:
//
//	preference, err := plan.ParsePreference("time=0.6,cost=0.4")
//	…
//	p, err := plan.Planners["model"].Decide(plan.Snapshot{Limits: limits, Spec: spec, Rates: rates,
//		Preference: preference, Model: model, Total: 100, Baseline: baseline})
//	var infeasible *plan.Infeasible
//	if errors.As(err, &infeasible) {
//		fmt.Println(infeasible.Why) // the limit, the excess, and the limits that would be feasible
//	}
package plan
