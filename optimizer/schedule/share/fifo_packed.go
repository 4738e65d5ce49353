package share

import "trainopt/optimizer/schedule"

// packingGain is the minimum sum of relative throughputs for which fifoPacked forms a pair.
const packingGain = 1.5

// fifoPacked extends fifoPerf: when all devices are taken, the next job in the queue is co-located with the running
// job of its size that maximizes the pair's relative throughput, until a job has no partner (Gavel, section 4.4). It
// evaluates O(jobs²) pairs.
type fifoPacked struct {
	// dropsBlocked skips a job that blocks the queue because no type has enough free devices, instead of packing it,
	// as in Gavel's code.
	dropsBlocked bool
}

func newFIFOPacked(o Options) schedule.Policy { return fifoPacked{dropsBlocked: o.Compat} }

// Traits returns those of Gavel's FIFO_Packing.
func (fifoPacked) Traits() schedule.Traits {
	return schedule.Traits{Name: "FIFO_Packing", Packs: true, FixedOrder: true, OnlyShares: true}
}

// Decide assigns one device type at full share to every job that fits and to every pair.
func (p fifoPacked) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	placed, next := placeInOrder(s)
	if p.dropsBlocked && next < len(s.Jobs) && !full(s, placed) {
		next++
	}
	for ; next < len(s.Jobs); next++ {
		partner := bestPartner(s, placed, next)
		if partner < 0 {
			break
		}
		w := placed[partner]
		placed = append(append(placed[:partner:partner], placed[partner+1:]...), fullShare{w.a, next, w.device})
	}
	return fullShares(s, placed), nil
}

// full reports whether every device is taken.
func full(s *schedule.Snapshot, placed []fullShare) bool {
	_, left := freeDevices(s)
	for _, w := range placed {
		left -= s.Jobs[w.a].GPUs
	}
	return left == 0
}

// bestPartner returns the index in placed of the best single job to pair with job; −1 when no pair gains enough.
func bestPartner(s *schedule.Snapshot, placed []fullShare, job int) int {
	best, most := -1, packingGain
	for i, w := range placed {
		if w.b >= 0 || s.Jobs[w.a].GPUs != s.Jobs[job].GPUs {
			continue
		}
		if gain := relativeRate(s, w.a, job, w.device); gain > most {
			best, most = i, gain
		}
	}
	return best
}

// relativeRate returns the sum of the two jobs' throughputs when co-located, each relative to its throughput alone.
func relativeRate(s *schedule.Snapshot, a, b, device int) float64 {
	ra, rb := s.Pair(a, b, device)
	sum := 0.0
	if ra > 0 {
		sum += ra / s.Jobs[a].Rate[device]
	}
	if rb > 0 {
		sum += rb / s.Jobs[b].Rate[device]
	}
	return sum
}
