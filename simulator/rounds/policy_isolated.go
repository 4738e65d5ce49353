package rounds

// isolated gives every job an equal part of the cluster: y_ij = N_j / (m s_i), scaled down where a job would get more than all its
// time (Gavel, section 4.1, the share that fairness is measured against). O(jobs · types).
type isolated struct{}

var _ Described = isolated{}

func newIsolated(PolicyOptions) Policy { return isolated{} }

// Traits are those of Gavel's Isolated.
func (isolated) Traits() Traits { return Traits{Name: "Isolated"} }

// Decide gives every job its part.
func (isolated) Decide(s *Snapshot) (Allocation, error) {
	alone := make([]whole, len(s.Jobs))
	for i := range alone {
		alone[i] = whole{a: i, b: -1}
	}
	return equalShares(s, alone), nil
}

// equalShares divides the cluster evenly over jobs and pairs: N_j / (m s_c), scaled down where that is more than all the time.
func equalShares(s *Snapshot, who []whole) Allocation {
	n := len(s.Devices)
	shares := make([]float64, n*len(who))
	entries := make([]Entry, len(who))
	for i, w := range who {
		x := shares[i*n : (i+1)*n : (i+1)*n]
		sum := 0.0
		for d := range x {
			x[d] = float64(s.Devices[d].Count) / float64(len(who)) / float64(s.Jobs[w.a].GPUs)
			sum += x[d]
		}
		for d := range x {
			x[d] /= max(sum, 1)
		}
		entries[i] = Entry{w.a, w.b, x}
	}
	return Allocation{entries}
}
