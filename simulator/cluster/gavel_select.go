package cluster

import (
	"slices"

	"trainopt/optimizer/schedule"
)

// selection chooses the entries of a round: by priority (share due over share received), then deficit, then share,
// each entry that fits the remaining devices and whose jobs have not been chosen yet. Device types have separate
// queues that are processed one after the other, or a common one (Config.GlobalQueue).
type selection struct {
	chosen [][]*entry // by device type
	queues [][]candidate
	idle   []candidate // candidates without a share
	taken  []candidate // candidates with jobs already chosen
	sorter mergeSorter[candidate]
	round  int
	free   []int   // remaining devices by type
	place  []int32 // position of each type among those being filled
	left   int     // number of jobs not yet chosen
	// everyone reports that every entry with a share was chosen.
	everyone bool
}

// candidate is an entry that may receive a device type, with its sort keys.
type candidate struct {
	priority, deficit, share float64
	entry                    *entry
	device                   int32
	place                    int32 // position of the type in the fill order, in a common queue
}

// before is a total order that reproduces a stable sort.
func (c *candidate) before(o *candidate) bool {
	switch {
	case c.priority != o.priority:
		return c.priority > o.priority
	case c.deficit != o.deficit:
		return c.deficit > o.deficit
	case c.share != o.share:
		return c.share > o.share
	case c.place != o.place:
		return c.place < o.place
	}
	return c.entry.turn < o.entry.turn
}

func (s *selection) init(devices []schedule.DeviceType, global bool) {
	s.sorter.before = (*candidate).before
	s.chosen, s.free = make([][]*entry, len(devices)), make([]int, len(devices))
	s.queues, s.place = make([][]candidate, len(devices)), make([]int32, len(devices))
	if global {
		s.queues = s.queues[:1]
	}
}

// line queues the entries with a share in the last decision.
func (s *selection) line(entries []*entry) {
	for q := range s.queues {
		s.queues[q] = s.queues[q][:0]
	}
	for d := range s.chosen {
		q := &s.queues[min(d, len(s.queues)-1)]
		for _, e := range entries {
			if e.x[d] > 0 && e.runs(d) {
				*q = append(*q, candidate{entry: e, share: e.x[d], device: int32(d)})
			}
		}
	}
}

// forget drops the entries of jobs that have ended.
func (s *selection) forget() {
	for q, queue := range s.queues {
		s.queues[q] = slices.DeleteFunc(queue, func(c candidate) bool { return c.entry.gone() })
	}
}

func (s *selection) start(round, jobs int, devices []schedule.DeviceType) {
	s.round, s.left, s.everyone = round, jobs, true
	for d := range devices {
		s.chosen[d], s.free[d] = s.chosen[d][:0], devices[d].Count
	}
}

// infinitePriority represents an infinite priority: a share, and no time received.
const infinitePriority = 1e9

// fill chooses among the entries with a share of the given types, which are those of one queue. total is the time
// received by all entries, by device type. The queue remains sorted, which is nearly the order of the next round.
func (s *selection) fill(types []int, total []float64) {
	queue := s.queues[0]
	if len(s.queues) > 1 {
		queue = s.queues[types[0]]
	}
	if s.left == 0 {
		s.everyone = s.everyone && len(queue) == 0
		return
	}
	for place, d := range types {
		s.place[d] = int32(place)
	}
	// Move the candidates to consider to the front, in their previous order.
	open, taken := 0, s.taken[:0]
	for i := range queue {
		c := &queue[i]
		if c.entry.chosen(s.round) {
			taken = append(taken, *c)
			continue
		}
		c.weigh(total[c.device])
		c.place = s.place[c.device]
		if open != i {
			queue[open] = *c
		}
		open++
	}
	copy(queue[open:], taken)
	s.everyone = s.everyone && len(taken) == 0
	s.taken = taken
	s.take(queue[:open], types)
}

// weigh updates the sort keys of a candidate. total is the time received by all entries on the type.
func (c *candidate) weigh(total float64) {
	c.priority, c.deficit = c.share*infinitePriority, c.entry.deficit[c.device]
	if got := c.entry.got[c.device]; total != 0 && got/total > 0 {
		c.priority = c.share / (got / total)
	}
}

// fillUp chooses among the entries without a share for the remaining devices.
func (s *selection) fillUp(types []int, entries []*entry) {
	if s.left == 0 {
		return
	}
	s.idle = s.idle[:0]
	for place, d := range types {
		if s.free[d] == 0 {
			continue
		}
		for _, e := range entries {
			if e.x[d] == 0 && !e.chosen(s.round) && e.runs(d) {
				s.idle = append(s.idle, candidate{deficit: e.deficit[d], entry: e, device: int32(d), place: int32(place)})
			}
		}
	}
	s.take(s.idle, types)
}

// take chooses from a list in sorted order until no devices or jobs remain.
func (s *selection) take(list []candidate, types []int) {
	s.sorter.sort(list)
	room := 0
	for _, d := range types {
		room += s.free[d]
	}
	for i := range list {
		if room == 0 || s.left == 0 {
			s.everyone = false
			return
		}
		e, d := list[i].entry, list[i].device
		if e.gpus > s.free[d] || e.chosen(s.round) {
			s.everyone = false
			continue
		}
		s.free[d] -= e.gpus
		room -= e.gpus
		s.left--
		if e.b != nil {
			s.left--
		}
		e.choose(s.round)
		s.chosen[d] = append(s.chosen[d], e)
	}
}

// mergeSorter is a natural merge sort: ordered runs of a list are kept and merged, so nearly sorted lists take few
// steps. O(n log runs).
type mergeSorter[T any] struct {
	before func(a, b *T) bool
	ends   []int // end positions of the runs
	spare  []T
}

// sort sorts a list in place.
func (r *mergeSorter[T]) sort(list []T) {
	r.ends = r.ends[:0]
	for i := 1; i < len(list); i++ {
		if r.before(&list[i], &list[i-1]) {
			r.ends = append(r.ends, i)
		}
	}
	r.ends = append(r.ends, len(list))
	for len(r.ends) > 1 {
		kept, from := r.ends[:0], 0
		for k := 0; k < len(r.ends); k += 2 {
			middle, end := r.ends[k], r.ends[min(k+1, len(r.ends)-1)]
			if middle < end {
				r.merge(list[from:end], middle-from)
			}
			kept = append(kept, end)
			from = end
		}
		r.ends = kept
	}
}

// merge merges the first n elements of a list with the others; both parts are sorted.
func (r *mergeSorter[T]) merge(list []T, n int) {
	r.spare = append(r.spare[:0], list[:n]...)
	first, i := r.spare, 0
	for next := n; next < len(list) && len(first) > 0; i++ {
		if r.before(&list[next], &first[0]) {
			list[i] = list[next]
			next++
			continue
		}
		list[i] = first[0]
		first = first[1:]
	}
	copy(list[i:], first)
}
