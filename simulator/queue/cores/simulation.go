package cores

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// tolerance is the time, s, by which a job may end too early so that it ends together with what else happens then.
const tolerance = 1e-9

// Kind is what an event is about.
type Kind uint8

const (
	Ended     Kind = iota // a job ended: its outcome says whether by itself or at its limit
	Stopped               // a job was killed, as Kill asked for
	Submitted             // a job arrived
	Woken                 // the time has come for which Wake asked; Job is −1
	Changed               // states were changed, as SetState asked for; Job is −1
)

// Event is something that happened at an instant.
type Event struct {
	Kind Kind
	Job  int32 // its place in the workload
}

// Simulation runs jobs where and when it is told to: Next goes to the next instant at which something happens, Events says what,
// and Start, SetState, Kill, Reject and Wake are the answer, before Next is called again. A job advances at the speed of its
// slowest core at each moment; it ends when each of its cores has executed the job's operations. A job without operations is a
// delay, which takes its run time whatever the speed.
//
// Conventions, where Batsim leaves a choice: of one instant, the ends come first, in the order of job numbers, then the submissions
// in the order of the workload; states that were changed are acknowledged by another step at the same instant.
//
// A step costs O(e log n + c) for e events among n running jobs and c cores whose state or job changes. Not for several goroutines.
type Simulation struct {
	tree    *platform.Tree
	jobs    []queue.Job
	arrival []int32 // jobs in the order of submission
	speed   []float64
	kind    []int32           // of each core: its place in watts
	watts   []float64         // the different powers at work
	draw    [][states]float64 // of each of them in each state, W

	now     float64
	arrived int // of arrival
	begun   bool
	events  []Event
	count   int
	err     error

	state   []uint8
	serves  []int32         // the job of each core, −1 none
	idling  [][states]int32 // how many cores of each power are in each state
	power   float64         // W now
	stale   bool            // power is to be computed again
	energy  float64         // J since the first submission
	spent   float64         // energy at the last end
	run     []run           // of each job
	ends    []int32         // running jobs: a heap by end
	unclear []int32         // jobs whose speed may have changed
	killed  []int32         // to be acknowledged
	wakes   []float64       // ascending
	changed bool            // states were changed in this step
	arena   []int32         // where allocations are kept
	result  struct{ switches, grouped int }
}

// run is what is known of a job.
type run struct {
	state      queue.State
	unclear    bool
	place      int32 // in ends, −1 not running
	cores      []int32
	start, end float64 // end is expected while it runs
	left       float64 // operations of each core at time last; of a delay seconds
	rate       float64 // operations a second
	last       float64
}

// NewSimulation is a simulation that stands before the first submission. The jobs are read, never written, and must stay as they
// are. The error names each job that makes no sense: one that asks for no core, or whose times are not numbers.
func NewSimulation(tree *platform.Tree, jobs []queue.Job) (*Simulation, error) {
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

func check(jobs []queue.Job) error {
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
			return fmt.Errorf("simulate %s: it asks for %d cores, want at least 1", name(j), j.Procs)
		case math.IsNaN(j.Submit) || math.IsInf(j.Submit, 0):
			return fmt.Errorf("simulate %s: it is submitted at %v s, want a time", name(j), j.Submit)
		case !finite(j.Ops, j.Run, j.Limit, j.Memory, j.Bandwidth):
			return fmt.Errorf("simulate %s: operations %v, run time %v, limit %v, memory %v, bandwidth %v: want numbers of at least 0",
				name(j), j.Ops, j.Run, j.Limit, j.Memory, j.Bandwidth)
		}
	}
	return nil
}

func name(j *queue.Job) string {
	if j.Name != "" {
		return "job " + j.Name
	}
	return fmt.Sprintf("job %d", j.ID)
}

// RoundPower rounds the power of a core in each state to 1 mW, as the platform files have it that HDeepRM writes for Batsim. It is
// for before the first step.
func (s *Simulation) RoundPower() {
	for k := range s.draw {
		for state, watts := range s.draw[k] {
			s.draw[k][state], _ = strconv.ParseFloat(strconv.FormatFloat(watts, 'f', 3, 64), 64)
		}
	}
}

// Reset goes back to before the first submission. It allocates nothing.
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
		s.state[c], s.serves[c] = Asleep, -1
		s.idling[s.kind[c]][Asleep]++
	}
	for i := range s.run {
		s.run[i] = run{place: -1, start: math.NaN(), end: math.NaN()}
	}
}

// Now is the time, s.
func (s *Simulation) Now() float64 { return s.now }

