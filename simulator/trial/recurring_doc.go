package trial

// Play simulates trainings that recur on one GPU until they reach the same target metric; each recurrence
// may choose its batch size and the power limit of the GPU. It contains the truth of such jobs (measured tables, or
// models fitted to them), simulated recurrences, and policies that choose; all search is charged to the policy.
//
// The package does not predict a single elastic job (its parent does), and nothing learned on one job is transferred
// to another.
//
// Jobs and policies follow Zeus (You, Chung and Chowdhury, "Zeus: Understanding and Optimizing GPU Energy Consumption
// of DNN Training", NSDI 2023). The measurements are those of its artefact (github.com/ml-energy/zeus at 75a8b939,
// examples/research_reproducibility/zeus_nsdi23/trace, Apache-2.0). Load reads the tables where they are available;
// models.json holds models fitted to them.
//
// Example:
//
//	jobs, err := trial.Fitted()
//	if err != nil { … }
//	job := jobs[0]
//	out, err := trial.playJob(job, trial.policies["smooth"], trial.recurringOptions{Eta: 1, Seed: 1})
//	// compare out.Settled and out.Joules with trial.playJob(job, trial.policies["default"], …)
