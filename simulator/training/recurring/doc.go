// Package recurring is about trainings that are run again and again, on one GPU, until they reach the same quality: each
// recurrence may choose its batch size and the GPU's power limit. It has the truth of such jobs (measured tables or models
// fitted to them), simulated recurrences, and the policies that choose, compared with all their search charged.
//
// It is not the prediction of one elastic job (its parent is), and what it learns is not carried to other jobs.
//
// Jobs and policies follow Zeus (You, Chung and Chowdhury, "Zeus: Understanding and Optimizing GPU Energy Consumption of
// DNN Training", NSDI 2023). The measurements are those of its artefact (github.com/ml-energy/zeus at 75a8b939,
// examples/research_reproducibility/zeus_nsdi23/trace, Apache-2.0): read from the tables where they are at hand, else
// from models.json, which holds models fitted to them.
//
// Example:
//
//	jobs, err := recurring.Fitted()
//	if err != nil { … }
//	job := jobs[0]
//	out, err := recurring.Play(job, recurring.Policies["smooth"], recurring.Options{Eta: 1, Seed: 1})
//	// out.Settled, out.Joules against recurring.Play(job, recurring.Policies["default"], …)
package recurring
