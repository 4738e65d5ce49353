package schedule

import (
	"math/rand/v2"
	"slices"
	"testing"
)

type number int

func (a number) Before(b number) bool { return a < b }

// TestHeap compares a heap with a sorted list, over random calls.
func TestHeap(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		var h Heap[number]
		for range random.IntN(40) {
			h = append(h, number(random.IntN(20)))
		}
		h.Init()
		want := slices.Sorted(slices.Values(h))
		for range 200 {
			if len(want) == 0 || random.IntN(2) == 0 {
				v := number(random.IntN(20))
				h.Push(v)
				at, _ := slices.BinarySearch(want, v)
				want = slices.Insert(want, at, v)
				continue
			}
			if got := h.Pop(); got != want[0] {
				t.Fatalf("Pop returns %d, want %d", got, want[0])
			}
			want = want[1:]
		}
	}
}
