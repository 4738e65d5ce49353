// Package trial runs one simulated training job under one planner, as the agent would run a real one, and says what it
// cost and why it cost more than it had to. It is the bench on which planners are compared.
//
// It is not the agent: there is no process, log file or clock, and what only a real machine has is left out (output,
// signals, memory that grows). It is not a simulator either: the truth is simulator/training's Scenario and its
// Execution. In between it follows the agent's rules by calling what the agent calls: run.Progress times the
// units of work, perf.Fit learns from them, plan.NextProbe and plan.Worth and the planner decide, sla.Guard stops. A
// job is taken to be resumable, and its planner sees only what the agent would have measured.
//
// The differences that remain, all for speed or for want of data:
//
//   - the agent looks for a better allocation every few units of work; here the distance between two looks doubles,
//     until a move;
//   - fitting and planning take no time of the job, except that looks keep the pause that the agent keeps after them;
//   - GPU utilisation, which only the rules look at, is the efficiency of scaling from one GPU; CPU utilisation is
//     unknown;
//   - the performance model is told how many GPUs a node has, which the agent, on one machine, need not be;
//   - a checkpoint takes what a restart costs beyond a first start-up.
//
// Beside it, Recurring compares policies on trainings that recur (simulator/training/recurring), where batch size and
// power limit are chosen instead of an allocation.
//
// Example:
//
//	job := trial.Job{Scenario: s, Seed: 7, Prefer: plan.Preference{Cost: 1}}
//	out, err := trial.Run(job, plan.Model{}, trial.Options{})
//	if err != nil { … }
//	truth := trial.Search(s, 7)             // the best that a fixed allocation could do with the same noise
//	truth.Regret(inspect.Prefer, out).Total     // 0.02: two percent dearer than that, probes and restarts included
package trial
