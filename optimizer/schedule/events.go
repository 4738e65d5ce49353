package schedule

// Events is the clock and event queue of every simulation. A simulation takes the next event, changes its own state, adds
// the resulting events, and repeats:
//
//	var q schedule.Events[int] // the payload is an index into the simulation's own tables
//	q.Push(0, first)
//	for q.Len() > 0 {
//		at, job := q.Pop()
//		…
//		q.Push(at+duration, job)
//	}

import (
	"fmt"
	"math"
)

// Events contains events in the order of their times, in seconds. Events of the same time are in the order of their
// addition; an event added at the current time comes after all others of that time. The queue is also the clock: Now
// is the time of the last event taken and never decreases. The zero value is an empty queue at time 0.
//
// Adding and taking an event cost O(log n) in a 4-ary heap of values, without allocation per event once the queue has
// grown to its largest size. Keep E small: an index rather than a state.
type Events[E any] struct {
	heap []event[E]
	next uint64 // number of events added so far
	now  float64
}

// event is an entry of the heap; turn orders events of the same time.
type event[E any] struct {
	at   float64
	turn uint64 // order of addition
	what E
}

// children is the arity of the heap.
const children = 4

// before reports whether a comes before b: by time, then by order of addition.
func (a *event[E]) before(b *event[E]) bool {
	return a.at < b.at || a.at == b.at && a.turn < b.turn
}

// Len returns the number of pending events.
func (q *Events[E]) Len() int { return len(q.heap) }

// Push adds an event. It panics if the time is NaN, infinite or before Now: that is a bug of the simulation, whose
// results would be wrong from there on.
func (q *Events[E]) Push(at float64, what E) {
	if !(at >= q.now) || math.IsInf(at, 1) {
		panic(fmt.Sprintf("simulation: an event at %v s cannot be added when the clock stands at %v s", at, q.now))
	}
	q.heap = append(q.heap, event[E]{at, q.next, what})
	q.next++
	q.up(len(q.heap) - 1)
}

// Peek returns the time of the next event; ok is false if the queue is empty.
func (q *Events[E]) Peek() (at float64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Pop removes the next event and sets the clock to its time. It panics on an empty queue.
func (q *Events[E]) Pop() (at float64, what E) {
	if len(q.heap) == 0 {
		panic("simulation: the next event was asked for, but none waits")
	}
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event[E]{} // release references of the payload
	q.heap = q.heap[:last]
	if last > 0 {
		q.down(0)
	}
	q.now = first.at
	return first.at, first.what
}

// Keep removes the events for which keep returns false. O(events).
func (q *Events[E]) Keep(keep func(E) bool) {
	kept := q.heap[:0]
	for _, e := range q.heap {
		if keep(e.what) {
			kept = append(kept, e)
		}
	}
	clear(q.heap[len(kept):])
	q.heap = kept
	for i := len(kept) - 1; i >= 0; i-- {
		q.down(i)
	}
}

func (q *Events[E]) up(i int) {
	h := q.heap
	moving := h[i]
	for i > 0 {
		parent := (i - 1) / children
		if !moving.before(&h[parent]) {
			break
		}
		h[i] = h[parent]
		i = parent
	}
	h[i] = moving
}

func (q *Events[E]) down(i int) {
	h := q.heap
	moving := h[i]
	for {
		least := i*children + 1
		if least >= len(h) {
			break
		}
		for c := least + 1; c < min(i*children+children+1, len(h)); c++ {
			if h[c].before(&h[least]) {
				least = c
			}
		}
		if !h[least].before(&moving) {
			break
		}
		h[i] = h[least]
		i = least
	}
	h[i] = moving
}
