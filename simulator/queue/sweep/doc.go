// Package sweep runs the policies for batch queues under one roof, whatever simulator they live in, once or over many windows of a
// workload, and compares them with the intervals and tests of package evaluate. It decides nothing itself.
//
//	w, err := sweep.Load("trace.swf.gz", sweep.TraceOptions{})
//	run, err := w.Run(ctx, sweep.Method{Policy: "saf", Backfill: "easy"}, sweep.Window{})
//	fmt.Println(run.Summary().BoundedSlowdown.Mean)
//
// A workload is for a machine of equal processors (orders of package queue, rollouts, agents of queue/agents) or for a
// platform.Tree (pairs of policies and agents of queue/hdeeprm).
package sweep
