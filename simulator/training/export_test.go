package training

import "trainopt/optimizer/perf"

// Proposal returns the allocation under consideration.
func (e *Environment) Proposal() perf.Weighing { return e.proposal }
