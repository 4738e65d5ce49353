package pretrain

// The profiles are measurements of real training jobs and draws simulated jobs from them: the truth on which
// planners and learning agents are trained and evaluated.
//
// It is not the model that a planner fits while a job runs (optimizer/perf), and it predicts nothing about the user's
// job. A planner must never have access to a [Kind], which contains the truth that the planner estimates.
//
// The same kinds of job have two sources. [Embedded] returns fitted curves of a few parameters each, made by
//
//	go run ./internal/gen profiles --data DIR
//
// from tables under Apache-2.0 and MIT (Pollux, OSDI 2021; Gavel, OSDI 2020), with source, licence, commit and fit
// error in models.json. [Load] reads the tables themselves from a directory, interpolates only inside the measured
// range, and adds the Sia tables (SOSP 2023), which carry no licence and are therefore used for evaluation only and
// never embedded.
//
// Units. A sample is one training example. A unit of work is a fixed number of samples at full statistical efficiency,
// that is at the reference batch of the job: at total batch M a unit takes that number of samples divided by (φ +
// M0)/(φ + M), where φ is the gradient noise scale and M0 the reference batch (Pollux, section 3.1). The tables have
// no CPU and no memory dimension, so CPUs do not affect measured kinds. Power was not measured: Watts returns NaN, and
// the energy of such a job is NaN.
//
//	jobs, err := pretrain.NewGenerator(pretrain.GeneratorOptions{Set: "train", Seed: 1})
//	job := jobs.At(0) // the same seed and index yield the same job
//	out := job.Outcome(job.Baseline) // seconds, USD, …
//	run := job.Start(1)
//	seconds := run.Run(job.Baseline, 3) // of the first three units
