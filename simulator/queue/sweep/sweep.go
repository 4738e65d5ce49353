// Package sweep runs the policies of all batch queue simulators through one interface, once or over many windows of a
// workload, compares them with the intervals and tests of package experiment, and determines which of them no other
// one beats. It makes no scheduling decisions itself.
//
//	w, err := sweep.Load("trace.swf.gz", sweep.TraceOptions{})
//	run, err := w.Run(ctx, sweep.Method{Policy: "saf", Backfill: "easy"}, sweep.Window{})
//	fmt.Println(run.Summary().BoundedSlowdown.Mean)
//
// A workload is for a machine of equal processors (orders of package queue, heuristics, agents and rollouts of
// ancestors/rlscheduler) or for a platform.Tree (orders with placements of queue, pairs of policies and agents of
// ancestors/hdeeprm).
package sweep
