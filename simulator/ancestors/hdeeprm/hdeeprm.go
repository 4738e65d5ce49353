// Package hdeeprm decides as HDeepRM does (Herrera and Bosque 2019, a workload manager on Batsim): at each decision an agent that sees
// the queue and the machine chooses a pair of policies, one for the next job and one for the cores that it gets, and jobs are started
// under that pair until one does not fit. None is passed over: backfilling is package queue's.
//
// Process is the decision process, which may also drive a Batsim elsewhere; Environment is a whole simulation as an agent lives in it;
// RunPair is one simulation under one pair:
//
//	tree, err := platform.Example("gaia")
//	…
//	pair, err := hdeeprm.ParsePair("shortest-high_gflops")
//	…
//	result, counts, err := hdeeprm.RunPair(tree, jobs, pair, 0, false)
//
// HDeepRM's mistakes are corrected unless Settings.Compat asks for them; what they are is said there.
package hdeeprm
