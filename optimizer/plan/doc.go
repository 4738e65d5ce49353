// Package plan chooses the allocation of a training job: it lists what is allowed, predicts time, cost and resource
// use of the whole run for each with a perf.Model, checks them against the agreement, marks the Pareto front,
// and selects the point that the preference asks for, with the reason and the binding constraint in words.
//
// It starts nothing and measures nothing, and reads no clock: Decide is a pure function of the Snapshot.
//
// Example:
//
//	preference, err := plan.ParsePreference("time=0.6,cost=0.4")
//	…
//	p, err := plan.Planners["model"].Decide(plan.Snapshot{Limits: limits, Spec: spec, Rates: rates,
//		Preference: preference, Model: model, Total: 100, Baseline: own})
//	var no *plan.Infeasible
//	if errors.As(err, &no) {
//		fmt.Println(no.Why) // which limit, by how much, and what would be feasible
//	}
package plan
