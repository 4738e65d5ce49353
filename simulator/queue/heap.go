package queue

// entry is a node, a processor or a running job with its key.
type entry struct {
	key float64
	of  int32
}

func (a entry) before(b entry) bool { return a.key < b.key || a.key == b.key && a.of < b.of }

// minHeap is a binary heap, the smallest key first, and of equal keys the smallest number.
type minHeap []entry

// init establishes the order. O(n).
func (h minHeap) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// pop removes the first entry. O(log n).
func (h *minHeap) pop() entry {
	top, last := (*h)[0], len(*h)-1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	h.down(0)
	return top
}

// down restores the order after the key at index i has grown. O(log n).
func (h minHeap) down(i int) {
	for {
		below := 2*i + 1
		if below >= len(h) {
			return
		}
		if below+1 < len(h) && h[below+1].before(h[below]) {
			below++
		}
		if !h[below].before(h[i]) {
			return
		}
		h[i], h[below] = h[below], h[i]
		i = below
	}
}
