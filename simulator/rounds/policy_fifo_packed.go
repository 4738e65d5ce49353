package rounds

// packingGain is the sum of the two relative throughputs that a pair must exceed for fifoPacked to form it.
const packingGain = 1.5

// fifoPacked is fifoPerf that goes on when devices are taken: the next job in the queue joins the running job of its size with
// which the pair gets most done, until one finds no partner (Gavel, section 4.4). O(jobs²) pairs are looked at.
type fifoPacked struct {
	// dropsBlocked: a job that blocks the queue because no type has room for it is not packed either, but is passed over, as in
	// Gavel's code.
	dropsBlocked bool
}

var _ Described = fifoPacked{}

func newFIFOPacked(o PolicyOptions) Policy { return fifoPacked{dropsBlocked: o.Compat} }

// Traits are those of Gavel's FIFO_Packing.
func (fifoPacked) Traits() Traits {
	return Traits{Name: "FIFO_Packing", Packs: true, FixedOrder: true, OnlyShares: true}
}

// Decide gives every job that fits, and every pair, one device type for all its time.
func (p fifoPacked) Decide(s *Snapshot) (Allocation, error) {
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
		placed = append(append(placed[:partner:partner], placed[partner+1:]...), whole{w.a, next, w.device})
	}
	return wholeShares(s, placed), nil
}

// full says whether every device is taken.
func full(s *Snapshot, placed []whole) bool {
	_, left := freeDevices(s)
	for _, w := range placed {
		left -= s.Jobs[w.a].GPUs
	}
	return left == 0
}

// bestPartner is the index in placed of the single job that job is best paired with; −1 when no pair gains enough.
func bestPartner(s *Snapshot, placed []whole, job int) int {
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

// relativeRate is what two jobs get done beside each other, each as a part of what it does alone, added up.
func relativeRate(s *Snapshot, a, b, device int) float64 {
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
