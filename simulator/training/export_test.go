package training

import "trainopt/optimizer/perf"

// Proposal returns the allocation under consideration.
func (e *Environment) Proposal() perf.AllocationOutlook { return e.proposal }

var Calibrated = calibrated
var Dominated = dominated
