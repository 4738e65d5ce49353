package queue

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// tolerance, s, is how much earlier than its computed end a job may end in order to coincide with another event.
const tolerance = 1e-9

// Kind is the kind of an event.
type Kind uint8

const (
	Ended     Kind = iota // a job completed or reached its limit; see its outcome
	Stopped               // a job was stopped by Kill
	Submitted             // a job arrived
	Woken                 // a time requested by Wake was reached; Job is −1
	Changed               // states were changed by SetState; Job is −1
)

// Event is an occurrence at one instant.
type Event struct {
	Kind Kind
	Job  int32 // index in the workload
}

// Simulation executes the commands of a scheduler. Next advances to the next instant with events and Events returns
// them; the scheduler responds with Start, SetState, Kill, Reject and Wake before it calls Next again. A job
// progresses at the speed of its slowest core and ends when each of its cores has executed the job's operations. A
// job without operations is a delay, whose run time does not depend on speed.
//
// Conventions, where Batsim leaves a choice: within an instant, ends come first, in order of job IDs, then
// submissions in the order of the workload; changed states are acknowledged by a further step at the same instant.
//
// A step costs O(e log n + c) for e events among n running jobs and c cores whose state or job changes. A Simulation
// is not safe for concurrent use.
type Simulation struct {
	tree    *platform.Tree
	jobs    []order.Job
	arrival []int32 // jobs in the order of submission
	speed   []float64
	kind    []int32           // index in watts, by core
	watts   []float64         // distinct active powers, W
	draw    [][states]float64 // power by kind and state, W

	now     float64
	arrived int // number of jobs submitted, in arrival
	begun   bool
	events  []Event
	count   int
	err     error

	state   []uint8
	serves  []int32         // job by core, −1 means none
	idling  [][states]int32 // number of cores by kind and state
	power   float64         // present power, W
	stale   bool            // power must be recomputed
	energy  float64         // J since the first submission
	spent   float64         // energy at the last end, J
	run     []run           // by job
	ends    []int32         // running jobs: a heap by expected end
	unclear []int32         // jobs whose speed may have changed
	killed  []int32         // jobs to be acknowledged as Stopped
	wakes   []float64       // ascending
	changed bool            // states were changed in this step
	arena   []int32         // storage of allocations
	result  struct{ switches, grouped int }
}

// run is the state of one job.
type run struct {
	state      State
	unclear    bool
	place      int32 // in ends, −1 means not running
	cores      []int32
	start, end float64 // end is an estimate while the job runs
	left       float64 // operations (of a delay, seconds) remaining per core at time last
	rate       float64 // operations per second
	last       float64
}

// NewSimulation returns a simulation before its first submission. It reads the jobs, which must not be modified. The
// error describes the first invalid job: one that requests no core, or has times or demands that are not finite.
func NewSimulation(tree *platform.Tree, jobs []order.Job) (*Simulation, error) {
	if err := check(jobs); err != nil {
		return nil, err
	}
	s := &Simulation{
		tree: tree, jobs: jobs,
		arrival: make([]int32, len(jobs)), run: make([]run, len(jobs)),
		speed: make([]float64, tree.Cores), kind: make([]int32, tree.Cores),
		state: make([]uint8, tree.Cores), serves: make([]int32, tree.Cores),
	}
	for i := range s.arrival {
		s.arrival[i] = int32(i)
	}
	slices.SortStableFunc(s.arrival, func(a, b int32) int { return cmp.Compare(jobs[a].Submit, jobs[b].Submit) })
	for _, p := range tree.Processors {
		k := slices.Index(s.watts, p.Watts)
		if k < 0 {
			k = len(s.watts)
			s.watts = append(s.watts, p.Watts)
		}
		for c := p.First; c < p.First+p.Cores; c++ {
			s.speed[c], s.kind[c] = p.GFLOPS*1e9, int32(k)
		}
	}
	s.idling = make([][states]int32, len(s.watts))
	s.draw = make([][states]float64, len(s.watts))
	for k, watts := range s.watts {
		for state, share := range powerOf {
			s.draw[k][state] = share * watts
		}
	}
	s.Reset()
	return s, nil
}

