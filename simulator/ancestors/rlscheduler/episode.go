// Package rlscheduler reproduces the simulator of RLScheduler (Zhang, Dai, He, Bao, Xie, SC 2020) exactly, contains its
// published table, and has the players of its episodes: heuristics, agents that learn as RLScheduler's do or by
// evolution, and rollouts.
//
//	trace, err := rlscheduler.Load("lublin_256.swf.gz")
//	e := trace.Episode(rlscheduler.Starts1024[0], 1024, true) // with backfilling
//	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
//		e.Start(w[0]) // first come first served
//	}
//	fmt.Println(rlscheduler.measure(e).BoundedSlowdown)
//
// The simulator differs from a batch queue: a selected job blocks the queue until it starts, backfilling uses free
// nodes only until the estimated start of the selected job, and events are processed one at a time, arrivals first.
// For a conventional batch queue, see queue.Run.
package rlscheduler

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// Episode is a sequence of jobs, scheduled by selecting one waiting job at a time. If the selected job does not fit,
// time advances until it does; with backfilling, shorter jobs may start before it. A selection cannot be revoked.
//
// A step costs O(running) and, with backfilling, O(waiting) per release until the job fits. It does not allocate.
type Episode struct {
	jobs    []sized // shared by all copies, read-only
	perNode float64 // processors per node
	own     []sized // storage of jobs that are not shared (foresee)
	nodes   int32

	backfill bool
	clock    float64
	free     int32 // nodes
	arrived  int   // number of arrived jobs: jobs[:arrived]
	waiting  []int // by submission
	shuffled bool  // waiting is not sorted by index within equal submissions
	tied     bool  // equal submissions exist

	finishing order.Releases // ends of the running jobs, in nodes; equal ends by descending start
	asked     order.Releases // the same by request; with backfill only

	starts  []float64
	started int
	sum     sums
}

// sized is the part of a job that the simulator requires.
type sized struct {
	submit, run, request float64
	nodes                int32
	procs                int32
}

func sizedJob(j *order.Job, perNode float64) sized {
	n := math.Ceil(float64(j.Procs) / perNode)
	return sized{j.Submit, j.Run, j.Request, int32(min(max(n, 1), math.MaxInt32)), int32(min(j.Procs, math.MaxInt32))}
}

// NewEpisode begins an episode of jobs, ordered by submission, on a machine with the given number of processors. The
// clock is at the first submission. A job larger than the machine never starts; selecting it removes it from the
// queue.
func NewEpisode(jobs []order.Job, procs int, backfill bool) *Episode {
	return newEpisode(jobs, procs, procs, backfill)
}

// newEpisode is NewEpisode on nodes of procs/nodes processors, which are allocated whole.
func newEpisode(jobs []order.Job, procs, nodes int, backfill bool) *Episode {
	e := &Episode{
		jobs: make([]sized, len(jobs)), perNode: float64(procs) / float64(max(nodes, 1)), nodes: int32(min(nodes, math.MaxInt32)),
		backfill: backfill, starts: make([]float64, len(jobs)),
	}
	for i := range jobs {
		e.tied = e.tied || i > 0 && jobs[i].Submit == jobs[i-1].Submit
		e.jobs[i] = sizedJob(&jobs[i], e.perNode)
	}
	e.reset()
	return e
}

// reset returns to the beginning.
func (e *Episode) reset() {
	e.clock, e.free, e.arrived, e.started, e.sum = 0, e.nodes, 0, 0, sums{}
	e.shuffled = false
	e.waiting, e.finishing, e.asked = e.waiting[:0], e.finishing[:0], e.asked[:0]
	for i := range e.starts {
		e.starts[i] = math.NaN()
	}
	if len(e.jobs) > 0 {
		e.clock = e.jobs[0].submit
		e.waiting = append(e.waiting, 0)
		e.arrived = 1
	}
}

// Waiting returns the indices of the waiting jobs in order of submission; empty at the end. Valid until the next
// Start.
func (e *Episode) Waiting() []int { return e.waiting }

// Now returns the time, s.
func (e *Episode) Now() float64 { return e.clock }

// fits reports whether the job would start immediately.
func (e *Episode) fits(job int) bool { return e.jobs[job].nodes <= e.free }

// Len returns the number of jobs, Arrived the number of jobs submitted so far, and Started the number of jobs that
// started or, being larger than the machine, were removed.
func (e *Episode) Len() int     { return len(e.jobs) }
func (e *Episode) Arrived() int { return e.arrived }
func (e *Episode) Started() int { return e.started }

// Ended returns the number of jobs that have ended or will never start.
func (e *Episode) Ended() int { return e.started - len(e.finishing) }

// sortTies stably sorts the waiting jobs within equal submissions. This affects only the order in which backfilling
// tries them: the original keeps the order by score in which its queue was last sorted.
func (e *Episode) sortTies(compare func(a, b int) int) {
	if !e.tied {
		return
	}
	w := e.waiting
	for i := 1; i < len(w); i++ {
		for k := i; k > 0 && e.jobs[w[k]].submit == e.jobs[w[k-1]].submit && compare(w[k], w[k-1]) < 0; k-- {
			w[k], w[k-1] = w[k-1], w[k]
			e.shuffled = true
		}
	}
}

