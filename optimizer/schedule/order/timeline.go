package order

import "slices"

// timeline is the number of free processors from now on by the estimates and reservations: steps[i].free from steps[i].at until
// steps[i+1].at, and from the last step on without end. No two adjacent steps are equal.
type timeline struct {
	steps []step
}

type step struct {
	at   float64
	free int32
}

func newTimeline(now float64, free int32) timeline { return timeline{[]step{{now, free}}} }

// advance discards what lies before now.
func (t *timeline) advance(now float64) {
	i := 0
	for i+1 < len(t.steps) && t.steps[i+1].at <= now {
		i++
	}
	t.steps = slices.Delete(t.steps, 0, i)
	t.steps[0].at = max(t.steps[0].at, now)
}

// earliest returns the first time at which procs are free for a number of seconds. Cost: O(steps).
func (t *timeline) earliest(procs int32, seconds float64) float64 {
	anchor := -1
	for i := range t.steps {
		if t.steps[i].free < procs {
			anchor = -1
			continue
		}
		if anchor < 0 {
			anchor = i
		}
		if i+1 == len(t.steps) || t.steps[i+1].at >= t.steps[anchor].at+seconds {
			break
		}
	}
	return t.steps[anchor].at
}

// earlier returns the earliest start of a job that has procs reserved at a time for a number of seconds, were that reservation
// released; the same time where no earlier one exists. Cost: O(steps before that time).
func (t *timeline) earlier(procs int32, at, seconds float64) float64 {
	anchor := -1
	for i := range t.steps {
		if t.steps[i].at >= at { // from here on its own reservation suffices
			break
		}
		if t.steps[i].free < procs {
			anchor = -1
			continue
		}
		if anchor < 0 {
			anchor = i
		}
		if i+1 < len(t.steps) && t.steps[i+1].at >= t.steps[anchor].at+seconds {
			break
		}
	}
	if anchor < 0 {
		return at
	}
	return t.steps[anchor].at
}

// add increases the number of free processors between two times by procs, which is negative for a reservation.
func (t *timeline) add(from, to float64, procs int32) {
	if from >= to {
		return
	}
	i := t.split(from)
	k := t.split(to)
	for j := i; j < k; j++ {
		t.steps[j].free += procs
	}
	t.merge(k)
	t.merge(i)
}

// split returns the index of the step that begins at a time, inserting one where needed.
func (t *timeline) split(at float64) int {
	lo, hi := 0, len(t.steps)
	for lo < hi {
		if mid := int(uint(lo+hi) / 2); t.steps[mid].at < at {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if lo == len(t.steps) || t.steps[lo].at != at {
		t.steps = slices.Insert(t.steps, lo, step{at, t.steps[max(lo-1, 0)].free})
	}
	return lo
}

// merge removes a step that equals its predecessor.
func (t *timeline) merge(i int) {
	if i > 0 && i < len(t.steps) && t.steps[i].free == t.steps[i-1].free {
		t.steps = slices.Delete(t.steps, i, i+1)
	}
}
