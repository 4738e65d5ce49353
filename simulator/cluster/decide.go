package cluster

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"time"

	"trainopt/optimizer/schedule"
)

// policyError reports that a policy failed and ended the run: it returned an error or an invalid allocation,
// panicked, or exceeded its time limit.
type policyError struct {
	Policy string
	At     float64 // simulated seconds
	// Job is the ID of the job that the error concerns or, if it concerns none, of the one that arrived last; −1
	// without jobs.
	Job int
	Err error
}

func (e *policyError) Error() string {
	return fmt.Sprintf("policy %s at %.0f s, job %d: %v", e.Policy, e.At, e.Job, e.Err)
}

// Unwrap returns the reason.
func (e *policyError) Unwrap() error { return e.Err }

// errPolicyTime reports that a decision exceeded Config.PolicyLimit.
var errPolicyTime = errors.New("no decision in time")

// decide calls the policy and checks its allocation.
func (s *simulation) decide() (schedule.Allocation, error) {
	s.decisions++
	if len(s.active) == 0 {
		return schedule.Allocation{}, nil
	}
	s.snapshot.Now, s.snapshot.Jobs = s.now, s.snapshot.Jobs[:0]
	for _, j := range s.active {
		s.snapshot.Jobs = append(s.snapshot.Jobs, j.state())
	}
	var a schedule.Allocation
	about := -1
	err := s.call(s.active[len(s.active)-1].ID, func() (err error) { a, err = s.policy.Decide(&s.snapshot); return err })
	if err == nil {
		about, err = a.Check(&s.snapshot, s.traits)
	}
	if err == nil {
		return a, nil
	}
	if about < 0 { // without a better candidate, an error is attributed to the latest arrival
		about = len(s.active) - 1
	}
	return schedule.Allocation{}, s.policyError(err, s.active[about].ID)
}

// policyError returns the error of a policy that ends a run; nil if err is nil. The job is the one that it concerns.
func (s *simulation) policyError(err error, job int) error {
	switch {
	case err == nil:
		return nil
	case s.ctx.Err() != nil:
		return fmt.Errorf("interrupted at %.0f s of simulated time: %w", s.now, context.Cause(s.ctx))
	}
	return &policyError{s.traits.Name, s.now, job, err}
}

// state returns the job as a policy sees it.
func (j *job) state() schedule.JobState {
	state := schedule.JobState{
		Job: j.Job, Rate: j.kind.rate, Remaining: j.remaining(), Attained: j.attained,
		Seconds: j.Seconds * (j.remaining() / j.Steps),
	}
	if j.leased != nil {
		state.Held, state.Device = j.round.Held()
	}
	return state
}

// pairRate implements Snapshot.Pair. The job that arrived first comes first in the estimates.
func (s *simulation) pairRate(a, b, device int) (ra, rb float64) {
	if a > b {
		rb, ra = s.pairRate(b, a, device)
		return ra, rb
	}
	p := s.estimatedRates(s.active[a], s.active[b])
	return p.a[device], p.b[device]
}

// call runs a call of the policy. If it does not return within PolicyLimit, or before an interrupt, it ends the run with the
// error about a job: Run returns, and this goroutine ends when the call returns, without reading its results. A call in
// a goroutine of its own would cost more than most decisions.
func (s *simulation) call(about int, policy func() error) (err error) {
	if err := s.ctx.Err(); err != nil {
		return err
	}
	began, over := s.clock(), atomic.Bool{} // over: the call has returned, or the run has ended
	abandon := func(why error) {
		if over.CompareAndSwap(false, true) {
			s.done <- s.policyError(why, about)
		}
	}
	limit := time.AfterFunc(s.PolicyLimit, func() { abandon(fmt.Errorf("%w: it may take %v", errPolicyTime, s.PolicyLimit)) })
	stay := context.AfterFunc(s.ctx, func() { abandon(s.ctx.Err()) })
	func() {
		defer func() {
			if r := recover(); r != nil {
				err = fmt.Errorf("it panicked: %v", r)
			}
		}()
		err = policy()
	}()
	limit.Stop()
	stay()
	if !over.CompareAndSwap(false, true) {
		runtime.Goexit()
	}
	s.deciding += s.clock() - began
	return err
}
