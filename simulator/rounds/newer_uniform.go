package rounds

import (
	"errors"
	"fmt"
	"math"
)

// Machine is what a job with a deadline runs on where spot capacity comes and goes.
type Machine int

// The machines there are.
const (
	NoMachine Machine = iota
	SpotMachine
	OnDemandMachine
)

// SpotJob is a job on one machine that must end by its deadline.
type SpotJob struct {
	Work       float64 // seconds on either machine
	Deadline   float64 // seconds from its start
	Changeover float64 // seconds lost, and paid, whenever a machine begins
	// USD per hour.
	SpotUSDHour, OnDemandUSDHour float64
}

// SpotState is what a SpotPolicy sees at a tick.
type SpotState struct {
	SpotJob
	Now       float64 // seconds from the start of the job
	Done      float64 // seconds of work
	On        Machine // in the tick before; not SpotMachine when that was taken away
	Available bool    // spot capacity
	Tick      float64 // seconds until the next choice
}

// SpotPolicy chooses the machine for the next tick. It must not choose SpotMachine when there is none.
type SpotPolicy func(s SpotState) Machine

// UniformProgress stays on the straight line from the start to the deadline (Wu et al., "Can't be late: Optimizing spot instance savings
// under deadlines", NSDI 2024, section 4): it takes spot capacity whenever there is some, waits without while it is ahead of the line, and
// takes a machine on demand when it is behind, until it is ahead by two changeovers. It knows the work and the deadline, and nothing
// of what capacity there will be.
func UniformProgress(s SpotState) Machine {
	line := func(at float64) float64 { return at * s.Work / s.Deadline }
	switch {
	case s.On == SpotMachine && s.Available:
		return SpotMachine
	case s.late():
		return OnDemandMachine
	case s.On == OnDemandMachine && s.Done < line(s.Now+2*s.Changeover):
		return OnDemandMachine
	case s.Available:
		return SpotMachine
	case s.Done < line(s.Now):
		return OnDemandMachine
	}
	return NoMachine
}

// GreedySpot uses spot capacity alone until only a machine on demand can still be in time.
func GreedySpot(s SpotState) Machine {
	switch {
	case s.On == SpotMachine && s.Available:
		return SpotMachine
	case s.late():
		return OnDemandMachine
	case s.Available:
		return SpotMachine
	}
	return NoMachine
}

// OnDemandOnly never uses spot capacity.
func OnDemandOnly(SpotState) Machine { return OnDemandMachine }

// late says that the job must be on demand from now on: at the next choice less time would be left than the work and two changeovers
// take.
func (s SpotState) late() bool { return s.Deadline-s.Now-s.Tick < s.Work-s.Done+2*s.Changeover }

// SpotOutcome is how a job ended.
type SpotOutcome struct {
	USD           float64
	Seconds       float64 // from start to end
	SpotSeconds   float64
	DemandSeconds float64
	Starts        int // of machines
	Missed        bool
}

// RunSpot runs a job where spot capacity is as in up, at even ticks of so many seconds; after its end the list begins again. A
// machine may be taken away at the end of each tick, and work done on it is kept. O(ticks of the run).
func RunSpot(p SpotPolicy, j SpotJob, tick float64, up []bool, from int) (SpotOutcome, error) {
	if err := j.check(tick, up, from); err != nil {
		return SpotOutcome{}, fmt.Errorf("run a job on spot capacity: %w", err)
	}
	var out SpotOutcome
	s := SpotState{SpotJob: j, Tick: tick}
	ready := 0.0 // when the machine has begun
	for k := from; ; k++ {
		s.Available = up[k%len(up)]
		if s.On == SpotMachine && !s.Available {
			s.On = NoMachine
		}
		next := p(s)
		if next == SpotMachine && !s.Available {
			return out, fmt.Errorf("run a job on spot capacity: the policy chose a spot machine at %.0f s, and there is none", s.Now)
		}
		if next != s.On && next != NoMachine {
			out.Starts++
			ready = s.Now + j.Changeover
		}
		s.On = next
		length, worked := tick, 0.0
		if next != NoMachine {
			worked = max(0, s.Now+tick-max(ready, s.Now))
			if over := s.Done + worked - j.Work; over >= 0 {
				length, worked = tick-over, worked-over
			}
		}
		out.pay(j, next, length)
		s.Done += worked
		s.Now += length
		if s.Done >= j.Work*(1-1e-12) {
			out.Seconds, out.Missed = s.Now, s.Now > j.Deadline*(1+1e-9)
			return out, nil
		}
		if next == NoMachine && s.Now > j.Deadline {
			return out, fmt.Errorf("run a job on spot capacity: the policy waits after the deadline of %.0f s", j.Deadline)
		}
	}
}

func (o *SpotOutcome) pay(j SpotJob, m Machine, seconds float64) {
	switch m {
	case SpotMachine:
		o.SpotSeconds += seconds
		o.USD += seconds / 3600 * j.SpotUSDHour
	case OnDemandMachine:
		o.DemandSeconds += seconds
		o.USD += seconds / 3600 * j.OnDemandUSDHour
	}
}

func (j SpotJob) check(tick float64, up []bool, from int) error {
	for _, v := range []float64{j.Work, j.Deadline, tick} {
		if !(v > 0) || math.IsInf(v, 1) {
			return fmt.Errorf("work %v s, deadline %v s, tick %v s: want numbers above 0", j.Work, j.Deadline, tick)
		}
	}
	if !(j.Changeover >= 0 && j.SpotUSDHour >= 0 && j.OnDemandUSDHour >= 0) || j.Changeover >= j.Work {
		return fmt.Errorf("changeover %v s, prices %v and %v USD/h: want numbers from 0, and less changeover than work", j.Changeover, j.SpotUSDHour, j.OnDemandUSDHour)
	}
	if len(up) == 0 || from < 0 {
		return errors.New("no tick of a trace to start from")
	}
	return nil
}
