package schedule

import (
	"errors"
	"fmt"
	"math"
)

// shareSlack is the tolerance for shares that exceed a limit: solvers are accurate to about 1e-8.
const shareSlack = 1e-6

// Check returns an error for an invalid allocation: an entry with an unknown or repeated job, a share outside 0…1, a
// job with more than all of its time, or a device type with more work than devices (unless traits allow it). job is
// the index in s.Jobs of the job that the error concerns; −1: none.
func (a Allocation) Check(s *Snapshot, t Traits) (job int, err error) {
	timeOf := make([]float64, len(s.Jobs))
	load := make([]float64, len(s.Devices))
	alone := make([]bool, len(s.Jobs))
	pairs := map[[2]int]bool{}
	if a.GPUs != nil && len(a.GPUs) != len(a.Entries) {
		return -1, fmt.Errorf("%d numbers of devices for %d entries", len(a.GPUs), len(a.Entries))
	}
	for i := range a.Entries {
		e := &a.Entries[i]
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
		gpus := s.Jobs[e.A].GPUs
		if a.GPUs != nil {
			if gpus = a.GPUs[i]; gpus < 1 || e.B >= 0 {
				return e.A, fmt.Errorf("%d devices for job %d", gpus, e.A)
			}
		}
		if err := e.check(s, t, gpus, timeOf, load); err != nil {
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

// check validates an entry on a number of devices, and adds its shares to the time of its jobs and to the load of the
// device types.
func (e *Entry) check(s *Snapshot, t Traits, gpus int, timeOf, load []float64) error {
	if len(e.X) != len(s.Devices) {
		return fmt.Errorf("%d shares for %d device types", len(e.X), len(s.Devices))
	}
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