// Events are those of the last step. They are overwritten by the next.
func (s *Simulation) Events() []Event { return s.events }

// Arrivals is the number of jobs that are still to be submitted.
func (s *Simulation) Arrivals() int { return len(s.arrival) - s.arrived }

// Err is why Next ended before its time; nil when it did not. Errors of commands are those commands' own.
func (s *Simulation) Err() error { return s.err }

// Cores are those on which a job runs or ran, as they were given; nil when it was never started. They are overwritten after Reset.
func (s *Simulation) Cores(job int32) []int32 { return s.run[job].cores }

// Outcome is what has become of a job until now. Its cores are overwritten after Reset.
func (s *Simulation) Outcome(job int32) queue.Outcome {
	r := &s.run[job]
	o := queue.Outcome{Job: &s.jobs[job], State: r.state, Start: r.start, End: r.end, Cores: r.cores}
	if r.state == queue.Running {
		o.End = math.NaN()
	}
	return o
}

// Left is the part of a running job that is still to be done, 1 … 0; 1 before it starts, 0 after it ended.
func (s *Simulation) Left(job int32) float64 {
	r := &s.run[job]
	switch r.state {
	case queue.Waiting:
		return 1
	case queue.Running:
	default:
		return 0
	}
	all := work(&s.jobs[job])
	if all <= 0 {
		return 0
	}
	return min(1, max(0, (r.left-r.rate*(s.now-r.last))/all))
}

// work is what each core does for a job: operations, or seconds of a delay.
func work(j *queue.Job) float64 {
	if j.Ops > 0 {
		return j.Ops
	}
	return j.Run
}

// Energy is what all cores have used since the first submission, J.
func (s *Simulation) Energy() float64 { return s.energy }

// Next goes to the next instant at which something happens. It is false when nothing will happen any more, or when a job cannot
// go on (Err): it was started on cores whose state does not compute and that were not set to another at the same instant.
func (s *Simulation) Next() bool {
	if s.err != nil || !s.settle() {
		return false
	}
	s.events = s.events[:0]
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

// next is the time of the next event, +∞ when there is none.
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

// finish ends the jobs whose time has come.
func (s *Simulation) finish() {
	for len(s.ends) > 0 && s.run[s.ends[0]].end <= s.now+tolerance {
		job := s.ends[0]
		r, j := &s.run[job], &s.jobs[job]
		state := queue.Completed
		if j.Limit > 0 && r.last+r.left/r.rate > r.start+j.Limit+tolerance {
			state = queue.Killed
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

func (s *Simulation) submit() {
	for s.arrived < len(s.arrival) && s.jobs[s.arrival[s.arrived]].Submit <= s.now {
		s.events = append(s.events, Event{Submitted, s.arrival[s.arrived]})
		s.arrived++
		s.begun = true
	}
}

// end frees the cores of a running job.
func (s *Simulation) end(job int32, state queue.State) {
	r := &s.run[job]
	s.remove(r.place)
	r.state, r.end, r.place = state, s.now, -1
	for _, c := range r.cores {
		s.serves[c] = -1
	}
	s.spent = s.energy
}

// settle finds the speed of each job for which it may have changed; false when one has none.
func (s *Simulation) settle() bool {
	for _, job := range s.unclear {
		r := &s.run[job]
		r.unclear = false
		if r.state != queue.Running {
			continue
		}
		rate := math.Inf(1)
		for _, c := range r.cores {
			if v := s.speed[c] * speedOf[s.state[c]]; v < rate {
				if rate = v; v == 0 {
					s.err = fmt.Errorf("run %s at %v s: core %d is in state P%d, which does not compute: set it to P0 or P1 when the job starts", name(&s.jobs[job]), s.now, c, s.state[c])
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

func (s *Simulation) unsettle(job int32) {
	if r := &s.run[job]; !r.unclear {
		r.unclear = true
		s.unclear = append(s.unclear, job)
	}
}

// Result is what has become of the jobs until now, and what it took. It stays as it is after Reset.
func (s *Simulation) Result() *queue.Result {
	r := &queue.Result{
		Jobs: make([]queue.Outcome, len(s.jobs)), Procs: s.tree.Cores, Events: s.count, Energy: s.spent,
		Switches: s.result.switches, GroupedSwitches: s.result.grouped,
	}
	for i := range r.Jobs {
		r.Jobs[i] = s.Outcome(int32(i))
		r.Jobs[i].Cores = slices.Clone(r.Jobs[i].Cores)
	}
	return r
}