// find returns the position of the job in waiting, −1 if it does not wait.
func (e *Episode) find(job int) int {
	if e.shuffled {
		return slices.Index(e.waiting, job)
	}
	at, found := slices.BinarySearch(e.waiting, job)
	if !found {
		return -1
	}
	return at
}

// Start selects the next job, an element of Waiting. Time advances until it has started and another job waits, or all
// have started. Start has no effect for a job that does not wait.
func (e *Episode) Start(job int) {
	at := e.find(job)
	if at < 0 {
		return
	}
	if j := &e.jobs[job]; j.nodes > e.nodes {
		e.waiting = slices.Delete(e.waiting, at, at+1)
		e.started++
	} else {
		if j.nodes > e.free {
			if e.backfill {
				e.waitBackfilling(j.nodes)
				at = e.find(job)
			} else {
				for j.nodes > e.free {
					e.advance()
				}
			}
		}
		e.begin(job)
		e.waiting = slices.Delete(e.waiting, at, at+1)
	}
	for len(e.waiting) == 0 && e.arrived < len(e.jobs) {
		e.advance()
	}
}

// waitBackfilling advances time until the given number of nodes is free. Before each event it starts every job that
// fits and that, by its request, ends before the estimated time at which these nodes are free.
func (e *Episode) waitBackfilling(nodes int32) {
	limit := e.shadow(nodes)
	from := 0
	for nodes > e.free {
		if e.free > 0 && e.clock < limit {
			e.fill(from, limit)
		}
		arrived := len(e.waiting)
		if e.advance() {
			from = arrived // no nodes were released, so only the new arrival can start
		} else {
			from = 0
		}
	}
}

// fill starts jobs of waiting[from:] that fit and end, by request, before limit.
func (e *Episode) fill(from int, limit float64) {
	kept := from
	for i, job := range e.waiting[from:] {
		if j := &e.jobs[job]; j.nodes <= e.free && e.clock+j.request < limit {
			e.begin(job)
			if e.free == 0 {
				kept += copy(e.waiting[kept:], e.waiting[from+i+1:])
				break
			}
			continue
		}
		e.waiting[kept] = job
		kept++
	}
	e.waiting = e.waiting[:kept]
}

// shadow returns the time at which the given number of nodes is free if every running job ends at its request. The
// original sorts its list of running jobs for this and leaves it sorted, which determines the order of equal ends;
// this implementation does the same.
func (e *Episode) shadow(nodes int32) float64 {
	f := e.finishing
	for i := 1; i < len(f); i++ {
		for k := i; k > 0 && f[k].At == f[k-1].At && e.requested(f[k]) > e.requested(f[k-1]); k-- {
			f[k], f[k-1] = f[k-1], f[k]
		}
	}
	free := e.free
	at := e.clock
	for i := len(e.asked) - 1; i >= 0 && free < nodes; i-- {
		free += e.asked[i].Procs
		at = e.asked[i].At
	}
	return at
}

func (e *Episode) requested(f order.Release) float64 { return e.starts[f.Job] + e.jobs[f.Job].request }

// advance processes the next event: one arrival, for which it returns true, or the end of one job. An event must
// exist.
func (e *Episode) advance() bool {
	last := len(e.finishing) - 1
	if e.arrived < len(e.jobs) && (last < 0 || e.jobs[e.arrived].submit <= e.finishing[last].At) {
		e.clock = max(e.clock, e.jobs[e.arrived].submit)
		e.waiting = append(e.waiting, e.arrived)
		e.arrived++
		return true
	}
	f := e.finishing[last]
	e.finishing = e.finishing[:last]
	e.clock = max(e.clock, f.At)
	e.free += f.Procs
	if e.backfill {
		e.asked.Remove(e.requested(f), f.Job)
	}
	return false
}

// begin starts a job, which must fit, at the present time. The caller removes it from waiting.
func (e *Episode) begin(job int) {
	j := &e.jobs[job]
	e.free -= j.nodes
	e.starts[job] = e.clock
	e.started++
	e.sum.add(j, e.clock)
	e.finishing.Insert(order.Release{At: e.clock + j.run, Job: int32(job), Procs: j.nodes})
	if e.backfill {
		e.asked.Insert(order.Release{At: e.clock + j.request, Job: int32(job), Procs: j.nodes})
	}
}

// Starts returns the start times, s; NaN for jobs that have not started. The slice belongs to the episode, must not
// be modified, and is valid until the next Start.
func (e *Episode) Starts() []float64 { return e.starts }

// copyFrom makes e an independent copy of o and reuses its memory. The jobs are shared, so it costs O(length +
// waiting) and does not allocate once e has been as large.
func (e *Episode) copyFrom(o *Episode) {
	own, waiting, finishing, asked, starts := e.own, e.waiting[:0], e.finishing[:0], e.asked[:0], e.starts[:0]
	*e = *o
	e.own = own
	e.waiting = append(waiting, o.waiting...)
	e.finishing = append(finishing, o.finishing...)
	e.asked = append(asked, o.asked...)
	e.starts = append(starts, o.starts...)
}
