package order

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Scheduler holds the waiting and running jobs of one pool of identical processors. Jobs have numbers, from 0 in the order of their
// submission. It is not safe for concurrent use.
//
// Cost: O(log running) a submission or end, and O(waiting) a decision after an end; conservative backfilling O(waiting²) after an end
// that comes earlier than its estimate.
type Scheduler struct {
	order    Order
	backfill backfill
	procs    int32
	entries  []entry // by job number

	now  float64
	free int32

	queue []waiter
	first int // queue[first:] waits, the next one first

	// Expected ends of the running jobs; kept only where backfill needs them.
	track   bool
	running Releases

	// Changes since the last decision.
	submitted, ended []int32
	starts           []int32
}

// entry is a job that was submitted.
type entry struct {
	job   *Job    // nil once it ended
	end   float64 // expected, s, once it runs
	procs int32
}

// waiter is a waiting job, with what a scan of the queue reads.
type waiter struct {
	score, estimate float64
	id, procs       int32
}

func (a waiter) compare(b waiter) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.id, b.id))
}

// backfill chooses the jobs that start after all events of one time.
type backfill interface {
	pass(s *Scheduler)
}

var backfills = map[string]func(*Scheduler) backfill{
	"none":         func(*Scheduler) backfill { return headOnly{} },
	"easy":         func(*Scheduler) backfill { return new(easy) },
	"conservative": func(s *Scheduler) backfill { return newConservative(s.procs) },
}

// Backfills returns the names of the backfilling methods, sorted:
//
//   - none: jobs start strictly in order.
//   - easy: a job may overtake the first of the queue if, by the estimates, this does not delay it: because the job ends before the
//     first can start, or uses processors that the first leaves free (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).
//   - conservative: every waiting job has a reservation, and none may be delayed (Mu'alem and Feitelson 2001).
//
// Estimates are those of Job.Estimate.
func Backfills() []string { return slices.Sorted(maps.Keys(backfills)) }

// New returns a scheduler of an idle pool. The backfilling method is one of Backfills; "" is none.
func New(procs int, o Order, backfilling string) (*Scheduler, error) {
	if procs < 1 || procs > math.MaxInt32 {
		return nil, fmt.Errorf("a machine of %d processors: want 1 or more", procs)
	}
	if o.Score == nil {
		return nil, fmt.Errorf("an order without a score")
	}
	backfilling = cmp.Or(backfilling, "none")
	make, ok := backfills[backfilling]
	if !ok {
		return nil, fmt.Errorf("backfilling %q: want one of %s", backfilling, strings.Join(Backfills(), ", "))
	}
	s := &Scheduler{order: o, procs: int32(procs), free: int32(procs), track: backfilling != "none"}
	s.backfill = make(s)
	return s, nil
}

// Reserve prepares for n jobs in all, so that submitting them allocates little.
func (s *Scheduler) Reserve(n int) { s.entries = slices.Grow(s.entries, n-len(s.entries)) }

// Waiting returns the number of waiting jobs.
func (s *Scheduler) Waiting() int { return len(s.queue) - s.first }

// Submit queues a job at time now and returns its number. A job larger than the pool is numbered but not queued, and ok is false.
// The job is kept and must not change.
func (s *Scheduler) Submit(now float64, j *Job) (id int32, ok bool) {
	s.now = now
	id = int32(len(s.entries))
	procs := int32(min(j.Procs, math.MaxInt32))
	s.entries = append(s.entries, entry{job: j, procs: procs})
	if j.Procs > int(s.procs) {
		return id, false
	}
	s.submitted = append(s.submitted, id)
	s.enqueue(waiter{s.score(id), j.Estimate(), id, procs})
	return id, true
}

func (s *Scheduler) enqueue(w waiter) {
	if n := len(s.queue); n == s.first || s.queue[n-1].compare(w) < 0 {
		if s.first > n/2 && n == cap(s.queue) { // reuse the room in front before growing
			s.queue = s.queue[:copy(s.queue, s.queue[s.first:])]
			s.first = 0
		}
		s.queue = append(s.queue, w)
		return
	}
	at, _ := slices.BinarySearchFunc(s.waiting(), w, waiter.compare)
	if at == 0 && s.first > 0 {
		s.first--
		s.queue[s.first] = w
		return
	}
	s.queue = slices.Insert(s.queue, s.first+at, w)
}

// End frees the processors of a running job at time now.
func (s *Scheduler) End(now float64, id int32) {
	s.now = now
	k := &s.entries[id]
	s.free += k.procs
	s.ended = append(s.ended, id)
	if s.track {
		s.running.Remove(k.end, id)
	}
	k.job = nil
}

// Decide returns the numbers of the jobs that start at time now, in order; they run from then on. It is to be called after all ends
// and submissions of that time. The slice is valid until the next call.
func (s *Scheduler) Decide(now float64) []int32 {
	s.now = now
	s.starts = s.starts[:0]
	s.backfill.pass(s)
	s.submitted, s.ended = s.submitted[:0], s.ended[:0]
	return s.starts
}

// score returns the rank of a job now.
func (s *Scheduler) score(id int32) float64 {
	j := s.entries[id].job
	return s.order.Rank(j, s.now-j.Submit)
}

// waiting returns the queue, the next job first.
func (s *Scheduler) waiting() []waiter { return s.queue[s.first:] }

// resort restores the order of a queue whose scores change with time. The queue is nearly sorted, so this costs about O(waiting).
func (s *Scheduler) resort() {
	w := s.waiting()
	if !s.order.Aging || len(w) < 2 {
		return
	}
	for i := range w {
		w[i].score = s.score(w[i].id)
	}
	slices.SortFunc(w, waiter.compare)
}

// startAt starts the waiter at index i of the queue and removes it.
func (s *Scheduler) startAt(i int) {
	w := s.waiting()
	s.start(w[i])
	copy(w[1:i+1], w[:i])
	s.first++
}

// startHead starts jobs from the head of the queue while they fit.
func (s *Scheduler) startHead() {
	for w := s.waiting(); len(w) > 0 && w[0].procs <= s.free; w = s.waiting() {
		s.startAt(0)
	}
}

// start starts a waiter; the caller removes it from the queue.
func (s *Scheduler) start(w waiter) {
	s.free -= w.procs
	s.starts = append(s.starts, w.id)
	if s.track {
		s.trackEnd(w.id, s.now+w.estimate)
	}
}

// trackEnd inserts the expected end of a running job.
func (s *Scheduler) trackEnd(id int32, at float64) {
	k := &s.entries[id]
	k.end = at
	s.running.Insert(Release{at, id, k.procs})
}
