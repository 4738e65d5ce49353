package rounds

// isolated assigns every job an equal part of the cluster: y_ij = N_j / (m s_i), scaled down where the shares of a
// job exceed 1 (Gavel, section 4.1: the reference allocation for fairness). O(jobs · types).
type isolated struct{}

var _ Described = isolated{}

func newIsolated(PolicyOptions) Policy { return isolated{} }

// Traits returns those of Gavel's Isolated.
func (isolated) Traits() Traits { return Traits{Name: "Isolated"} }

// Decide assigns equal parts.
func (isolated) Decide(s *Snapshot) (Allocation, error) {
	alone := make([]whole, len(s.Jobs))
	for i := range alone {
		alone[i] = whole{a: i, b: -1}
	}
	return equalShares(s, alone), nil
}

// equalShares divides the cluster equally among jobs and pairs: N_j / (m s_c), scaled down where the shares of an
// entry exceed 1.
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
