package cluster

import (
	"context"
	"errors"
	"fmt"
	"time"

	"trainopt/optimizer/schedule"
)

// PolicyError reports that a policy failed and ended the run: it returned an error or an invalid allocation,
// panicked, or exceeded its time limit.
type PolicyError struct {
	Policy string
	At     float64 // simulated seconds
	// Job is the ID of the job that the error concerns or, if it concerns none, of the one that arrived last; −1
	// without jobs.
	Job int
	Err error
}

func (e *PolicyError) Error() string {
	return fmt.Sprintf("policy %s at %.0f s, job %d: %v", e.Policy, e.At, e.Job, e.Err)
}

// Unwrap returns the reason.
func (e *PolicyError) Unwrap() error { return e.Err }

// ErrPolicyTime reports that a decision exceeded Config.PolicyLimit.
var ErrPolicyTime = errors.New("no decision in time")

// decide calls the policy and checks its allocation.
func (s *simulation) decide() (schedule.Allocation, error) {
	s.decisions++
	if len(s.active) == 0 {
		return schedule.Allocation{}, nil
	}
	s.updateSnapshot()
	var began time.Duration
	if s.Clock != nil {
		began = s.Clock()
	}
	a, err := s.call()
	if s.Clock != nil {
		s.deciding += s.Clock() - began
	}
	// Without a better candidate, an error is attributed to the latest arrival.
	about := s.active[len(s.active)-1].ID
	if err == nil {
		var i int
		if i, err = a.Check(&s.snapshot, s.traits); i >= 0 {
			about = s.active[i].ID
		}
	}
	if err != nil {
		if s.ctx.Err() != nil {
			return a, fmt.Errorf("interrupted at %.0f s of simulated time: %w", s.now, context.Cause(s.ctx))
		}
		return a, &PolicyError{s.traits.Name, s.now, about, err}
	}
	return a, nil
}

// updateSnapshot brings the snapshot up to date.
func (s *simulation) updateSnapshot() {
	s.snapshot.Now = s.now
	s.snapshot.Jobs = s.snapshot.Jobs[:0]
	for _, j := range s.active {
		state := schedule.JobState{
			Job: j.Job, Rate: j.kind.rate, Remaining: j.remaining(), Attained: j.attained,
			Seconds: j.Seconds * (j.remaining() / j.Steps),
		}
		if j.leased != nil {
			state.Held, state.Device = j.round.Held()
		}
		s.snapshot.Jobs = append(s.snapshot.Jobs, state)
	}
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

// call runs the policy in a separate goroutine, so that a policy that does not return cannot block the run. In that
// case the goroutine is leaked with the snapshot.
func (s *simulation) call() (schedule.Allocation, error) {
	type answer struct {
		schedule.Allocation
		error
	}
	// Buffered, so that an abandoned goroutine can terminate.
	done := make(chan answer, 1)
	go func() {
		var a answer
		defer func() {
			if r := recover(); r != nil {
				a.error = fmt.Errorf("it panicked: %v", r)
			}
			done <- a
		}()
		a.Allocation, a.error = s.policy.Decide(&s.snapshot)
	}()
	limit := time.NewTimer(s.PolicyLimit)
	defer limit.Stop()
	select {
	case a := <-done:
		return a.Allocation, a.error
	case <-limit.C:
		return schedule.Allocation{}, fmt.Errorf("%w: it may take %v", ErrPolicyTime, s.PolicyLimit)
	case <-s.ctx.Done():
		return schedule.Allocation{}, s.ctx.Err()
	}
}
