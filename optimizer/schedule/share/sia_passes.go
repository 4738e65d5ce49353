package share

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule"
)

// A large program is improved in passes: each looks at all jobs once and makes many changes, instead of one. A local
// search then costs a few passes rather than one for each change.
const (
	manyJobs   = 512 // from which passes are used
	passLosses = 16  // losses by type and number of devices that a pass may use
	mostPasses = 40
	passGain   = 1e-4 // relative gain of a pass below which no other one follows
)

// many reports whether the program is large.
func (g *siaProgram) many() bool { return len(g.sizes) >= manyJobs }

// searchInPasses is localSearch for large programs.
func (g *siaProgram) searchInPasses(chosen, left []int) {
	for range mostPasses {
		worth := g.worth(chosen)
		g.improveAll(chosen, left)
		g.sortPlaced(chosen)
		g.exchangeAll(chosen, left)
		if g.worth(chosen) <= worth*(1+passGain) {
			return
		}
	}
}

// siaChange is a candidate of a pass.
type siaChange struct {
	job, to int
	gain    float64 // per device
	down    loss    // of another job that frees devices first; job −1: none
}

func (a siaChange) Before(b siaChange) bool {
	return a.gain > b.gain || a.gain == b.gain && a.job < b.job
}

// improveAll makes the changes for which devices are free, in descending order of gain per device. A job whose best
// change became impossible gets its next best.
func (g *siaProgram) improveAll(chosen, left []int) {
	var queue schedule.Heap[siaChange]
	consider := func(i int) {
		if c := g.bestChange(i, chosen, left, slices.Max(left)); c.to >= 0 {
			queue.Push(c)
		}
	}
	g.each(consider)
	changed := true
	for len(queue) > 0 {
		if changed && slices.Max(left) == 0 {
			if changed = false; !slices.ContainsFunc(queue, func(c siaChange) bool { return g.bestChange(c.job, chosen, left, slices.Max(left)).to >= 0 }) {
				break // none of them finds room
			}
		}
		c := queue.Pop()
		if w := g.group[g.at[c.job]].waiting; chosen[c.job] < 0 && (len(w) == 0 || int(w[0]) != c.job) {
			continue // listed twice
		}
		now := g.bestChange(c.job, chosen, left, slices.Max(left))
		if now.to < 0 {
			continue
		}
		if now.gain < c.gain { // its best change is no longer possible
			queue.Push(now)
			continue
		}
		waited := chosen[c.job] < 0
		g.change(chosen, left, c.job, now.to)
		changed = true
		consider(c.job)
		if w := g.group[g.at[c.job]].waiting; waited && len(w) > 0 {
			consider(int(w[0]))
		}
	}
}

// bestChange returns the change of a job with the largest gain per device for which devices are free, free of a type at
// most; to is −1 if none has a gain.
func (g *siaProgram) bestChange(i int, chosen, left []int, free int) siaChange {
	best := siaChange{job: i, to: -1, gain: siaGain}
	had, now := g.has(i, chosen[i])
	if had.Device >= 0 {
		free = max(free, left[had.Device]+had.GPUs)
	}
	for k, z := range g.sizes[i] {
		if z.GPUs > free {
			break
		}
		if z.GPUs > roomFor(z, had, left) {
			continue
		}
		if gain := (g.value[i][k] - now) / float64(z.GPUs); gain > best.gain {
			best.to, best.gain = k, gain
		}
	}
	return best
}

// exchangeAll makes exchanges in descending order of gain, each job taking part in at most one.
func (g *siaProgram) exchangeAll(chosen, left []int) {
	cheapest := g.losses(chosen, left, passLosses)
	var list []siaChange
	g.each(func(i int) {
		// Of a kind of waiting jobs, several may find devices in one pass.
		count := 1
		if chosen[i] < 0 {
			count = min(passLosses, len(g.group[g.at[i]].waiting))
		}
		had, now := g.has(i, chosen[i])
		for k, z := range g.sizes[i] {
			missing := z.GPUs - roomFor(z, had, left)
			if missing <= 0 || missing >= len(cheapest[z.Device]) {
				continue
			}
			for _, l := range cheapest[z.Device][missing][:min(count+1, len(cheapest[z.Device][missing]))] {
				gain := g.value[i][k] - now - l.worth
				if gain <= siaGain {
					break
				}
				if l.job != i {
					list = append(list, siaChange{i, k, gain, l})
				}
			}
		}
	})
	slices.SortFunc(list, func(a, b siaChange) int {
		return cmp.Or(cmp.Compare(b.gain, a.gain), a.job-b.job, a.to-b.to, a.down.job-b.down.job)
	})
	changed := map[int]bool{}
	for _, c := range list {
		job := c.job
		if chosen[job] < 0 || changed[job] { // the next waiting job of the kind
			if w := g.group[g.at[job]].waiting; len(w) > 0 {
				job = int(w[0])
			}
		}
		if changed[job] || changed[c.down.job] || job == c.down.job || !g.possible(chosen, left, job, c) {
			continue
		}
		g.change(chosen, left, job, c.to)
		g.change(chosen, left, c.down.job, c.down.to)
		changed[job], changed[c.down.job] = true, true
	}
	g.sortPlaced(chosen)
}

// possible reports whether an exchange still has room after others.
func (g *siaProgram) possible(chosen, left []int, job int, c siaChange) bool {
	z := g.sizes[job][c.to]
	had, _ := g.has(job, chosen[job])
	room := roomFor(z, had, left)
	leaves, _ := g.has(c.down.job, chosen[c.down.job])
	goes, _ := g.has(c.down.job, c.down.to)
	if leaves.Device == z.Device {
		room += leaves.GPUs
	}
	if goes.Device == z.Device {
		room -= goes.GPUs
	}
	return z.GPUs <= room && (goes.Device < 0 || goes.Device == leaves.Device || goes.GPUs <= left[goes.Device])
}

// begin lists the jobs with a size, and those without by group.
func (g *siaProgram) begin(chosen []int) {
	g.placed = g.placed[:0]
	for e := range g.group {
		g.group[e].waiting = g.group[e].waiting[:0]
	}
	for i, k := range chosen {
		if k >= 0 {
			g.placed = append(g.placed, i)
		} else {
			e := &g.group[g.at[i]]
			e.waiting = append(e.waiting, index(i))
		}
	}
	g.sortPlaced(chosen)
}

// sortPlaced restores placed and open after changes.
func (g *siaProgram) sortPlaced(chosen []int) {
	g.placed = slices.DeleteFunc(g.placed, func(i int) bool { return chosen[i] < 0 })
	slices.Sort(g.placed)
	g.placed, g.open = slices.Compact(g.placed), g.open[:0]
	for _, i := range g.placed {
		if _, now := g.has(i, chosen[i]); g.peak[i]-now > siaGain {
			g.open = append(g.open, i)
		}
	}
}

// each calls look for every job that has a size and a better one, and for the first job without a size of every group.
// Most jobs of a cluster have their best size: they change only to free devices for others.
func (g *siaProgram) each(look func(i int)) {
	for _, i := range g.open {
		look(i)
	}
	for e := range g.group {
		if w := g.group[e].waiting; len(w) > 0 {
			look(int(w[0]))
		}
	}
}
