package rlscheduler

import "trainopt/optimizer/schedule/order"

// foresee sets e to the state of o as known at its clock: the waiting jobs, numbered as in o.Waiting(), and the nodes
// occupied until the running jobs end by their requests. Every waiting job runs for its requested time. later holds
// predicted arrivals: their submissions are seconds from o's clock and must not decrease. Measure of e covers the
// waiting and the predicted jobs. No future information of o is used.
//
// foresee reuses the memory of e. Running jobs that exceeded their requests are assumed to end now.
func (e *Episode) foresee(o *Episode, later []order.Job) {
	jobs, waiting, finishing, asked, starts := e.own[:0], e.waiting[:0], e.finishing[:0], e.asked[:0], e.starts[:0]
	for i, job := range o.waiting {
		j := o.jobs[job]
		j.run = j.request
		jobs = append(jobs, j)
		waiting = append(waiting, i)
		starts = append(starts, 0)
	}
	for _, f := range o.finishing {
		j := o.jobs[f.Job]
		end := max(o.requested(f), o.clock)
		j.run = end - o.clock
		j.request = j.run
		f = order.Release{At: end, Job: int32(len(jobs)), Procs: f.Procs}
		jobs = append(jobs, j)
		starts = append(starts, o.clock)
		finishing.Insert(f)
		if o.backfill {
			asked.Insert(f)
		}
	}
	arrived := len(jobs)
	for i := range later {
		j := &later[i]
		jobs = append(jobs, sizedJob(j, o.perNode))
		jobs[len(jobs)-1].submit = o.clock + j.Submit
		starts = append(starts, 0)
	}
	*e = Episode{
		jobs: jobs, own: jobs, perNode: o.perNode, nodes: o.nodes, backfill: o.backfill, clock: o.clock, free: o.free, arrived: arrived,
		waiting: waiting, tied: o.tied, finishing: finishing, asked: asked, starts: starts, started: len(o.finishing),
	}
}
