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
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// Episode is one sequence of jobs, decided on one start at a time: which of those that wait is next. When the one that is named
// does not fit, time passes until it does, and with Backfill shorter ones may go before it; what is named first stays first.
//
// A step costs O(running) and, with backfilling, O(waiting) for every release until the job fits; nothing is allocated.
type Episode struct {
	jobs    []sized // shared with every copy, never changed
	perNode float64 // processors of a node; 1 is 1
	own     []sized // jobs, where they are not shared (Foresee)
	nodes   int32

	backfill bool
	clock    float64
	free     int32 // nodes
	arrived  int   // jobs[:arrived] have
	waiting  []int // by submission
	shuffled bool  // among jobs of the same submission, waiting is not by index
	tied     bool  // there are such jobs

	finishing []finish // that run, by the end, the next one last; among equals the one that began last comes first here
	asked     []finish // that run, by start + request, the next one last; with backfill only

	starts  []float64
	started int
	sum     sums
}

// sized is what the simulator needs of a job.
type sized struct {
	submit, run, request float64
	nodes                int32
	procs                int32
}

func sizedJob(j *order.Job, perNode float64) sized {
	n := math.Ceil(float64(j.Procs) / perNode)
	return sized{j.Submit, j.Run, j.Request, int32(min(max(n, 1), math.MaxInt32)), int32(min(j.Procs, math.MaxInt32))}
}

// finish is the end of a running job, at some time.
type finish struct {
	at    float64
	job   int32
	nodes int32
}

// NewEpisode starts an episode over jobs, ordered by submission, on a machine of so many processors. The clock is at the first
// submission, and its job waits. A job that is larger than the machine never starts: when it is named it leaves the queue.
func NewEpisode(jobs []order.Job, procs int, backfill bool) *Episode {
	return newEpisode(jobs, procs, procs, backfill)
}

// newEpisode is NewEpisode on nodes of procs/nodes processors, which jobs have whole.
func newEpisode(jobs []order.Job, procs, nodes int, backfill bool) *Episode {
	e := &Episode{
		jobs: make([]sized, len(jobs)), perNode: float64(procs) / float64(max(nodes, 1)), nodes: int32(min(nodes, math.MaxInt32)),
		backfill: backfill, starts: make([]float64, len(jobs)),
	}
	for i := range jobs {
		e.tied = e.tied || i > 0 && jobs[i].Submit == jobs[i-1].Submit
		e.jobs[i] = sizedJob(&jobs[i], e.perNode)
	}
	e.Reset()
	return e
}

