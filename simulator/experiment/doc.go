// Package experiment compares policies over seeds: it runs every policy on every case, and turns what came out into
// means with 95 % intervals and paired tests that a reader may believe.
//
// It is not a simulator and knows no policy: the caller brings a function from a policy and a case to named numbers.
// It judges nothing either: which policy is better is read from the table.
//
// Cases that share a seed share whatever the seed draws (the jobs, the noise, the trace) and are not independent of
// each other: intervals resample whole seeds, and tests flip whole seeds. A comparison over ten seeds with a hundred
// jobs each therefore has ten independent pieces of evidence, not a thousand. What the intervals do not cover is
// anything that all seeds have in common, such as the kinds of jobs that the tables happen to hold.
//
// Example:
//
//	c, err := experiment.Run(ctx, []string{"fifo", "srpt"}, cases, experiment.Options{
//		Engine: "queue", Metrics: []experiment.Metric{{Name: "mean_wait_s", Unit: "s", Better: experiment.Lower}}, Against: []string{"fifo"},
//	}, func(ctx context.Context, policy string, k int) (map[string]float64, error) {
//		return simulate(policy, cases[k].Seed)
//	})
//	if err != nil { … }
//	err = experiment.Render(os.Stdout, c, "text")
package experiment
