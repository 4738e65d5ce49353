// Package rlscheduler runs jobs exactly as the simulator of RLScheduler does (Zhang, Dai, He, Bao, Xie, SC 2020), and has its
// published table.
//
//	trace, err := rlscheduler.Load("lublin_256.swf.gz")
//	e := trace.Episode(rlscheduler.Starts1024[0], 1024, true) // with backfilling
//	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
//		e.Start(w[0]) // first come first served
//	}
//	fmt.Println(rlscheduler.Measure(e).BoundedSlowdown)
//
// Its simulator is not quite a batch queue: what was chosen once is waited for whatever comes, the backfilling gives nodes away
// only until the chosen job could start by the requests of the others, and one event is handled at a time, arrivals first. A
// queue as machines have it is queue.Run.
package rlscheduler

import (
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/patient"
)

// Episode is one sequence of jobs, decided on one start at a time: which of those that wait is next. When the one that is named
// does not fit, time passes until it does, and with backfilling shorter ones may go before it; what is named first stays first.
type Episode = patient.Episode

// NewEpisode starts an episode over jobs, ordered by submission, on a machine of so many processors. The clock is at the first
// submission, and its job waits. A job that is larger than the machine never starts: when it is named it leaves the queue.
func NewEpisode(jobs []queue.Job, procs int, backfill bool) *Episode {
	return newEpisode(jobs, procs, procs, backfill)
}

func newEpisode(jobs []queue.Job, procs, nodes int, backfill bool) *Episode {
	p := make([]patient.Job, len(jobs))
	for i := range jobs {
		j := &jobs[i]
		p[i] = patient.Job{Submit: j.Submit, Run: j.Run, Request: j.Request, Procs: j.Procs}
	}
	return patient.New(p, procs, nodes, backfill)
}