// check returns an error for the first invalid job.
func check(jobs []order.Job) error {
	finite := func(xs ...float64) bool {
		for _, x := range xs {
			if !(x >= 0) || math.IsInf(x, 1) {
				return false
			}
		}
		return true
	}
	for i := range jobs {
		j := &jobs[i]
		switch {
		case j.Procs < 1:
			return fmt.Errorf("simulate job %s: it asks for %d cores, want at least 1", j.Label(), j.Procs)
		case math.IsNaN(j.Submit) || math.IsInf(j.Submit, 0):
			return fmt.Errorf("simulate job %s: it is submitted at %v s, want a time", j.Label(), j.Submit)
		case !finite(j.Ops, j.Run, j.Limit, j.Memory, j.Bandwidth):
			return fmt.Errorf("simulate job %s: operations %v, run time %v, limit %v, memory %v, bandwidth %v: want numbers of at least 0",
				j.Label(), j.Ops, j.Run, j.Limit, j.Memory, j.Bandwidth)
		}
	}
	return nil
}

// RoundPower rounds the power of a core in each state to 1 mW, as in the platform files that HDeepRM writes for
// Batsim. It must be called before the first step.
func (s *Simulation) RoundPower() {
	for k := range s.draw {
		for state, watts := range s.draw[k] {
			s.draw[k][state], _ = strconv.ParseFloat(strconv.FormatFloat(watts, 'f', 3, 64), 64)
		}
	}
}

// Reset returns to the state before the first submission. It does not allocate.
func (s *Simulation) Reset() {
	s.now, s.arrived, s.begun, s.count, s.err = 0, 0, false, 0, nil
	if len(s.arrival) > 0 {
		s.now = min(0, s.jobs[s.arrival[0]].Submit)
	}
	s.events, s.ends, s.unclear, s.killed, s.wakes, s.arena = s.events[:0], s.ends[:0], s.unclear[:0], s.killed[:0], s.wakes[:0], s.arena[:0]
	s.power, s.stale, s.energy, s.spent, s.changed = 0, true, 0, 0, false
	s.result.switches, s.result.grouped = 0, 0
	clear(s.idling)
	for c := range s.state {
		s.state[c], s.serves[c] = asleep, -1
		s.idling[s.kind[c]][asleep]++
	}
	for i := range s.run {
		s.run[i] = run{place: -1, start: math.NaN(), end: math.NaN()}
	}
}

// Now returns the present time, s.
func (s *Simulation) Now() float64 { return s.now }

// Events returns the events of the last step. The slice is reused by the next step.
func (s *Simulation) Events() []Event { return s.events }

// Arrivals returns the number of jobs not yet submitted.
func (s *Simulation) Arrivals() int { return len(s.arrival) - s.arrived }

// Err returns the error that stopped Next early, or nil. Commands return their own errors.
func (s *Simulation) Err() error { return s.err }

// Cores returns the cores passed to Start for a job; nil if it was not started. Reset invalidates them.
func (s *Simulation) Cores(job int32) []int32 { return s.run[job].cores }

// Outcome returns the present state of a job. Reset invalidates its cores.
func (s *Simulation) Outcome(job int32) Outcome {
	r := &s.run[job]
	o := Outcome{Job: &s.jobs[job], State: r.state, Start: r.start, End: r.end, Cores: r.cores}
	if r.state == Running {
		o.End = math.NaN()
	}
	return o
}

// Left returns the remaining fraction of a job: 1 before it starts, 0 after it ended.
func (s *Simulation) Left(job int32) float64 {
	r := &s.run[job]
	switch r.state {
	case Waiting:
		return 1
	case Running:
	default:
		return 0
	}
	all := work(&s.jobs[job])
	if all <= 0 {
		return 0
	}
	return min(1, max(0, (r.left-r.rate*(s.now-r.last))/all))
}

// work returns the work of each core of a job: operations, or for a delay seconds.
func work(j *order.Job) float64 {
	if j.Ops > 0 {
		return j.Ops
	}
	return j.Run
}

// Energy returns the energy used by all cores since the first submission, J.
func (s *Simulation) Energy() float64 { return s.energy }

// Next advances to the next instant with events. It returns false when no event remains, or when a job cannot
// progress (see Err) because it was started on cores in a state that does not compute and the state was not changed
// at that instant.
func (s *Simulation) Next() bool {
	if s.err != nil || !s.settle() {
		return false
	}
	s.events = s.events[:0]
	// Acknowledgements form a step of their own, before time advances.
	if s.changed || len(s.killed) > 0 {
		for _, j := range s.killed {
			s.events = append(s.events, Event{Stopped, j})
		}
		if s.changed {
			s.events = append(s.events, Event{Changed, -1})
		}
		s.killed, s.changed = s.killed[:0], false
	} else if at := s.next(); math.IsInf(at, 1) {
		return false
	} else {
		s.advance(at)
		s.finish()
		s.submit()
		for len(s.wakes) > 0 && s.wakes[0] <= s.now {
			s.wakes = slices.Delete(s.wakes, 0, 1)
			s.events = append(s.events, Event{Woken, -1})
		}
	}
	s.count += len(s.events)
	return true
}

