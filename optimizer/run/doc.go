// Package run is the agent of one training job. A run is the record of its facts (facts.go), from which another agent
// can continue it, and a sequence of stages, each in the file of its name with the state that only it changes:
//
//	prepare.go     what is trained, on which machine, at which prices and within which limits
//	recall.go      what earlier runs say
//	plan.go        the performance model, the planner, the first allocation; plans only for a dry run
//	probe.go       measurements at other allocations
//	launch.go      the job's processes: first launch, restart after a move or a failure
//	supervise.go   the loop: log, observer, samples, projection, guard
//	adapt.go       moves to a better allocation, and for a preference that a user requests meanwhile
//	stop.go        requests to the job to exit, and its exit
//	finish.go      the final record, tables and reports
//
// resume.go continues a run whose agent has died, orphan.go stops it. progress.go is a step machine without a clock: it
// derives the work done and its pace from log rows.
//
// It is not a scheduler (one job at a time, on one machine), and it never edits the script: it acts on the job only
// by its command line, its environment, and requests to the observer. optimizer/plan decides, as a function of a
// Snapshot; this package measures, enforces the SLA (sla.Guard), and carries out the decisions.
//
//	agent := run.Agent{Launcher: launcher, View: view, Clock: run.SystemClock{}}
//	result := agent.Run(ctx, cfg, interrupts)
package run
