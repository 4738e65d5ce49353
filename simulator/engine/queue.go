// Package engine is the clock and the event queue of every simulation.
package engine

// Queue holds events in the order of their times; events of the same time come in the order in which they were added. The zero
// value is empty.
type Queue[E any] struct{}
