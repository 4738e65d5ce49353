// Package run is the agent for one training job: recall → probe → plan → launch → supervise →
// adapt → report.
//
// It is not a scheduler (one job at a time, on one machine) and it never edits the script: all that the
// script sees is its environment. Decisions are made by optimizer/plan on a Snapshot; this package measures,
// keeps the agreement (sla.Guard), and carries decisions out.
//
//	agent := run.Agent{Config: cfg, Launcher: launcher, View: view, Clock: run.SystemClock{}}
//	result := agent.Run(ctx, interrupts)
package run
