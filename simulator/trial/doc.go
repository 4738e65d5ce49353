// Package trial runs one simulated training job under one planner, as the agent would run a real one, and reports its
// cost and the causes of its regret. It is the benchmark on which planners are compared.
//
// It is not the agent: it has no process, log file or clock and omits what exists on a real machine only (output,
// signals, growing memory). It is not a simulator either: the truth is simulator/training's Scenario and its
// Execution. Between them it follows the agent's rules by calling the agent's functions: run.Progress times the units
// of work, perf.Fit fits the performance model, plan.NextProbe, plan.Worth and the planner decide, sla.Guard stops.
// Every job is considered resumable, and its planner sees only what the agent would have measured.
//
// The remaining differences, all for speed or for lack of data:
//
//   - the agent re-evaluates the allocation every few units of work; here the interval between two re-evaluations doubles
//     until a move;
//   - the baseline is measured for two blocks or one long unit; the agent continues until its pace has settled, for at
//     least 8 % of the work, and allows for a slow first unit;
//   - fitting and planning take no time of the job, but re-evaluations observe the agent's pause after planning;
//   - GPU utilization, used by the planner "rules" only, is the efficiency of scaling from one GPU; CPU utilization is
//     unknown;
//   - the performance model has the number of GPUs per node, which the agent on one machine does not need;
//   - a checkpoint takes the difference between a restart and a first start-up.
//
// In addition, Recurring compares policies on recurring trainings, whose batch size and
// power limit are chosen instead of an allocation.
//
// Example:
//
//	job := trial.Job{Scenario: s, Seed: 7, Prefer: plan.Preference{Cost: 1}}
//	out, err := trial.Run(job, plan.Model{}, trial.Options{})
//	if err != nil { … }
//	truth := trial.Search(s, 7)         // the best fixed allocation with the same noise
//	truth.Regret(job.Prefer, out).Total // 0.02: 2 % more expensive than that, probes and restarts included
package trial
