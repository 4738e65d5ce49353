package schedule

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Comparison with a sorted slice, with few distinct times so that many events coincide.
func TestQueueIsASortedSlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type event struct {
			at float64
			id int
		}
		var q Events[int]
		var want []event
		added := 0
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				at := q.now + float64(rapid.IntRange(0, 5).Draw(t, "later"))/4
				q.Push(at, added)
				want = append(want, event{at, added})
				slices.SortStableFunc(want, func(a, b event) int { return cmp.Compare(a.at, b.at) })
				added++
			},
			"take": func(t *rapid.T) {
				if len(want) == 0 {
					t.Skip("nothing to take")
				}
				before := q.now
				at, id := q.Pop()
				if (event{at, id}) != want[0] {
					t.Fatalf("got event %d at %v, want %+v", id, at, want[0])
				}
				if at < before || q.now != at {
					t.Fatalf("the clock went from %v to %v with an event at %v", before, q.now, at)
				}
				want = want[1:]
			},
			"": func(t *rapid.T) {
				at, ok := q.Peek()
				if q.Len() != len(want) || ok != (len(want) > 0) || ok && at != want[0].at {
					t.Fatalf("%d events, next at %v (%v), want %v", q.Len(), at, ok, want)
				}
			},
		})
	})
}

func TestSimultaneousEventsComeAsTheyWereAdded(t *testing.T) {
	var q Events[string]
	for _, e := range []string{"first", "second", "third"} {
		q.Push(7, e)
	}
	q.Push(3, "early")
	var got []string
	for q.Len() > 0 {
		at, e := q.Pop()
		if e == "first" {
			q.Push(at, "added meanwhile")
		}
		got = append(got, e)
	}
	if want := "early, first, second, third, added meanwhile"; strings.Join(got, ", ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// TestMistakesPanicInWords checks that a misuse panics with a description and leaves the queue unchanged.
func TestMistakesPanicInWords(t *testing.T) {
	later := func() *Events[int] {
		var q Events[int]
		q.Push(5, 0)
		q.Pop()
		return &q
	}
	tests := map[string]struct {
		do   func(*Events[int])
		want string
	}{
		"not a number": {func(q *Events[int]) { q.Push(math.NaN(), 1) }, "an event at NaN s"},
		"infinite":     {func(q *Events[int]) { q.Push(math.Inf(1), 1) }, "an event at +Inf s"},
		"in the past":  {func(q *Events[int]) { q.Push(4.5, 1) }, "at 4.5 s cannot be added when the clock stands at 5 s"},
		"none waits":   {func(q *Events[int]) { q.Pop() }, "none waits"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			q := later()
			defer func() {
				if said, _ := recover().(string); !strings.Contains(said, test.want) {
					t.Errorf("got a panic with %q, want %q", said, test.want)
				}
				if q.Len() != 0 || q.now != 5 {
					t.Errorf("the queue changed: %d events, clock at %v", q.Len(), q.now)
				}
			}()
			test.do(q)
		})
	}
}

func TestNothingIsAllocatedPerEvent(t *testing.T) {
	var q Events[int]
	for i := range 1000 {
		q.Push(float64(i%37), i)
	}
	if n := testing.AllocsPerRun(1000, func() {
		at, i := q.Pop()
		q.Push(at+float64(i%11), i)
	}); n != 0 {
		t.Errorf("%v allocations to take and add an event, want none", n)
	}
}

// boxed is the same queue on container/heap, for comparison.
type boxed []event[int]

func (b boxed) Len() int           { return len(b) }
func (b boxed) Less(i, j int) bool { return b[i].before(&b[j]) }
func (b boxed) Swap(i, j int)      { b[i], b[j] = b[j], b[i] }
func (b *boxed) Push(x any)        { *b = append(*b, x.(event[int])) }
func (b *boxed) Pop() any {
	last := len(*b) - 1
	e := (*b)[last]
	*b = (*b)[:last]
	return e
}

const waiting = 10_000 // pending events during the measurement

// One event taken and one added, with 10,000 pending.
func BenchmarkQueue(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var q Events[int]
	for i := range waiting {
		q.Push(random.Float64(), i)
	}
	b.ReportAllocs()
	for b.Loop() {
		at, i := q.Pop()
		q.Push(at+random.Float64(), i)
	}
}

func BenchmarkContainerHeap(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var h boxed
	turn := uint64(0)
	push := func(at float64, i int) {
		heap.Push(&h, event[int]{at, turn, i})
		turn++
	}
	for i := range waiting {
		push(random.Float64(), i)
	}
	b.ReportAllocs()
	for b.Loop() {
		e := heap.Pop(&h).(event[int])
		push(e.at+random.Float64(), e.what)
	}
}

func TestKeepRemovesEvents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q Events[int]
		times := rapid.SliceOfN(rapid.IntRange(0, 9), 0, 40).Draw(t, "times")
		for id, at := range times {
			q.Push(float64(at), id)
		}
		odd := func(id int) bool { return id%2 == 1 }
		q.Keep(odd)
		before, n := [2]int{-1, -1}, 0
		for q.Len() > 0 {
			at, id := q.Pop()
			now := [2]int{int(at), id}
			if !odd(id) || times[id] != now[0] || cmp.Or(now[0]-before[0], now[1]-before[1]) <= 0 {
				t.Fatalf("event %v after %v of %v", now, before, times)
			}
			before = now
			n++
		}
		if n != len(times)/2 {
			t.Fatalf("%d of %d events remain", n, len(times))
		}
	})
}
