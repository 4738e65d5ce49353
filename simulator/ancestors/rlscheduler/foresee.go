package rlscheduler

import "trainopt/optimizer/schedule/order"

// Foresee makes e what is known of o at its clock: the jobs that wait, numbered as in o.Waiting(), and the nodes that are taken
// until the running jobs end by their requests. Every job runs for as long as was requested, and later is what arrives from now
// on, which somebody guesses: submissions are seconds from o's clock and do not decrease. Measure of e is about the jobs that
// waited and those that are guessed. It does not look into the future that o holds.
//
// It uses the memory that e has; jobs that run for longer than requested are taken to end now.
func (e *Episode) Foresee(o *Episode, later []order.Job) {
	jobs, waiting, finishing, asked, starts := e.own[:0], e.waiting[:0], e.finishing[:0], e.asked[:0], e.starts[:0]
	for i, job := range o.waiting {
		j := o.jobs[job]
		j.run = j.request
		jobs = append(jobs, j)
		waiting = append(waiting, i)
		starts = append(starts, 0)
	}
	for _, f := range o.finishing {
		j := o.jobs[f.job]
		end := max(o.requested(f), o.clock)
		j.run = end - o.clock
		j.request = j.run
		f = finish{end, int32(len(jobs)), f.nodes}
		jobs = append(jobs, j)
		starts = append(starts, o.clock)
		insert(&finishing, f)
		if o.backfill {
			insert(&asked, f)
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
