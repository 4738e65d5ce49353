package queue

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"trainopt/simulator/engine"
)

// Run simulates the jobs until the last one ends. A job larger than the machine is Rejected at submission; a job that
// reaches its Limit is Killed. Events of the same time are processed before any job starts, ends before submissions.
//
// When ctx is cancelled, Run returns the partial result with the error: running jobs are Running, waiting jobs
// Waiting.
//
// Cost: O(log running) per event, and O(waiting) per end while jobs wait; with conservative backfilling O(waiting²)
// per early end.
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("simulate a queue: %w", err)
	}
	m := newMachine(&c)
	how := backfills[c.Backfill]
	if c.Backfill == "" {
		how = backfills["none"]
	}
	if c.AsPublished && (c.Backfill == "" || c.Backfill == "none") {
		how = func(ctx context.Context, m *machine) error { return runPatient(ctx, m, false) }
	}
	err := how(ctx, m)
	if err != nil {
		err = fmt.Errorf("simulate a queue: stopped at %v s with %d of %d jobs ended: %w", m.now, m.done, len(m.tasks), err)
	}
	if c.Progress != nil {
		c.Progress(m.done, len(m.tasks))
	}
	return m.result, err
}

// task is the part of a job that the simulation requires. Tasks are in order of submission.
type task struct {
	submit, run, estimate float64 // run is cut at the limit, s
	procs                 int32
	job                   int32 // index in the workload
}

// waiter is a task in the queue.
type waiter struct {
	score, estimate float64
	task, procs     int32
}

func (a waiter) compare(b waiter) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.task, b.task))
}

// due is the expected end of a running task.
type due struct {
	at          float64
	task, procs int32
}

// machine is the state of a simulation.
type machine struct {
	config *Config
	order  Order
	result *Result
	tasks  []task

	now     float64
	free    int32
	arrived int // number of tasks submitted: tasks[:arrived]
	done    int // number of tasks that ended or were rejected
	queue   []waiter
	first   int // queue[first:] wait, the head first
	ends    engine.Queue[int32]

	// Set only where track is: running tasks in descending order of their estimated ends, and these ends by task.
	track    bool
	expected []due
	estimate []float64

	// Tasks since the last pass of the backfill.
	fresh []int32 // tasks that arrived
	ended []int32
}

// newMachine returns an idle machine with the jobs of c as tasks, sorted by submission time and ID.
func newMachine(c *Config) *machine {
	m := &machine{config: c, order: c.order(), free: int32(c.Procs), tasks: make([]task, len(c.Jobs))}
	m.result = &Result{Jobs: make([]Outcome, len(c.Jobs)), Procs: c.Procs, Energy: math.NaN()}
	sorted := true
	for i := range c.Jobs {
		j := &c.Jobs[i]
		m.result.Jobs[i] = Outcome{Job: j, Start: math.NaN(), End: math.NaN()}
		t := task{submit: j.Submit, run: j.Run, estimate: j.Request, procs: int32(min(j.Procs, math.MaxInt32)), job: int32(i)}
		if t.estimate <= 0 {
			t.estimate = j.Run
		}
		if j.Limit > 0 {
			t.run, t.estimate = min(t.run, j.Limit), min(t.estimate, j.Limit)
		}
		m.tasks[i] = t
		sorted = sorted && (i == 0 || cmp.Or(cmp.Compare(c.Jobs[i-1].Submit, j.Submit), cmp.Compare(c.Jobs[i-1].ID, j.ID)) <= 0)
	}
	if !sorted {
		slices.SortStableFunc(m.tasks, func(a, b task) int {
			return cmp.Or(cmp.Compare(a.submit, b.submit), cmp.Compare(c.Jobs[a.job].ID, c.Jobs[b.job].ID))
		})
	}
	return m
}

// backfill decides which tasks start, after all events of an instant have been processed.
type backfill interface {
	pass(m *machine)
}

// run is the event loop: each iteration advances to the next instant with events, processes its ends and then its
// submissions, and lets the backfill start tasks. It checks the context and reports progress every 4096 instants.
func (m *machine) run(ctx context.Context, b backfill) error {
	for turn := 0; ; turn++ {
		if turn%4096 == 0 {
			if err := m.breathe(ctx); err != nil {
				return err
			}
		}
		next, any := m.ends.Peek()
		if m.arrived < len(m.tasks) && (!any || m.tasks[m.arrived].submit < next) {
			next, any = m.tasks[m.arrived].submit, true
		}
		if !any {
			return nil
		}
		m.now = next
		for at, some := m.ends.Peek(); some && at == next; at, some = m.ends.Peek() {
			_, t := m.ends.Pop()
			m.end(t)
		}
		for m.arrived < len(m.tasks) && m.tasks[m.arrived].submit == next {
			m.arrive()
		}
		b.pass(m)
		m.fresh, m.ended = m.fresh[:0], m.ended[:0]
	}
}

