// Package analysis tells what finished trainings say: what each model took and cost, how its speed scales with GPUs, CPUs and
// batch, which configuration did the same work fastest, cheapest and for the least money a sample, which runs broke
// given limits, and where money went without work being done.
//
// It looks at runs, one measurement each, and never at the rows of a log: totals and running sums of different lengths are
// not compared. Time is compared per unit of the same work, with how many runs a figure rests on and, where there are
// several, an interval. What was not measured is unknown (NaN, null, "no data"), never 0; nothing is predicted here, and no
// price is invented: a run without one is unpriced.
//
// It keeps no database and reads no run directory (packages history and logs do), and decides nothing.
//
//	a := analysis.New(analysis.Options{})
//	err := a.AddLog("log-cifar10-resnet50.csv", logs.Options{})
//	a.AddEntries(entries) // of the runs database
//	err = analysis.Render(os.Stdout, a.Analyze(), "text")
package analysis
