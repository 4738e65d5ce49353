package share

// heapOf is a binary heap.
type heapOf[T interface{ before(T) bool }] []T

func (h *heapOf[T]) push(v T) {
	list := append(*h, v)
	for i := len(list) - 1; i > 0 && list[i].before(list[(i-1)/2]); i = (i - 1) / 2 {
		list[i], list[(i-1)/2] = list[(i-1)/2], list[i]
	}
	*h = list
}

// pop removes and returns the first element. The heap must not be empty.
func (h *heapOf[T]) pop() T {
	list := *h
	first, last := list[0], len(list)-1
	list[0] = list[last]
	*h = list[:last]
	h.down(0)
	return first
}

// down moves an element behind those that come before it.
func (h heapOf[T]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(h) {
			return
		}
		if child+1 < len(h) && h[child+1].before(h[child]) {
			child++
		}
		if !h[child].before(h[i]) {
			return
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}
