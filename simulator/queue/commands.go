package queue

import (
	"fmt"
	"math"
	"slices"
)

// Start runs a waiting job, from the present time, on the given free cores: as many as the job requests, ascending
// and distinct. It changes no power states, so cores in a state that does not compute must be set to another one
// before the next step.
func (s *Simulation) Start(job int32, cores []int32) error {
	if err := s.startable(job, cores); err != nil {
		return fmt.Errorf("start %s at %v s: %w", s.name(job), s.now, err)
	}
	r := &s.run[job]
	from := len(s.arena)
	if from+len(cores) > cap(s.arena) { // running jobs keep slices of the old array
		s.arena, from = make([]int32, 0, max(4096, 2*cap(s.arena), len(cores))), 0
	}
	s.arena = append(s.arena, cores...)
	r.cores = s.arena[from:len(s.arena):len(s.arena)]
	for _, c := range cores {
		s.serves[c] = job
	}
	r.state, r.start, r.last, r.left, r.rate, r.end = Running, s.now, s.now, work(&s.jobs[job]), 0, math.Inf(1)
	r.place = int32(len(s.ends))
	s.ends = append(s.ends, job)
	s.fix(r.place)
	s.markUnclear(job)
	return nil
}

// startable returns an error unless the job waits and the cores are valid, free, and as many as it requests.
func (s *Simulation) startable(job int32, cores []int32) error {
	if job < 0 || int(job) >= len(s.jobs) {
		return fmt.Errorf("there are %d jobs", len(s.jobs))
	}
	if err := s.waiting(job); err != nil {
		return err
	}
	if want := s.jobs[job].Procs; len(cores) != want {
		return fmt.Errorf("it got %d cores, want %d", len(cores), want)
	}
	for i, c := range cores {
		switch {
		case c < 0 || int(c) >= len(s.state):
			return fmt.Errorf("there is no core %d, they are 0…%d", c, len(s.state)-1)
		case i > 0 && c <= cores[i-1]:
			return fmt.Errorf("core %d comes after core %d, want each once, ascending", c, cores[i-1])
		case s.serves[c] >= 0:
			return fmt.Errorf("core %d is busy with %s", c, s.name(s.serves[c]))
		}
	}
	return nil
}

// waiting returns an error unless the job was submitted and neither started nor rejected.
func (s *Simulation) waiting(job int32) error {
	switch r := &s.run[job]; {
	case r.state != Waiting:
		return fmt.Errorf("it is %s already", [...]string{"waiting", "running", "completed", "killed", "rejected"}[r.state])
	case s.jobs[job].Submit > s.now:
		return fmt.Errorf("it is submitted only at %v s", s.jobs[job].Submit)
	}
	return nil
}

func (s *Simulation) name(job int32) string {
	if job < 0 || int(job) >= len(s.jobs) {
		return fmt.Sprintf("job at place %d", job)
	}
	return "job " + s.jobs[job].Label()
}

// SetState sets the state of cores, in any order. Each call with at least one core counts as one grouped switch and
// as one switch per core, including cores that were in that state already.
func (s *Simulation) SetState(cores []int32, state uint8) error {
	if state >= states {
		return fmt.Errorf("set the state of %d cores at %v s: there is no state P%d, they are P0…P%d", len(cores), s.now, state, states-1)
	}
	for _, c := range cores {
		if c < 0 || int(c) >= len(s.state) {
			return fmt.Errorf("set the state of %d cores at %v s: there is no core %d, they are 0…%d", len(cores), s.now, c, len(s.state)-1)
		}
	}
	if len(cores) == 0 {
		return nil
	}
	for _, c := range cores {
		was := s.state[c]
		if was == state {
			continue
		}
		k := &s.idling[s.kind[c]]
		k[was]--
		k[state]++
		s.state[c], s.stale = state, true
		if job := s.serves[c]; job >= 0 && speedOf[was] != speedOf[state] {
			s.markUnclear(job)
		}
	}
	s.result.grouped++
	s.result.switches += len(cores)
	s.changed = true
	return nil
}

// Kill stops a running job immediately; the next step, at the same instant, reports Stopped.
func (s *Simulation) Kill(job int32) error {
	if job < 0 || int(job) >= len(s.jobs) || s.run[job].state != Running {
		return fmt.Errorf("kill %s at %v s: it does not run", s.name(job), s.now)
	}
	s.end(job, Killed)
	s.killed = append(s.killed, job)
	return nil
}

// Reject removes a waiting job permanently.
func (s *Simulation) Reject(job int32) error {
	if job < 0 || int(job) >= len(s.jobs) {
		return fmt.Errorf("reject %s: there are %d jobs", s.name(job), len(s.jobs))
	}
	if err := s.waiting(job); err != nil {
		return fmt.Errorf("reject %s at %v s: %w", s.name(job), s.now, err)
	}
	s.run[job].state = Rejected
	return nil
}

// Wake requests a step at the given time, s, which must not be before the present time.
func (s *Simulation) Wake(at float64) error {
	if !(at >= s.now) || math.IsInf(at, 1) {
		return fmt.Errorf("wake at %v s: the time is %v s already, or that is no time", at, s.now)
	}
	i, _ := slices.BinarySearch(s.wakes, at)
	s.wakes = slices.Insert(s.wakes, i, at)
	return nil
}

// A binary heap holds the running jobs by expected end; the order of equal ends is undefined.

// fix restores the heap order for the job at the given position.
func (s *Simulation) fix(at int32) {
	job := s.ends[at]
	end := s.run[job].end
	for at > 0 {
		above := (at - 1) / 2
		if s.run[s.ends[above]].end <= end {
			break
		}
		s.put(at, s.ends[above])
		at = above
	}
	for {
		below := 2*at + 1
		if below >= int32(len(s.ends)) {
			break
		}
		if below+1 < int32(len(s.ends)) && s.run[s.ends[below+1]].end < s.run[s.ends[below]].end {
			below++
		}
		if s.run[s.ends[below]].end >= end {
			break
		}
		s.put(at, s.ends[below])
		at = below
	}
	s.put(at, job)
}

func (s *Simulation) put(at, job int32) { s.ends[at], s.run[job].place = job, at }

// remove deletes the job at the given position of the heap.
func (s *Simulation) remove(at int32) {
	last := int32(len(s.ends) - 1)
	moved := s.ends[last]
	s.ends = s.ends[:last]
	if at != last {
		s.put(at, moved)
		s.fix(at)
	}
}
