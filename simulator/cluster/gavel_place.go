package cluster

import (
	"slices"

	"trainopt/optimizer/schedule"
)

// placement assigns devices to the chosen entries of a round in descending order of size. Among entries of equal
// size, those that keep the devices of the last round come first; the others are assigned the lowest free devices.
// Devices of a server have consecutive numbers, so servers are filled one after the other.
type placement struct {
	placed []*entry
	taken  [][]int // by device type and device: last round in which it was taken
	round  int
}

func (p *placement) init(devices []schedule.DeviceType) {
	p.taken = make([][]int, len(devices))
	for d := range devices {
		p.taken[d] = make([]int, devices[d].Count)
	}
}

func (p *placement) start(round int) { p.round, p.placed = round, p.placed[:0] }

// put places the chosen entries of a device type. Entries that were not part of the last decision receive no devices
// although their devices were counted as taken, so these stay idle.
func (p *placement) put(device int, chosen []*entry) {
	slices.SortStableFunc(chosen, func(a, b *entry) int { return b.gpus - a.gpus })
	next := 0
	for len(chosen) > 0 {
		same := 1
		for same < len(chosen) && chosen[same].gpus == chosen[0].gpus {
			same++
		}
		for _, e := range chosen[:same] {
			e.next.device, e.next.where = -1, e.next.where[:0]
			if e.device == device && p.free(device, e.where) {
				p.take(e, device, e.where)
			}
		}
		for _, e := range chosen[:same] {
			if e.next.device < 0 && e.known {
				next = p.fromFirst(e, device, next)
			}
		}
		chosen = chosen[same:]
	}
}

func (p *placement) free(device int, where []int32) bool {
	for _, g := range where {
		if p.taken[device][g] == p.round {
			return false
		}
	}
	return true
}

func (p *placement) take(e *entry, device int, where []int32) {
	for _, g := range where {
		p.taken[device][g] = p.round
	}
	e.next.device, e.next.where = device, append(e.next.where, where...)
	e.stays = true
	p.placed = append(p.placed, e)
}

// fromFirst takes the first free devices from next on and returns the position after them.
func (p *placement) fromFirst(e *entry, device, next int) int {
	e.next.device, e.stays = device, false
	for ; len(e.next.where) < e.gpus; next++ {
		if p.taken[device][next] != p.round {
			p.taken[device][next] = p.round
			e.next.where = append(e.next.where, int32(next))
		}
	}
	p.placed = append(p.placed, e)
	return next
}

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
