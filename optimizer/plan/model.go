package plan

import (
	"errors"
	"fmt"

	"trainopt/resources"
)

// Model plans with the performance model: the limits first, then the preference on the Pareto front.
type Model struct{}

var _ Planner = Model{}

// Name returns "model".
func (Model) Name() string { return "model" }

// errNothingPredicted is returned when no allowed allocation has a finite prediction.
var errNothingPredicted = errors.New("no allowed allocation has a finite prediction")

// Decide evaluates every allowed allocation. Without a model it returns the baseline and states so in the reason. It
// returns *Infeasible when no candidate meets the SLA with 95 % probability, and a plain error when no candidate can
// be predicted. O(candidates × draws).
func (p Model) Decide(s Snapshot) (Plan, error) {
	if s.Model == nil {
		return unpredicted(p.Name(), clip(s.Baseline, s), "nothing is measured yet: the user's own configuration"), nil
	}
	return newEvaluation(s).decide(p.Name())
}

// decide returns the plan for the choice of the preference.
func (b *evaluation) decide(planner string) (Plan, error) {
	chosen, back := b.choose()
	if chosen < 0 {
		return b.infeasible(planner, -1)
	}
	plan := b.plan(planner, chosen, b.reason(chosen))
	if j := back; j >= 0 {
		plan.Recourse = &b.cs[j].Allocation
		plan.Reason += fmt.Sprintf("; it meets the SLA with %.0f %% probability; if it does not, %s still can", 100*b.cs[chosen].Chance, b.cs[j].Allocation)
	}
	for i, preset := range presets { // keep the choice in its preset's option: it may be the current allocation
		if preset.Preference == b.preference && plan.Predicted {
			plan.Options[i] = b.option(preset.Name, chosen, chosen)
		}
	}
	return plan, nil
}

// unpredicted returns the plan of a planner without a model.
func unpredicted(planner string, a resources.Allocation, reason string) Plan {
	return Plan{Allocation: a, Planner: planner, Reason: reason, Binding: "none", Chosen: Candidate{Allocation: a}}
}
