// Package hdeeprm reproduces the decisions of HDeepRM (Herrera and Bosque 2019, a workload manager on Batsim): at
// each decision an agent observes the queue and the machine and chooses a pair of policies, one that selects jobs and
// one that selects their cores; jobs are started by this pair until one does not fit. No job is skipped; for
// backfilling see package queue.
//
// Process is the decision process, which can also drive an external Batsim; Environment is a simulation as the
// environment of an agent; RunPair runs one simulation under one pair:
//
//	tree, err := platform.Example("gaia")
//	…
//	pair, err := hdeeprm.ParsePair("shortest-high_gflops")
//	…
//	result, counts, err := hdeeprm.RunPair(tree, jobs, pair, 0, false)
//
// Errors of HDeepRM are corrected unless Settings.Compat is set; see there for a list.
package hdeeprm
