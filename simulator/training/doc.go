// Package training simulates single elastic training jobs: a Scenario holds the truth of one job (seconds per unit of work at every
// allocation, prices, limits, noise, interruptions), an Execution runs it, and an Environment presents a sequence of them to learning
// agents as a Markov decision process with vector rewards.
//
// It decides nothing: optimizer/plan does, from what optimizer/perf makes of the measurements. It reads no clock and no file; the
// same seed gives the same bytes on any number of cores.
//
// Example:
//
//	s := training.Scenario{Workload: w, Units: 100, Limits: limits, Baseline: a, Rates: rates}
//	x := s.Start(1)
//	x.Run(a, 10) // seconds of each of the first ten units
package training
