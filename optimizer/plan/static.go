package plan

// Static keeps the baseline, clipped to the limits: the behaviour without an optimiser.
type Static struct{}

var _ Planner = Static{}

// Name returns "static".
func (Static) Name() string { return "static" }

// Decide returns the baseline. With a model, the baseline is predicted and checked like any other candidate, and
// *Infeasible is returned when no allowed allocation meets the SLA.
func (p Static) Decide(s Snapshot) (Plan, error) {
	return fixed(p.Name(), s, clip(s.Baseline, s), "the baseline, unchanged")
}
