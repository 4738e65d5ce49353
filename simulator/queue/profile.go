package queue

import "slices"

// profile is the number of free processors over time by the estimates: steps[i].free from steps[i].at until
// steps[i+1].at, the last step without end. Adjacent steps differ in their number of processors.
type profile struct {
	steps []step
}

// step is the number of free processors from a time on.
type step struct {
	at   float64
	free int32
}

func newProfile(now float64, free int32) profile { return profile{[]step{{now, free}}} }

// advance discards the part of the profile before now.
func (p *profile) advance(now float64) {
	i := 0
	for i+1 < len(p.steps) && p.steps[i+1].at <= now {
		i++
	}
	p.steps = slices.Delete(p.steps, 0, i)
	p.steps[0].at = max(p.steps[0].at, now)
}

// earliest returns the first time from which procs are free for the given duration. Cost: O(steps).
func (p *profile) earliest(procs int32, seconds float64) float64 {
	anchor := -1
	for i := range p.steps {
		if p.steps[i].free < procs {
			anchor = -1
			continue
		}
		if anchor < 0 {
			anchor = i
		}
		if i+1 == len(p.steps) || p.steps[i+1].at >= p.steps[anchor].at+seconds {
			break
		}
	}
	return p.steps[anchor].at
}

// sooner returns the earliest start before at for a job that holds a reservation of procs at that time, computed
// without the reservation; at where no earlier start exists. Cost: O(steps before at).
func (p *profile) sooner(procs int32, at, seconds float64) float64 {
	anchor := -1
	for i := range p.steps {
		if p.steps[i].at >= at { // the job's own reservation begins here
			break
		}
		if p.steps[i].free < procs {
			anchor = -1
			continue
		}
		if anchor < 0 {
			anchor = i
		}
		if i+1 < len(p.steps) && p.steps[i+1].at >= p.steps[anchor].at+seconds {
			break
		}
	}
	if anchor < 0 {
		return at
	}
	return p.steps[anchor].at
}

// add increases the number of free processors by procs, which may be negative, from one time until another.
func (p *profile) add(from, to float64, procs int32) {
	if from >= to {
		return
	}
	i := p.split(from)
	k := p.split(to)
	for j := i; j < k; j++ {
		p.steps[j].free += procs
	}
	p.merge(k)
	p.merge(i)
}

// split returns the index of the step that begins at the given time and inserts one where necessary.
func (p *profile) split(at float64) int {
	lo, hi := 0, len(p.steps)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); p.steps[mid].at < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(p.steps) || p.steps[lo].at != at {
		p.steps = slices.Insert(p.steps, lo, step{at, p.steps[max(lo-1, 0)].free})
	}
	return lo
}

// merge removes step i where it has the same value as the step before it.
func (p *profile) merge(i int) {
	if i > 0 && i < len(p.steps) && p.steps[i].free == p.steps[i-1].free {
		p.steps = slices.Delete(p.steps, i, i+1)
	}
}
