package hdeeprm

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// waiting is the queue. Policies sort it in place, so that jobs equal under one policy keep the order of the
// preceding one. A sorted part is not sorted again: a selection costs O(1), plus O(k·n) moves for k jobs that arrived
// since the last one, or O(n log n) if the policy changes.
type waiting struct {
	jobs   []order.Job
	list   []int32 // the queue is list[head:]
	head   int
	by     jobPolicy
	sorted int // list[head:sorted] is in the order of by
	order  []keyed
}

// keyed is a waiting job with its sort key and its position before sorting.
type keyed struct {
	key      float64
	at, what int32
}

func (w *waiting) reset(jobs []order.Job) {
	w.jobs, w.list, w.head, w.by, w.sorted = jobs, w.list[:0], 0, randomJob, 0
}

func (w *waiting) len() int { return len(w.list) - w.head }

// all returns the waiting jobs in order. The slice is valid until the queue changes.
func (w *waiting) all() []int32 { return w.list[w.head:] }

func (w *waiting) add(job int32) {
	// Reclaim the space in front once it exceeds half of the list.
	if w.head > 1024 && w.head > len(w.list)/2 {
		n := copy(w.list, w.list[w.head:])
		w.list, w.sorted, w.head = w.list[:n], w.sorted-w.head, 0
	}
	w.list = append(w.list, job)
}

// sort sorts the queue by a policy other than random: by insertion for up to 16 new jobs, otherwise completely.
func (w *waiting) sort(by jobPolicy) {
	key := keys[by]
	w.sorted = max(w.sorted, w.head)
	if w.by != by || len(w.list)-w.sorted > 16 {
		w.order = w.order[:0]
		for i, j := range w.list[w.head:] {
			w.order = append(w.order, keyed{key(&w.jobs[j]), int32(i), j})
		}
		slices.SortFunc(w.order, func(a, b keyed) int {
			if a.key != b.key {
				return cmp.Compare(a.key, b.key)
			}
			return cmp.Compare(a.at, b.at)
		})
		for i, o := range w.order {
			w.list[w.head+i] = o.what
		}
		w.by, w.sorted = by, len(w.list)
		return
	}
	for ; w.sorted < len(w.list); w.sorted++ {
		job := w.list[w.sorted]
		k := key(&w.jobs[job])
		before := w.list[w.head:w.sorted]
		at, _ := slices.BinarySearchFunc(before, k, func(j int32, k float64) int {
			if key(&w.jobs[j]) <= k {
				return -1
			}
			return 1
		})
		copy(w.list[w.head+at+1:w.sorted+1], before[at:])
		w.list[w.head+at] = job
	}
}

// remove deletes the job at the given position, counted from the head.
func (w *waiting) remove(at int) {
	if at == 0 {
		w.head++
		return
	}
	at += w.head
	w.list = slices.Delete(w.list, at, at+1)
	if at < w.sorted {
		w.sorted--
	}
}
