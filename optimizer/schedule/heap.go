package schedule

// Heap is a binary heap: a list whose first element comes before all others by T's Before, which must be a strict weak
// order. The zero value is empty. Unlike container/heap, it does not box elements.
type Heap[T interface{ Before(T) bool }] []T

// Init makes a heap of a list in any order. O(n).
func (h Heap[T]) Init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.Down(i)
	}
}

// Push adds an element. O(log n), and O(1) if it comes after the others.
func (h *Heap[T]) Push(v T) {
	list := append(*h, v)
	for i := len(list) - 1; i > 0; {
		parent := (i - 1) / 2
		if !list[i].Before(list[parent]) {
			break
		}
		list[i], list[parent] = list[parent], list[i]
		i = parent
	}
	*h = list
}

// Pop removes and returns the first element. The heap must not be empty. O(log n).
func (h *Heap[T]) Pop() T {
	list := *h
	first, last := list[0], len(list)-1
	list[0] = list[last]
	*h = list[:last]
	h.Down(0)
	return first
}

// Down restores the order after the element at index i has moved back in it. O(log n).
func (h Heap[T]) Down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].Before(h[child]) {
			child++
		}
		if !h[child].Before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
