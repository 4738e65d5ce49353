package run

import "trainopt/optimizer/plan"

// Trials are the segments as the planner's rules of moving see them.
func (p *Progress) Trials() []plan.Trial {
	out := make([]plan.Trial, len(p.Segments))
	for i, s := range p.Segments {
		out[i] = plan.Trial{Allocation: s.Allocation, UnitSeconds: s.Blocks}
	}
	return out
}