// Reset goes back to the beginning.
func (e *Episode) Reset() {
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

// Waiting are the jobs (indices) that may be named, in the order of submission; none at the end. Valid until the next Start.
func (e *Episode) Waiting() []int { return e.waiting }

// Free is the number of processors that run nothing, Now the time in s.
func (e *Episode) Free() int    { return int(float64(e.free) * e.perNode) }
func (e *Episode) Now() float64 { return e.clock }

// Fits is whether the job would start at once.
func (e *Episode) Fits(job int) bool { return e.jobs[job].nodes <= e.free }

// Len is the number of jobs of the episode, Arrived the number of those that were submitted so far, Started of those that have
// started or, too large for the machine, never will.
func (e *Episode) Len() int     { return len(e.jobs) }
func (e *Episode) Arrived() int { return e.arrived }
func (e *Episode) Started() int { return e.started }

// Ended is the number of jobs that have ended or never will start.
func (e *Episode) Ended() int { return e.started - len(e.finishing) }

// Prefer sorts, by a stable order, those that wait and were submitted at the same time, which only matters for who is tried first
// in backfilling: there the original keeps the order in which its queue was sorted last, by the score.
func (e *Episode) Prefer(compare func(a, b int) int) {
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

// find is where the job is in waiting, −1 when nowhere.
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

// Start names the next job, an element of Waiting; time passes until it has started and another waits, or all have started. What
// is no element of Waiting changes nothing.
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

// waitBackfilling lets time pass until so many nodes are free. Before each event, every job that fits and by its request ends
// before the time at which the nodes would be free starts.
func (e *Episode) waitBackfilling(nodes int32) {
	limit := e.shadow(nodes)
	from := 0
	for nodes > e.free {
		if e.free > 0 && e.clock < limit {
			e.fill(from, limit)
		}
		arrived := len(e.waiting)
		if e.advance() {
			from = arrived // nothing was released: only the newcomer can start where the others could not
		} else {
			from = 0
		}
	}
}

// fill starts jobs of waiting[from:].
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

// shadow is when so many nodes will be free if every running job ends at its request. The original sorts its list of running jobs
// for that and leaves it sorted, which decides between equals when it next sorts it by their ends; so it does here.
func (e *Episode) shadow(nodes int32) float64 {
	f := e.finishing
	for i := 1; i < len(f); i++ {
		for k := i; k > 0 && f[k].at == f[k-1].at && e.requested(f[k]) > e.requested(f[k-1]); k-- {
			f[k], f[k-1] = f[k-1], f[k]
		}
	}
	free := e.free
	at := e.clock
	for i := len(e.asked) - 1; i >= 0 && free < nodes; i-- {
		free += e.asked[i].nodes
		at = e.asked[i].at
	}
	return at
}

func (e *Episode) requested(f finish) float64 { return e.starts[f.job] + e.jobs[f.job].request }

// advance goes to the next event: one arrival, for which it returns true, or the end of one job. It must not be called when there
// is neither.
func (e *Episode) advance() bool {
	last := len(e.finishing) - 1
	if e.arrived < len(e.jobs) && (last < 0 || e.jobs[e.arrived].submit <= e.finishing[last].at) {
		e.clock = max(e.clock, e.jobs[e.arrived].submit)
		e.waiting = append(e.waiting, e.arrived)
		e.arrived++
		return true
	}
	f := e.finishing[last]
	e.finishing = e.finishing[:last]
	e.clock = max(e.clock, f.at)
	e.free += f.nodes
	if e.backfill {
		i := place(e.asked, e.requested(f))
		for e.asked[i].job != f.job {
			i++
		}
		e.asked = slices.Delete(e.asked, i, i+1)
	}
	return false
}

// begin starts a job at the clock; it must fit. Its place in waiting is the caller's.
func (e *Episode) begin(job int) {
	j := &e.jobs[job]
	e.free -= j.nodes
	e.starts[job] = e.clock
	e.started++
	e.sum.add(j, e.clock)
	insert(&e.finishing, finish{e.clock + j.run, int32(job), j.nodes})
	if e.backfill {
		insert(&e.asked, finish{e.clock + j.request, int32(job), j.nodes})
	}
}

// place is the first element that is not later than at.
func place(list []finish, at float64) int {
	lo, hi := 0, len(list)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); list[mid].at > at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

func insert(list *[]finish, f finish) {
	l := append(*list, finish{})
	i := place(l[:len(l)-1], f.at)
	copy(l[i+1:], l[i:])
	l[i] = f
	*list = l
}

// Starts are the times at which the jobs started, s; NaN for those that did not. It is the episode's own: not to be changed, and
// valid until the next Start.
func (e *Episode) Starts() []float64 { return e.starts }

// Clone is an independent copy that can be played on.
func (e *Episode) Clone() *Episode {
	c := new(Episode)
	c.CopyFrom(e)
	return c
}

// CopyFrom makes e an independent copy of o, in the memory that e has. The jobs are shared, so it costs O(length + waiting), and
// allocates nothing once e has been as large.
func (e *Episode) CopyFrom(o *Episode) {
	own, waiting, finishing, asked, starts := e.own, e.waiting[:0], e.finishing[:0], e.asked[:0], e.starts[:0]
	*e = *o
	e.own = own
	e.waiting = append(waiting, o.waiting...)
	e.finishing = append(finishing, o.finishing...)
	e.asked = append(asked, o.asked...)
	e.starts = append(starts, o.starts...)
}
