package cluster

// entry is a job, or a pair of co-located jobs: the unit that gavel schedules.
type entry struct {
	rated
	gpus    int
	x       []float64 // shares of the last decision
	got     []float64 // seconds since the last decision, plus half a round
	deficit []float64 // seconds
	known   bool      // present at the last decision
	turn    int       // position in the order in which entries were created
	slot              // devices in this round
	next    slot      // devices in the next round, while it is computed
	begun   int       // last round in which it ran
	stays   bool      // on the same devices as in the previous round
}

// slot is the devices of an entry in a round.
type slot struct {
	device int     // type; −1: none
	where  []int32 // indices of the devices
}

// advanceSlot makes the computed slot the current one.
func (e *entry) advanceSlot() {
	e.slot, e.next = e.next, e.slot
}

// newEntry returns an entry without devices that has received got seconds on every type.
func newEntry(a, b *job, rate, rateB []float64, got float64) *entry {
	n := len(rate)
	f := make([]float64, 3*n)
	e := &entry{rated: rated{a, b, rate, rateB}, gpus: a.GPUs, x: f[:n:n], got: f[n : 2*n : 2*n], deficit: f[2*n:], slot: slot{device: -1}}
	for d := range e.got {
		e.got[d] = got
	}
	return e
}

// runs reports whether all jobs of the entry make progress on a device type.
func (e *entry) runs(device int) bool {
	return e.rate[device] > 0 && (e.b == nil || e.rateB[device] > 0)
}

// gone reports whether a job of the entry has left the cluster.
func (e *entry) gone() bool { return e.a.gone || e.b != nil && e.b.gone }

// chosen reports whether a job of the entry was chosen in a round.
func (e *entry) chosen(round int) bool {
	return e.a.chosen == round || e.b != nil && e.b.chosen == round
}

func (e *entry) choose(round int) {
	e.a.chosen = round
	if e.b != nil {
		e.b.chosen = round
	}
}
