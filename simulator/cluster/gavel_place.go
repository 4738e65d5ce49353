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
