// Package engine is the clock and the event queue of every simulation.
//
// It is a pure step machine: nothing in it waits, starts a goroutine or reads a clock. A simulation takes the next event,
// changes its own state, adds the events that follow, and takes the next one:
//
//	var q engine.Queue[int] // the payload is an index into the simulation's own tables
//	q.Push(0, first)
//	for q.Len() > 0 {
//		at, job := q.Pop()
//		…
//		q.Push(at+duration, job)
//	}
//
// It knows nothing of jobs or machines, and it decides nothing.
package engine

import (
	"fmt"
	"math"
)

// Queue holds events in the order of their times, in seconds; events of the same time come in the order in which they were
// added, also those that are added while that time is being worked on: they come after what was there. The queue is the clock
// too: Now is the time of the event taken last, and never goes back. The zero value is empty and stands at 0.
//
// Adding and taking an event cost O(log n) in a heap of four children a node, held by value: no allocation per event once the
// queue has grown to its largest size. Keep E small, an index rather than a state.
type Queue[E any] struct {
	heap []event[E]
	next uint64 // number of events ever added
	now  float64
}

type event[E any] struct {
	at   float64
	turn uint64 // order of adding
	what E
}

const children = 4

func (a *event[E]) before(b *event[E]) bool {
	return a.at < b.at || a.at == b.at && a.turn < b.turn
}

// Len is the number of events that wait.
func (q *Queue[E]) Len() int { return len(q.heap) }

// Now is the time of the event taken last, 0 before the first.
func (q *Queue[E]) Now() float64 { return q.now }

// Push adds an event. A time that is not a number, infinite or before Now is a mistake of the simulation, whose results would be
// wrong from there on, so it panics and says which it was.
func (q *Queue[E]) Push(at float64, what E) {
	if !(at >= q.now) || math.IsInf(at, 1) {
		panic(fmt.Sprintf("simulation: an event at %v s cannot be added when the clock stands at %v s", at, q.now))
	}
	q.heap = append(q.heap, event[E]{at, q.next, what})
	q.next++
	q.up(len(q.heap) - 1)
}

// Peek is the time of the next event; ok is false when there is none.
func (q *Queue[E]) Peek() (at float64, ok bool) {
	if len(q.heap) == 0 {
		return 0, false
	}
	return q.heap[0].at, true
}

// Pop takes the next event and sets the clock to its time. It panics on an empty queue.
func (q *Queue[E]) Pop() (at float64, what E) {
	if len(q.heap) == 0 {
		panic("simulation: the next event was asked for, but none waits")
	}
	first := q.heap[0]
	last := len(q.heap) - 1
	q.heap[0] = q.heap[last]
	q.heap[last] = event[E]{} // what a payload points to may be freed
	q.heap = q.heap[:last]
	if last > 0 {
		q.down()
	}
	q.now = first.at
	return first.at, first.what
}

func (q *Queue[E]) up(i int) {
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

func (q *Queue[E]) down() {
	h := q.heap
	moving := h[0]
	i := 0
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