// next returns the time of the next event, +∞ if none remains.
func (s *Simulation) next() float64 {
	at := math.Inf(1)
	if len(s.ends) > 0 {
		at = s.run[s.ends[0]].end
	}
	if s.arrived < len(s.arrival) {
		at = min(at, s.jobs[s.arrival[s.arrived]].Submit)
	}
	if len(s.wakes) > 0 {
		at = min(at, s.wakes[0])
	}
	return at
}

// advance moves the clock and, after the first submission, integrates power into energy. It recomputes the power
// where states changed.
func (s *Simulation) advance(to float64) {
	to = max(to, s.now)
	if s.begun && to > s.now {
		if s.stale {
			s.power, s.stale = 0, false
			for k, counts := range s.idling {
				for state, n := range counts {
					s.power += float64(n) * s.draw[k][state]
				}
			}
		}
		s.energy += s.power * (to - s.now)
	}
	s.now = to
}

// finish ends the jobs whose expected end has been reached.
func (s *Simulation) finish() {
	for len(s.ends) > 0 && s.run[s.ends[0]].end <= s.now+tolerance {
		job := s.ends[0]
		r, j := &s.run[job], &s.jobs[job]
		state := Completed
		if j.Limit > 0 && r.last+r.left/r.rate > r.start+j.Limit+tolerance {
			state = Killed
		}
		s.end(job, state)
		s.events = append(s.events, Event{Ended, job})
	}
	if len(s.events) > 1 {
		slices.SortFunc(s.events, func(a, b Event) int {
			return cmp.Or(cmp.Compare(s.jobs[a.Job].ID, s.jobs[b.Job].ID), cmp.Compare(a.Job, b.Job))
		})
	}
}

// submit reports the jobs whose submission time has been reached.
func (s *Simulation) submit() {
	for s.arrived < len(s.arrival) && s.jobs[s.arrival[s.arrived]].Submit <= s.now {
		s.events = append(s.events, Event{Submitted, s.arrival[s.arrived]})
		s.arrived++
		s.begun = true
	}
}

// end frees the cores of a running job.
func (s *Simulation) end(job int32, state State) {
	r := &s.run[job]
	s.remove(r.place)
	r.state, r.end, r.place = state, s.now, -1
	for _, c := range r.cores {
		s.serves[c] = -1
	}
	s.spent = s.energy
}

// settle updates the speed and the expected end of each job whose speed may have changed. It returns false, and sets
// err, where a job has speed 0.
func (s *Simulation) settle() bool {
	for _, job := range s.unclear {
		r := &s.run[job]
		r.unclear = false
		if r.state != Running {
			continue
		}
		rate := math.Inf(1)
		for _, c := range r.cores {
			if v := s.speed[c] * speedOf[s.state[c]]; v < rate {
				if rate = v; v == 0 {
					s.err = fmt.Errorf("run job %s at %v s: core %d is in state P%d, which does not compute: set it to P0 or P1 when the job starts", s.jobs[job].Label(), s.now, c, s.state[c])
					return false
				}
			}
		}
		j := &s.jobs[job]
		if j.Ops == 0 {
			rate = 1
		}
		if rate == r.rate {
			continue
		}
		// Account for the work at the former rate before the rate changes.
		r.left -= r.rate * (s.now - r.last)
		r.last, r.rate = s.now, rate
		r.end = s.now + max(0, r.left)/rate
		if j.Limit > 0 {
			r.end = min(r.end, r.start+j.Limit)
		}
		s.fix(r.place)
	}
	s.unclear = s.unclear[:0]
	return true
}

// markUnclear marks a job for settle.
func (s *Simulation) markUnclear(job int32) {
	if r := &s.run[job]; !r.unclear {
		r.unclear = true
		s.unclear = append(s.unclear, job)
	}
}

// Result returns the present outcomes and totals. Its data is a copy, which Reset does not affect.
func (s *Simulation) Result() *Result {
	r := &Result{
		Jobs: make([]Outcome, len(s.jobs)), Procs: s.tree.Cores, Events: s.count, Energy: s.spent,
		Switches: s.result.switches, GroupedSwitches: s.result.grouped,
	}
	for i := range r.Jobs {
		r.Jobs[i] = s.Outcome(int32(i))
		r.Jobs[i].Cores = slices.Clone(r.Jobs[i].Cores)
	}
	return r
}
