package engine

import (
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// simulation is one draw of the future of a queue. It is reused for several draws, one after the other.
type simulation struct {
	*cluster
	urn  *urn
	rand *rand.Rand
	// rules are those of the scheduler, in some draws with a more permissive backfilling.
	rules Scheduler
	// byLimits makes every job run to its limit, without latency and later arrivals: the plan of a scheduler.
	byLimits bool
	horizon  float64
	all      bool // until every waiting job has started, not only the job in question

	now      float64
	free     []int32
	active   [][]held
	tasks    []task
	started  []float64 // by task; NaN: not yet
	waiting  []int32   // in order of rank
	ends     order.Releases
	entering order.Releases // tasks that enter the queue
	replay   replay
	next     float64 // time of the next submission; +Inf: none
	pass     float64 // time of the next pass of backfilling; +Inf: not needed
	phase    float64 // of the passes, s
	left     int     // present jobs of interest that have not started

	plan plan
	// nodes on which the pass by priority may start no further job, by number of the pass
	blocked []int32
	passes  int32
	chosen  []take
	// states of the nodes, and by take of all shapes the state in which a time of freeFrom was computed
	versions, freeVersions []int32
	freeTimes              []float64
	// state counts starts and ends; by set of nodes, the ends of the windows in which its jobs are planned to end, and the
	// state in which they were computed
	state     int32
	windows   [][]float64
	windowsAt []int32
	ascending []float64
}

func newSimulation(c *cluster) *simulation {
	s := &simulation{cluster: c, urn: newUrn(c.runs)}
	s.free = make([]int32, len(c.free))
	s.active = make([][]held, len(c.active))
	s.blocked = make([]int32, len(c.active))
	s.versions = make([]int32, len(c.active))
	s.freeTimes, s.freeVersions = make([]float64, c.takes), make([]int32, c.takes)
	s.windows, s.windowsAt = make([][]float64, len(c.sets)), make([]int32, len(c.sets))
	s.plan.init(c)
	return s
}

// permissive is the share of the draws in which backfilling reserves only for the first job that cannot start, and no whole
// nodes: Slurm starts some jobs that, by its documented rules, would delay a reservation.
const permissive = 0.125

// run simulates until the jobs of interest have started or the horizon is reached.
func (s *simulation) run(r *rand.Rand) {
	s.reset(r)
	s.schedule(0)
	for s.left > 0 {
		t := min(s.nextEvent(), s.pass)
		if t > s.horizon {
			return
		}
		s.now = t
		changed := s.processEnds()
		changed = s.processEntries() || changed
		if t == s.next {
			s.submit()
		}
		if changed {
			s.schedule(t)
		}
		if s.now >= s.pass {
			s.pass = math.Inf(1)
			s.backfill()
		}
	}
}

// reset restores the present state of the queue and draws the rest of the running jobs.
func (s *simulation) reset(r *rand.Rand) {
	s.now, s.rand, s.pass, s.next = 0, r, math.Inf(1), math.Inf(1)
	s.urn.reset(r)
	s.state++
	if s.rules = s.q.Scheduler; !s.byLimits && s.rules.Interval > 0 && s.rand.Float64() < permissive {
		s.rules.Reservations, s.rules.WholeNodes, s.rules.EndWindow = 1, false, 0
	}
	copy(s.free, s.cluster.free)
	for i, l := range s.cluster.active {
		s.active[i] = append(s.active[i][:0], l...)
		s.versions[i]++
	}
	s.tasks = append(s.tasks[:0], s.cluster.tasks...)
	s.waiting = append(s.waiting[:0], s.cluster.waiting...)
	s.ends, s.entering, s.started = s.ends[:0], s.entering[:0], s.started[:0]
	for range s.tasks {
		s.started = append(s.started, nan)
	}
	s.left = 1
	if s.all {
		s.left += len(s.cluster.waiting) + len(s.delayed)
	}
	for _, id := range s.delayed {
		s.entering.Insert(order.Release{At: s.tasks[id].earliest, Job: id})
	}
	s.entering.Insert(order.Release{At: max(s.tasks[s.target].earliest, s.latency()), Job: s.target})
	running := len(s.tasks) - len(s.waiting) - len(s.delayed) - 1
	for id := range running {
		s.end(int32(id))
	}
	if interval := s.q.Scheduler.Interval.Seconds(); interval > 0 && !s.byLimits {
		s.phase = r.Float64() * interval
	} else {
		s.phase = 0
	}
	s.startReplay()
}

// end draws the end of a running job.
func (s *simulation) end(id int32) {
	t := &s.tasks[id]
	at := t.started + t.limit
	if !s.byLimits {
		at = t.started + t.limit*s.urn.draw(t.group, max(s.now-t.started, 0)/t.limit)
	}
	if at <= s.now && t.started < s.now { // overdue
		at = s.now + overdue
	}
	s.ends.Insert(order.Release{At: at + s.latency(), Job: id})
}

func (s *simulation) latency() float64 {
	l := s.q.Scheduler.Latency.Seconds()
	if l == 0 || s.byLimits {
		return 0
	}
	return l * s.rand.Float64()
}

func (s *simulation) nextEvent() float64 {
	t := s.next
	if n := len(s.ends); n > 0 {
		t = min(t, s.ends[n-1].At)
	}
	if n := len(s.entering); n > 0 {
		t = min(t, s.entering[n-1].At)
	}
	return t
}

// processEnds frees the resources of the jobs that have ended by now.
func (s *simulation) processEnds() bool {
	any := false
	for n := len(s.ends); n > 0 && s.ends[n-1].At <= s.now; n = len(s.ends) {
		id := s.ends[n-1].Job
		s.ends = s.ends[:n-1]
		for _, k := range s.tasks[id].takes {
			addTake(s.free[k.node*s.stride:], k, 1)
			l := s.active[k.node]
			at := slices.IndexFunc(l, func(h held) bool { return h.task == id })
			s.active[k.node] = slices.Delete(l, at, at+1)
			s.versions[k.node]++
			s.state++
		}
		any = true
	}
	return any
}

// processEntries moves the jobs that have arrived by now to the queue.
func (s *simulation) processEntries() bool {
	any := false
	for n := len(s.entering); n > 0 && s.entering[n-1].At <= s.now; n = len(s.entering) {
		id := s.entering[n-1].Job
		s.entering = s.entering[:n-1]
		at, _ := slices.BinarySearchFunc(s.waiting, id, func(a, b int32) int { return s.tasks[a].compare(s.tasks[b].rank) })
		s.waiting = slices.Insert(s.waiting, at, id)
		any = true
	}
	return any
}

// schedule reacts to a change: jobs start in order of priority, and a pass of backfilling is due.
func (s *simulation) schedule(t float64) {
	interval := s.q.Scheduler.Interval.Seconds()
	if interval <= 0 || s.byLimits {
		s.pass = t
		return
	}
	s.startInOrder()
	if math.IsInf(s.pass, 1) {
		s.pass = s.phase + math.Ceil((t-s.phase)/interval)*interval
	}
}

// startInOrder starts waiting jobs by priority. The first that cannot start blocks the nodes of its partitions.
func (s *simulation) startInOrder() {
	s.passes++
	free := len(s.blocked)
	kept := s.waiting[:0]
	for i, id := range s.waiting {
		if free == 0 {
			kept = append(kept, s.waiting[i:]...)
			break
		}
		if s.fitsUnblocked(&s.shapes[s.tasks[id].shape]) {
			s.start(id)
			continue
		}
		for _, n := range s.shapes[s.tasks[id].shape].blocked {
			if s.blocked[n] != s.passes {
				s.blocked[n] = s.passes
				free--
			}
		}
		kept = append(kept, id)
	}
	s.waiting = kept
}

// fitsUnblocked chooses the nodes for a job among those that are not blocked, and reports whether they suffice.
func (s *simulation) fitsUnblocked(k *shape) bool {
	s.chosen = s.chosen[:0]
	for i := range k.takes {
		t := &k.takes[i]
		if s.blocked[t.node] != s.passes && s.fitsNow(t) {
			if s.chosen = append(s.chosen, *t); len(s.chosen) == k.nodes {
				return true
			}
		}
	}
	return false
}

func (s *simulation) fitsNow(t *take) bool {
	f := s.free[t.node*s.stride:]
	return t.cpus <= f[0] && t.mib <= f[1] && (t.gpus == 0 || t.gpus <= f[2+t.kind])
}

// start starts a job on the chosen nodes; the caller removes it from the queue.
func (s *simulation) start(id int32) {
	t := &s.tasks[id]
	t.started = s.now
	t.takes = append([]take(nil), s.chosen...)
	for _, k := range t.takes {
		addTake(s.free[k.node*s.stride:], k, -1)
		s.active[k.node] = insertHeld(s.active[k.node], held{k, s.now + t.limit, id})
		s.versions[k.node]++
		s.state++
	}
	s.started[id] = s.now
	if id == s.target || s.all && id < int32(len(s.cluster.tasks)) {
		s.left--
	}
	s.end(id)
}

var nan = math.NaN()
