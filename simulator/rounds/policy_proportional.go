package rounds

// proportional has every job spend its time on device types in proportion to how many there are: x_ij = N_j / Σ_k N_k. It is the
// normaliser of Gavel's fairness policies rather than a policy: with more jobs than devices, shares add up to more than there is.
type proportional struct{}

var _ Described = proportional{}

func newProportional(PolicyOptions) Policy { return proportional{} }

// Traits say that shares add up to more than there is.
func (proportional) Traits() Traits { return Traits{Name: "Proportional", Overcommits: true} }

// Decide gives every job the same shares.
func (proportional) Decide(s *Snapshot) (Allocation, error) {
	_, all := freeDevices(s)
	x := make([]float64, len(s.Devices))
	for d := range x {
		x[d] = float64(s.Devices[d].Count) / float64(all)
	}
	entries := make([]Entry, len(s.Jobs))
	for i := range entries {
		entries[i] = Entry{i, -1, x}
	}
	return Allocation{entries}, nil
}