// breathe reports progress and returns the error of the context.
func (m *machine) breathe(ctx context.Context) error {
	if m.config.Progress != nil {
		m.config.Progress(m.done, len(m.tasks))
	}
	return ctx.Err()
}

// arrive submits the next task. A task that exceeds the machine is rejected. Otherwise it is inserted into the queue
// by score: at the end for most orders, which costs O(1), else by binary search.
func (m *machine) arrive() {
	t := int32(m.arrived)
	m.arrived++
	m.result.Events++
	k := &m.tasks[t]
	if int(k.procs) > m.config.Procs {
		m.result.Jobs[k.job].State = Rejected
		m.done++
		return
	}
	m.fresh = append(m.fresh, t)
	w := waiter{m.score(t), k.estimate, t, k.procs}
	if n := len(m.queue); n == m.first || m.queue[n-1].compare(w) < 0 {
		if m.first > n/2 && n == cap(m.queue) { // reuse the free space in front before growing
			m.queue = m.queue[:copy(m.queue, m.queue[m.first:])]
			m.first = 0
		}
		m.queue = append(m.queue, w)
		return
	}
	at, _ := slices.BinarySearchFunc(m.waiting(), w, waiter.compare)
	if at == 0 && m.first > 0 {
		m.first--
		m.queue[m.first] = w
		return
	}
	m.queue = slices.Insert(m.queue, m.first+at, w)
}

// score returns the score of task t at the present time, +∞ for NaN.
func (m *machine) score(t int32) float64 {
	k := &m.tasks[t]
	s := m.order.Score(m.result.Jobs[k.job].Job, m.now-k.submit)
	if math.IsNaN(s) {
		return math.Inf(1)
	}
	return s
}

// waiting returns the queue, the head first.
func (m *machine) waiting() []waiter { return m.queue[m.first:] }

// resort sorts a queue whose scores change with time. The queue is nearly sorted, so that the cost is about
// O(waiting).
func (m *machine) resort() {
	w := m.waiting()
	if !m.order.Aging || len(w) < 2 {
		return
	}
	for i := range w {
		w[i].score = m.score(w[i].task)
	}
	slices.SortFunc(w, waiter.compare)
}

// start starts the waiter at the given position and removes it from the queue.
func (m *machine) start(place int) {
	w := m.waiting()
	m.begin(w[place])
	copy(w[1:place+1], w[:place])
	m.first++
}

// begin starts a waiter; the caller removes it from the queue.
func (m *machine) begin(w waiter) {
	k := &m.tasks[w.task]
	m.free -= k.procs
	o := &m.result.Jobs[k.job]
	o.Start, o.State = m.now, Running
	m.ends.Push(m.now+k.run, w.task)
	if m.track {
		m.estimate[w.task] = m.now + k.estimate
		m.expect(w.task)
	}
}

// expect inserts a running task into the expected ends.
func (m *machine) expect(t int32) {
	d := due{m.estimate[t], t, m.tasks[t].procs}
	at := m.place(d.at)
	m.expected = slices.Insert(m.expected, at, d)
}

// place returns the index of the first expected end that is not later than at.
func (m *machine) place(at float64) int {
	lo, hi := 0, len(m.expected)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); m.expected[mid].at > at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}

// forget removes a task from the expected ends.
func (m *machine) forget(t int32) {
	at := m.place(m.estimate[t])
	for m.expected[at].task != t {
		at++
	}
	m.expected = slices.Delete(m.expected, at, at+1)
}

// end completes a running task, or marks it killed where it reached its limit, and frees its processors.
func (m *machine) end(t int32) {
	k := &m.tasks[t]
	m.free += k.procs
	m.done++
	m.result.Events++
	o := &m.result.Jobs[k.job]
	o.End, o.State = m.now, Completed
	if limit := o.Job.Limit; limit > 0 && o.Job.Run > limit {
		o.State = Killed
	}
	m.ended = append(m.ended, t)
	if m.track {
		m.forget(t)
	}
}
