package run

import "trainopt/optimizer/plan"

// Trials returns the segments in the form required by the planner's rules for moves.
func (p *Progress) Trials() []plan.Trial {
	out := make([]plan.Trial, len(p.Segments))
	for i, s := range p.Segments {
		out[i] = plan.Trial{Allocation: s.Allocation, UnitSeconds: s.Blocks}
	}
	return out
}
