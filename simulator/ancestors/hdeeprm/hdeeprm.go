// Package hdeeprm reproduces the decisions of HDeepRM (Herrera and Bosque 2019, a workload manager on Batsim): at
// each decision an agent observes the queue and the machine and chooses a pair of policies, one that selects jobs and
// one that selects their cores; jobs are started by this pair until one does not fit. No job is skipped; for
// backfilling see package queue.
//
// Process is the decision process, which can also drive an external Batsim; Environment is a simulation as the
// environment of an agent, which also runs under one pair:
//
//	tree, err := platform.Example("gaia")
//	…
//	pair, err := hdeeprm.ParsePair("shortest-high_gflops")
//	…
//	e, err := hdeeprm.NewEnvironment(tree, jobs, hdeeprm.Limits{}, pair.Settings(0, false))
//	…
//	result, err := e.Run(func([]float32) int { return 0 })
//
// Errors of HDeepRM are corrected unless Settings.Compat is set; see there for a list.
package hdeeprm
