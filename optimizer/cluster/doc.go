// Package cluster is the live scheduler of many trainings: it gives them leases of the devices of one machine, or of an
// engine such as Slurm, by the policies of package share and the round engine of package round, exactly as the simulator
// in simulator/cluster does. Only the clock and the source of the rates differ.
//
//	scheduler.go, decide.go    the state machine: who holds which devices, when a job is started, stopped or moved
//	event.go                   the log of all events, from which a day can be replayed
//
// Each job is a run of its own (package run), with an agent in this process: it finds progress and checkpoints, enforces
// deadline and budget, saves before the devices are taken back, and resumes on the next ones. The package decides only
// which devices a run has, and for how long.
package cluster
