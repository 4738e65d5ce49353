// Package run is the agent of one training job. A run has these stages: recall earlier runs, probe allocations, plan,
// launch, supervise, adapt, report.
//
// It is not a scheduler (one job at a time, on one machine), and it never edits the script: it acts on the job only
// by its command line, its environment, and requests to the observer. optimizer/plan decides, as a function of a
// Snapshot; this package measures, enforces the SLA (sla.Guard), and carries out the decisions.
//
//	agent := run.Agent{Config: cfg, Launcher: launcher, View: view, Clock: run.SystemClock{}}
//	result := agent.Run(ctx, interrupts)
package run
