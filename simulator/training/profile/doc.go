// Package profile holds what was measured of real training jobs and draws simulated jobs from it: the truth that planners
// and learning agents are trained on and judged by.
//
// It is not the model that a planner fits while a job runs (that is simulator/training), and it predicts nothing about a
// job of the user's. A planner must never see a [Kind]: it would know the answer.
//
// There are two sources of the same kinds of job. [Embedded] returns fitted curves of a few parameters each, made by
//
//	go run ./internal/gen/profiles --data DIR
//
// from tables under Apache-2.0 and MIT (Pollux, OSDI 2021; Gavel, OSDI 2020), with source, licence, commit and fit error in
// models.json. [Load] reads the tables themselves from a directory, interpolates only inside what was measured, and adds the
// Sia tables (SOSP 2023), which carry no licence and are therefore for evaluation only and never embedded.
//
// Units. A sample is one training example. A unit of work is a fixed number of samples at full statistical worth, that is at
// the reference batch of the job: at total batch M it takes that many samples divided by (φ + M0)/(φ + M), φ the gradient
// noise scale and M0 the reference batch (Pollux, section 3.1). The tables have no CPU and no memory dimension: there, CPUs do
// not matter. Power was not measured: Watts is NaN and so is the energy of such a job.
//
//	jobs, err := profile.NewDraw(profile.DrawOptions{Set: profile.Train, Seed: 1})
//	job := jobs.At(0) // the same seed and index give the same job
//	cheapest, out, ok := inspect.Best(func(_ resources.Allocation, o training.Outcome) float64 { return o.USD })
//	run := inspect.Start(1)
//	seconds := run.Run(job.Baseline, 3) // of the first three units
package profile
