// Package experiment compares policies over seeds: it runs every policy on every case and summarises the results as
// means with 95 % intervals and paired tests that respect the dependence between cases.
//
// It is not a simulator and contains no policies: the caller provides a function from a policy and a case to named
// numbers. It draws no conclusions either; readers take them from the tables.
//
// Cases with the same seed share everything drawn from the seed (jobs, noise, trace) and are not independent of each
// other: intervals resample whole seeds, and tests flip whole seeds. A comparison over ten seeds with a hundred jobs
// each therefore has ten independent observations, not a thousand. The intervals do not cover what all seeds have in
// common, such as the kinds of jobs in the tables.
//
// Example:
//
//	c, err := experiment.run(ctx, []string{"fifo", "srpt"}, cases, experiment.Options{
//		Engine: "queue", Metrics: []experiment.Metric{{Name: "mean_wait_s", Unit: "s", Better: experiment.Lower}}, Against: []string{"fifo"},
//	}, func(ctx context.Context, policy string, k int) (map[string]float64, error) {
//		return simulate(policy, cases[k].Seed)
//	})
//	if err != nil { … }
//	err = c.Render(os.Stdout, "text")
package experiment
