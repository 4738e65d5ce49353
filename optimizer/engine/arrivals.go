package engine

import (
	"math"
	"slices"
	"time"

	"trainopt/optimizer/schedule/order"
)

// arrivals is the record of past submissions. Each draw replays it from another time on as the submissions to come, so
// that they keep the rates of the users and come in bursts as they did.
type arrivals struct {
	// jobs are in order of submission, with times since the beginning of the record. Those that no node can run have a
	// shape of −1.
	jobs   []task
	length float64 // of the record, s; 0: no arrivals
}

// maxArrivals bounds the record to the latest submissions, and maxLater those that a draw replays.
const (
	maxArrivals = 10_000
	maxLater    = 2_000
)

// addArrivals records the submissions of the history and of the present jobs.
func (c *cluster) addArrivals(h *History) {
	var all []*Job
	for _, list := range [][]Job{h.Jobs, c.q.Running, c.q.Waiting} {
		for i := range list {
			if s := list[i].Submitted; !s.IsZero() && !s.Before(h.Since) && !s.After(c.q.Now) {
				all = append(all, &list[i])
			}
		}
	}
	if len(h.Jobs) == 0 || len(all) == 0 {
		return
	}
	slices.SortStableFunc(all, func(a, b *Job) int { return a.Submitted.Compare(b.Submitted) })
	since := h.Since
	if len(all) > maxArrivals || since.IsZero() {
		all = all[max(len(all)-maxArrivals, 0):]
		since = all[0].Submitted
	}
	priority := map[string]float64{}
	for _, job := range all {
		j := *job
		p, ok := priority[j.User]
		if !ok {
			p = c.q.arrivalPriority(j.User)
			priority[j.User] = p
		}
		j.Priority, j.NotBefore = p, time.Time{}
		t, err := c.newTask(&j)
		if err != nil {
			t.shape = -1
		}
		t.submitted = j.Submitted.Sub(since).Seconds()
		c.arrivals.jobs = append(c.arrivals.jobs, t)
	}
	c.arrivals.length = c.q.Now.Sub(since).Seconds()
}

// replay is the position of a draw in the record.
type replay struct {
	next   int     // in arrivals.jobs
	count  int     // of replayed submissions
	offset float64 // time of the simulation minus time of the record, s
}

const day = 24 * 60 * 60

// startReplay chooses the time from which the record is replayed: about the present time of a random day, or any time of
// a record of less than two days.
func (s *simulation) startReplay() {
	length := s.arrivals.length
	if s.byLimits || length <= 0 {
		return
	}
	from := s.rand.Float64() * length
	if days := int(length / day); days >= 2 {
		from = length - day*float64(1+s.rand.IntN(days)) + 3600*(2*s.rand.Float64()-1)
	}
	jobs := s.arrivals.jobs
	s.replay = replay{offset: -from}
	s.replay.next, _ = slices.BinarySearchFunc(jobs, from, func(t task, at float64) int {
		if t.submitted < at {
			return -1
		}
		return 1
	})
	s.wrap()
}

// wrap sets the time of the next submission. After the end of the record it continues at the beginning.
func (s *simulation) wrap() {
	if s.replay.count == maxLater {
		s.next = math.Inf(1)
		return
	}
	if s.replay.next == len(s.arrivals.jobs) {
		s.replay.next = 0
		s.replay.offset += s.arrivals.length
	}
	s.next = s.arrivals.jobs[s.replay.next].submitted + s.replay.offset
}

// submit adds the next arrival, which enters the queue after the latency of the system.
func (s *simulation) submit() {
	t := s.arrivals.jobs[s.replay.next]
	s.replay.next++
	s.replay.count++
	s.wrap()
	if t.shape < 0 {
		return
	}
	t.index = int32(len(s.tasks))
	t.submitted = s.now
	s.tasks = append(s.tasks, t)
	s.started = append(s.started, nan)
	s.entering.Insert(order.Release{At: s.now + s.latency(), Job: t.index})
}
