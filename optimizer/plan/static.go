package plan

// Static keeps the user's own configuration, clipped to the limits: what happens without an optimiser.
type Static struct{}

var _ Planner = Static{}

// Name is "static".
func (Static) Name() string { return "static" }

// Decide returns the baseline. With a model it is predicted and judged like any other choice, and *Infeasible is
// returned when no allowed allocation meets the agreement.
func (p Static) Decide(s Snapshot) (Plan, error) {
	return fixed(p.Name(), s, clip(s.Baseline, s), "the baseline, unchanged")
}
