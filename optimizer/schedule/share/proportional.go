package share

import "trainopt/optimizer/schedule"

// proportional assigns every job shares in proportion to the number of devices of each type: x_ij = N_j / Σ_k N_k. It
// is the normalization of Gavel's fairness policies rather than a policy: with more jobs than devices, the shares
// exceed the devices.
type proportional struct{}

// Traits sets Overcommits, since shares may exceed the devices.
func (proportional) Traits() schedule.Traits {
	return schedule.Traits{Name: "Proportional", Overcommits: true}
}

// Decide assigns the same shares to every job.
func (proportional) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	_, all := freeDevices(s)
	x := make([]float64, len(s.Devices))
	for d := range x {
		x[d] = float64(s.Devices[d].Count) / float64(all)
	}
	entries := make([]schedule.Entry, len(s.Jobs))
	for i := range entries {
		entries[i] = schedule.Entry{A: i, B: -1, X: x}
	}
	return schedule.Allocation{Entries: entries}, nil
}
