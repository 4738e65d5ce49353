package queue

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// state is the state of the machine, the running jobs and the queue, as visible to a scheduler. It does not contain
// true run times.
type state struct {
	Tree    *platform.Tree
	Machine *Machine
	Jobs    []order.Job
	Now     float64 // s

	fastest float64   // speed of the fastest core, GFLOPS
	work    []float64 // requested work per core, by job: operations, or seconds of a delay
	running []running
	slot    []int32 // index in running, by job, −1 if not running
	waiting []waiter
	arrived int
	dirty   []int32 // running jobs whose speed may have changed
	arena   []int32
	history []float64 // of past jobs, the work done as a share of the work requested
	truth   []float64 // in a rollout: sampled work per core, by job; otherwise nil
}

// running is a running job. Work is per core.
type running struct {
	job         int32
	cores       []int32
	start, last float64
	left        float64 // expected work remaining at last
	rate        float64 // work per second
	end         float64 // expected end, s
	done        float64 // work done by last
	real        float64 // in a rollout: true work remaining at last
}

// waiter is a queued job; seq is its position in order of arrival, which breaks ties.
type waiter struct {
	score float64
	seq   int32
	job   int32
}

func newState(tree *platform.Tree, jobs []order.Job) *state {
	s := &state{Tree: tree, Machine: NewMachine(tree), Jobs: jobs, work: make([]float64, len(jobs)), slot: make([]int32, len(jobs))}
	for i := range jobs {
		s.slot[i] = -1
		s.work[i] = requestedWork(tree, &jobs[i])
	}
	for _, p := range tree.Processors {
		s.fastest = max(s.fastest, p.GFLOPS)
	}
	s.Machine.Watch = s.watch
	return s
}

// requestedWork returns the requested work of each core of a job: operations, or seconds of a delay. A job without a request
// counts with its true work.
func requestedWork(tree *platform.Tree, j *order.Job) float64 {
	switch {
	case j.Ops == 0 && j.Request > 0:
		return j.Request
	case j.Ops == 0:
		return j.Run
	case j.RequestOps > 0:
		return j.RequestOps
	case j.Request > 0:
		return j.Request * tree.Reference * 1e9
	}
	return j.Ops
}

// watch marks a running job whose speed changes; see Machine.Watch.
func (s *state) watch(_, owner int32) {
	if s.slot[owner] >= 0 && (len(s.dirty) == 0 || s.dirty[len(s.dirty)-1] != owner) {
		s.dirty = append(s.dirty, owner)
	}
}

// rate returns the speed of a job on cores in their present states, in units of work per second.
func (s *state) rate(job int32, where []int32) float64 {
	if s.Jobs[job].Ops == 0 {
		return 1
	}
	return s.Machine.Rate(where)
}

// seconds returns the duration of a job's requested work at a rate, s, cut at its limit.
func (s *state) seconds(job int32, rate float64) float64 {
	t := s.work[job] / rate
	if l := s.Jobs[job].Limit; l > 0 {
		t = min(t, l)
	}
	return t
}

// rateAt returns the rate of a job on cores of the given speed, GFLOPS, in units of work per second.
func (s *state) rateAt(job int32, gflops float64) float64 {
	if s.Jobs[job].Ops == 0 {
		return 1
	}
	return gflops * 1e9
}

// secondsAt returns the duration of a job's requested work on cores of the given speed, GFLOPS, s.
func (s *state) secondsAt(job int32, gflops float64) float64 {
	return s.seconds(job, s.rateAt(job, gflops))
}

// start adds a running job whose cores the machine has already assigned.
func (s *state) start(job int32, where []int32) {
	if len(s.arena)+len(where) > cap(s.arena) { // running jobs keep slices of the old array
		s.arena = make([]int32, 0, max(4096, len(where)))
	}
	from := len(s.arena)
	s.arena = append(s.arena, where...)
	s.slot[job] = int32(len(s.running))
	s.running = append(s.running, running{job: job, cores: s.arena[from:len(s.arena):len(s.arena)], start: s.Now, last: s.Now, left: s.work[job]})
	r := &s.running[len(s.running)-1]
	if s.truth != nil {
		r.real = s.truth[job]
	}
	s.refresh(r)
	s.settle()
}

// finish removes a running job and frees its cores.
func (s *state) finish(job int32) {
	at := s.slot[job]
	s.slot[job] = -1
	s.Machine.Release(&s.Jobs[job], s.running[at].cores)
	last := len(s.running) - 1
	if int(at) != last {
		s.running[at] = s.running[last]
		s.slot[s.running[at].job] = at
	}
	s.running = s.running[:last]
	s.settle()
}

// settle recomputes the jobs whose speed may have changed.
func (s *state) settle() {
	for _, job := range s.dirty {
		if at := s.slot[job]; at >= 0 {
			s.refresh(&s.running[at])
		}
	}
	s.dirty = s.dirty[:0]
}

// refresh updates progress, rate and expected end of a running job.
func (s *state) refresh(r *running) {
	r.advance(s.Now)
	r.rate = s.rate(r.job, r.cores)
	r.end = s.Now + max(0, r.left)/r.rate
	if l := s.Jobs[r.job].Limit; l > 0 {
		r.end = min(r.end, r.start+l)
	}
}

func (r *running) advance(now float64) {
	did := r.rate * (now - r.last)
	r.left -= did
	r.real -= did
	r.done += did
	r.last = now
}

// extendOverdue extends jobs that exceed their request: each is expected to require a further tenth of its request.
func (s *state) extendOverdue() {
	for i := range s.running {
		r := &s.running[i]
		if r.end <= s.Now {
			r.advance(s.Now)
			r.left = max(s.work[r.job]*0.1, r.rate)
			r.end = s.Now + r.left/r.rate
		}
	}
}

// enqueue inserts a job into the queue.
func (s *state) enqueue(job int32, o *order.Order) {
	w := waiter{score: o.Rank(&s.Jobs[job], 0), seq: int32(s.arrived), job: job}
	s.arrived++
	at, _ := slices.BinarySearchFunc(s.waiting, w, compare)
	s.waiting = slices.Insert(s.waiting, at, w)
}

// sort recomputes the scores and sorts the queue.
func (s *state) sort(o *order.Order) {
	for i := range s.waiting {
		w := &s.waiting[i]
		w.score = o.Rank(&s.Jobs[w.job], s.Now-s.Jobs[w.job].Submit)
	}
	slices.SortFunc(s.waiting, compare)
}

// compare orders waiters by score, then by arrival.
func compare(a, b waiter) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.seq, b.seq))
}

// copyFrom copies another state of the same jobs. The history is shared.
func (s *state) copyFrom(o *state) {
	s.Now, s.arrived, s.history = o.Now, o.arrived, o.history
	s.Machine.CopyFrom(o.Machine)
	s.running = append(s.running[:0], o.running...)
	s.waiting = append(s.waiting[:0], o.waiting...)
	copy(s.slot, o.slot)
	s.dirty, s.arena = s.dirty[:0], s.arena[:0]
}

// power returns the present power of all cores, W.
func (s *state) power() float64 {
	sum := 0.0
	for i := range s.Tree.Processors {
		sum += s.Machine.Power(int32(i), powerOf[Ready])
	}
	return sum
}
