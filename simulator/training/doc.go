// Package training simulates single elastic training jobs. A Scenario holds the truth of one job (seconds per unit of
// work at every allocation, prices, limits, noise, interruptions), an Execution runs it, and an Environment presents a
// sequence of scenarios to learning agents as a Markov decision process with vector rewards.
//
// The package makes no decisions: optimizer/plan decides, from the performance model that optimizer/perf fits to the
// measurements. It reads neither clock nor files; the same seed yields the same bytes on any number of cores.
//
// Example:
//
//	s := training.Scenario{Workload: w, Units: 100, Limits: limits, Baseline: a, Rates: rates}
//	x := s.Start(1)
//	x.Run(a, 10) // returns the seconds of each of the first ten units
package training
