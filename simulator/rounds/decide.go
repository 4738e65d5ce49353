package rounds

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"
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
func (s *simulation) decide() (Allocation, error) {
	s.decisions++
	if len(s.active) == 0 {
		return Allocation{}, nil
	}
	s.look()
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
		if i, err = a.check(&s.snapshot, s.traits); i >= 0 {
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

// look updates the snapshot.
func (s *simulation) look() {
	s.snapshot.Now = s.now
	s.snapshot.Jobs = s.snapshot.Jobs[:0]
	for _, j := range s.active {
		s.snapshot.Jobs = append(s.snapshot.Jobs, JobState{
			Job: j.Job, Rate: j.kind.rate, Remaining: j.remaining(), Attained: j.attained,
			Seconds: j.Seconds * (j.remaining() / j.Steps),
		})
	}
}

// pairRate implements Snapshot.Pair. The job that arrived first comes first in the estimates.
func (s *simulation) pairRate(a, b, device int) (ra, rb float64) {
	if a > b {
		rb, ra = s.pairRate(b, a, device)
		return ra, rb
	}
	p := s.believed(s.active[a], s.active[b])
	return p.a[device], p.b[device]
}

// call runs the policy in a separate goroutine, so that a policy that does not return cannot block the run. In that
// case the goroutine is leaked with the snapshot.
func (s *simulation) call() (Allocation, error) {
	type answer struct {
		Allocation
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
		return Allocation{}, fmt.Errorf("%w: it may take %v", ErrPolicyTime, s.PolicyLimit)
	case <-s.ctx.Done():
		return Allocation{}, s.ctx.Err()
	}
}

// shareSlack is the tolerance for shares that exceed a limit: solvers are accurate to about 1e-8.
const shareSlack = 1e-6

// Check returns an error for an invalid allocation: an entry with an unknown or repeated job, a share outside 0…1, a
// job with more than all of its time, or a device type with more work than devices (unless traits allow it).
func (a Allocation) Check(s *Snapshot, t Traits) error {
	_, err := a.check(s, t)
	return err
}

// check also returns the index in s.Jobs of the job that the error concerns; −1: none.
func (a Allocation) check(s *Snapshot, t Traits) (about int, err error) {
	timeOf := make([]float64, len(s.Jobs))
	load := make([]float64, len(s.Devices))
	alone := make([]bool, len(s.Jobs))
	pairs := map[[2]int]bool{}
	for _, e := range a.Entries {
		if e.A < 0 || e.A >= len(s.Jobs) || e.B < -1 || e.B >= len(s.Jobs) || e.A == e.B {
			return -1, fmt.Errorf("shares for jobs %d and %d of the snapshot, which has %d", e.A, e.B, len(s.Jobs))
		}
		pair := [2]int{min(e.A, e.B), max(e.A, e.B)}
		if e.B < 0 && alone[e.A] || e.B >= 0 && pairs[pair] {
			return e.A, errors.New("shares twice for the same job or pair")
		}
		if e.B < 0 {
			alone[e.A] = true
		} else {
			pairs[pair] = true
		}
		if err := e.check(s, t, timeOf, load); err != nil {
			return e.A, err
		}
	}
	// Totals by job and by device type.
	for i, x := range timeOf {
		if x > 1+shareSlack {
			return i, fmt.Errorf("shares of one job add up to %v of its time", x)
		}
	}
	for d, x := range load {
		if n := float64(s.Devices[d].Count); x > n*(1+shareSlack) && !t.Overcommits {
			return -1, fmt.Errorf("shares add up to %v devices of type %s, and there are %v", x, s.Devices[d].Name, n)
		}
	}
	return -1, nil
}

// check validates an entry and adds its shares to the time of its jobs and to the load of the device types.
func (e *Entry) check(s *Snapshot, t Traits, timeOf, load []float64) error {
	if len(e.X) != len(s.Devices) {
		return fmt.Errorf("%d shares for %d device types", len(e.X), len(s.Devices))
	}
	gpus := s.Jobs[e.A].GPUs
	if e.B >= 0 && !t.Packs {
		return errors.New("shares for a pair, from a policy that does not pack")
	}
	if e.B >= 0 && s.Jobs[e.B].GPUs != gpus {
		return fmt.Errorf("shares for a pair with job %d, which asks for %d devices, not %d", s.Jobs[e.B].ID, s.Jobs[e.B].GPUs, gpus)
	}
	for d, x := range e.X {
		if !(x >= -shareSlack && x <= 1+shareSlack) || math.IsNaN(x) {
			return fmt.Errorf("a share of %v on device type %s, want 0 to 1", x, s.Devices[d].Name)
		}
		timeOf[e.A] += x
		if e.B >= 0 {
			timeOf[e.B] += x
		}
		load[d] += float64(x * float64(gpus))
	}
	return nil
}
