// Package analysis evaluates finished trainings: time and cost of each model, scaling of its speed with GPUs, CPUs
// and batch size, the fastest, the cheapest and the most cost-efficient configuration for the same work, violations
// of given limits, and money spent without progress.
//
// The unit of analysis is a run, with one measurement each, not a row of a log: totals and running sums of different
// lengths are not comparable. Time is compared per unit of the same work, with the number of runs behind each value
// and, for several runs, an interval. A missing measurement is unknown (NaN, null, "no data"), never 0. The package
// predicts nothing and assumes no prices: a run without a price is unpriced.
//
// A [Front] presents the Pareto front of (time, cost, resource use) of one training, the point that a preference selects,
// and the trade-offs from that point. Points come from a recorded run (its candidates), from a new prediction by a run's
// performance model, or from finished runs and training logs, with one measured point each.
//
// The package contains no database and makes no decisions for a job: package plan does.
//
// Example:
//
//	a := analysis.New(analysis.Options{})
//	err := a.AddLog("log-cifar10-resnet50.csv", history.LogOptions{})
//	a.AddEntries(entries) // of the runs database
//	err = analysis.Render(os.Stdout, a.Analyze(), "text")
//
//	points, err := analysis.FromRun(dir)
//	f, err := analysis.ChooseFront(points, preference)
//	err = f.Render(os.Stdout, "text", 80)
package analysis
