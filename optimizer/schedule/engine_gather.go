package schedule

import (
	"cmp"
	"math"
	"slices"
)

// gather frees servers for a chosen runnable that fits on none, and starts it there. It stops as few devices of other runnables as
// it can, and none of those that are pinned. What was chosen before it moves to other servers in the same step, or nothing
// is stopped; what was chosen after it is placed in its turn, or waits. It returns false if no server can be freed.
func (e *Engine) gather(r *Runnable) bool {
	rank := make(map[*Runnable]int, len(e.chosen))
	for i, c := range e.chosen {
		rank[c] = i
	}
	type candidate struct {
		runnables []*Runnable // to stop
		stopped   int         // number of their devices
	}
	var candidates []candidate
	k := &e.types[r.want]
	need, servers := k.demand(r.GPUs)
	rooms, holders := e.rooms(r.want)
	for server, room := range rooms {
		if room < need || slices.Contains(k.withheld, server) {
			continue
		}
		c := candidate{runnables: k.blocking(holders[server], server, need, rank)}
		for _, b := range c.runnables {
			c.stopped += b.GPUs
		}
		candidates = append(candidates, c)
	}
	slices.SortStableFunc(candidates, func(a, b candidate) int { return a.stopped - b.stopped })
	for ; len(candidates) >= servers; candidates = candidates[1:] {
		var stopped []*Runnable
		for _, c := range candidates[:servers] {
			stopped = append(stopped, c.runnables...)
		}
		slices.SortFunc(stopped, func(a, b *Runnable) int { return rank[a] - rank[b] })
		stopped = slices.Compact(stopped) // one of several servers
		later, _ := slices.BinarySearchFunc(stopped, rank[r], func(s *Runnable, at int) int { return cmp.Compare(rank[s], at) })
		if !e.canMove(r, stopped, later) {
			continue
		}
		for _, s := range stopped {
			e.displace(s)
		}
		e.start(r)
		for _, s := range stopped[:later] {
			e.start(s)
		}
		return true
	}
	return false
}

// blocking returns which holders of a server are to stop so that a number of devices is free there: those that were chosen last,
// and none without which enough are free. All holders must have as many.
func (k *freeOfType) blocking(holders []*Runnable, server, need int, rank map[*Runnable]int) []*Runnable {
	free := k.idle[server]
	for _, h := range holders {
		free += k.on(h, server)
	}
	slices.SortFunc(holders, func(a, b *Runnable) int { return rank[a] - rank[b] })
	return slices.DeleteFunc(holders, func(h *Runnable) bool {
		n := k.on(h, server)
		if free-n < need {
			return false
		}
		free -= n
		return true
	})
}

// canMove reports whether the first ones of the runnables that are to be stopped can start again once r holds its devices.
func (e *Engine) canMove(r *Runnable, stopped []*Runnable, first int) bool {
	k := &e.types[r.want]
	for _, s := range stopped {
		e.free(s.slot)
	}
	taken := slot{Device: r.want}
	fits := true
	start := func(s *Runnable, last *slot) {
		if fits = fits && k.fits(s.GPUs); fits {
			where, _ := e.take(r.want, s.GPUs, nil, last)
			taken.Where = append(taken.Where, where...)
		}
	}
	start(r, &e.formerOf(r).last)
	for _, s := range stopped[:first] {
		start(s, &s.slot)
	}
	e.free(taken)
	for _, s := range stopped {
		for _, g := range s.Where {
			k.take(int(g))
		}
	}
	return fits
}

// displace takes the devices of a runnable for another one. If this step has started it, it takes that back.
func (e *Engine) displace(r *Runnable) {
	i := slices.IndexFunc(e.commands, func(c Command) bool { return c.Do == Start && c.Runnable == r })
	if i < 0 {
		e.stop(r)
		e.leases.Extended--
	} else {
		r.A.started = r.A.started && e.commands[i].A != Start
		if r.B != nil {
			r.B.started = r.B.started && e.commands[i].B != Start
		}
		e.commands = slices.Delete(e.commands, i, i+1)
		e.release(r)
	}
	e.running.remove(r)
}

// patience is the number of rounds after which servers are reserved for a runnable that pinned ones prevent from starting.
const patience = 4

// reserve withholds servers from all starts of this step, of each type for the runnable that has waited longest although it was
// chosen, since pinned ones prevent it on all servers: those with the fewest devices of pinned runnables. Once these have
// ended, it starts there. They may last: a reservation of 4 rounds is followed by 8 rounds without, 16 with, and so on. It
// lapses while the policy could choose the runnable and does not.
func (e *Engine) reserve() {
	for d := range e.types {
		k := &e.types[d]
		k.offer()
		rooms, _ := e.rooms(d)
		total := 0
		for _, room := range rooms {
			total += room
		}
		since, servers := math.Inf(1), []int(nil)
		for _, r := range e.list {
			if r.refusedOn != d || r.refused >= since || r.gone() || r.A.runs != nil || r.B != nil && r.B.runs != nil {
				continue
			}
			if r.want == d || r.want < 0 && total < r.GPUs {
				if prevented := k.prevented(r.GPUs, rooms); len(prevented) > 0 {
					since, servers = r.refused, prevented
				}
			}
		}
		if waited := (e.now - since) / (patience * e.Interval); waited >= 1 && int(math.Log2(waited))%2 == 0 {
			for _, server := range servers {
				k.having[k.idle[server]].remove(server)
				k.withheld = append(k.withheld, server)
			}
		}
	}
}

// prevented returns the servers to withhold for a number of devices, given the devices that no pinned runnable holds by server; none
// if enough servers have as many of these as are required, or would not have them without pinned runnables either.
func (k *freeOfType) prevented(gpus int, rooms []int) []int {
	need, servers := k.demand(gpus)
	var order []int
	for server := range rooms {
		if k.size[server] >= need {
			order = append(order, server)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return rooms[b] - rooms[a] })
	if len(order) < servers || rooms[order[servers-1]] >= need {
		return nil
	}
	return order[:servers]
}

// rooms returns the number of devices of a type that no pinned runnable holds, and the runnables that hold some of them, by server.
func (e *Engine) rooms(device int) (rooms []int, holders [][]*Runnable) {
	k := &e.types[device]
	rooms, holders = slices.Clone(k.idle), make([][]*Runnable, len(k.idle))
	for _, h := range e.running.all() {
		if h.Device != device || h.pinned() {
			continue
		}
		for _, g := range h.Where {
			server := int(g) / k.perServer
			rooms[server]++
			if on := holders[server]; len(on) == 0 || on[len(on)-1] != h {
				holders[server] = append(on, h)
			}
		}
	}
	return rooms, holders
}

// offer ends the reservations of servers.
func (k *freeOfType) offer() {
	for _, server := range k.withheld {
		k.having[k.idle[server]].add(server)
	}
	k.withheld = k.withheld[:0]
}

// demand returns how many devices of how many servers a number of devices requires. A number that does not divide into whole
// servers requires more than there are.
func (k *freeOfType) demand(gpus int) (devices, servers int) {
	switch {
	case gpus <= k.perServer:
		return gpus, 1
	case gpus%k.perServer > 0:
		return k.perServer, len(k.idle) + 1
	}
	return k.perServer, gpus / k.perServer
}

// on returns the number of devices of a runnable on a server.
func (k *freeOfType) on(r *Runnable, server int) (n int) {
	for _, g := range r.Where {
		if int(g)/k.perServer == server {
			n++
		}
	}
	return n
}
