package queue

import (
	"math"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/order"
)

// forecast computes when each pool has room for a job, from the expected ends of running jobs. now must be called
// before later.
type forecast struct {
	free   [][]int32 // free cores by pool and node
	memory []float64 // free memory by node, MB
	room   []int
	at     []float64
	ends   schedule.Heap[entry] // expected ends, by index in state.running
	// missing is the number of pools that have no room yet.
	missing int
	heaped  bool
}

// now sets f.at to s.Now for the pools that have room already, to +∞ for the others, and returns it. O(processors ×
// pools).
func (f *forecast) now(s *state, job int32, pools []pool) []float64 {
	j := &s.Jobs[job]
	nodes := len(s.Tree.Nodes)
	for len(f.free) < len(pools) {
		f.free = append(f.free, make([]int32, nodes))
	}
	if f.memory == nil {
		f.memory = make([]float64, nodes)
	}
	f.room, f.at = grow(f.room, len(pools)), grow(f.at, len(pools))
	for n := range f.memory {
		f.memory[n] = s.Machine.Memory(int32(n))
	}
	f.missing, f.heaped = 0, false
	for k := range pools {
		f.at[k], f.room[k] = math.Inf(1), 0
		if pools[k].Cores < j.Procs {
			continue
		}
		clear(f.free[k])
		for _, p := range pools[k].list {
			f.free[k][s.Tree.Processors[p].Node] += int32(s.Machine.FreeOf(p))
		}
		for n, free := range f.free[k] {
			if free > 0 {
				f.room[k] += room(free, f.memory[n], j)
			}
		}
		if f.room[k] >= j.Procs {
			f.at[k] = s.Now
		} else {
			f.missing++
		}
	}
	return f.at
}

// later sets f.at for the pools that will have room by until, and returns it. It may be called again with later
// times. O(running + ends × log running).
func (f *forecast) later(s *state, job int32, pools []pool, until float64) []float64 {
	if f.missing == 0 || until <= s.Now {
		return f.at
	}
	if !f.heaped {
		f.ends = f.ends[:0]
		for i := range s.running {
			f.ends = append(f.ends, entry{s.running[i].end, int32(i)})
		}
		f.ends.Init()
		f.heaped = true
	}
	for f.missing > 0 && len(f.ends) > 0 && f.ends[0].key <= until {
		e := f.ends.Pop()
		f.missing -= f.release(s, &s.running[e.of], &s.Jobs[job], pools, max(e.key, s.Now))
	}
	return f.at
}

// release adds the cores and memory of a running job that ends at the given time, and returns how many pools gained
// room.
func (f *forecast) release(s *state, r *running, j *order.Job, pools []pool, at float64) (gained int) {
	memory := s.Jobs[r.job].Memory
	for p, count := range byProcessor(s.Tree, r.cores) {
		n := s.Tree.Processors[p].Node
		more := f.memory[n] + float64(count)*memory
		for k := range pools {
			if !math.IsInf(f.at[k], 1) || pools[k].Cores < j.Procs {
				continue
			}
			before := f.free[k][n]
			after := before
			if pools[k].of[p] {
				after += count
			}
			f.room[k] += room(after, more, j) - room(before, f.memory[n], j)
			f.free[k][n] = after
			if f.room[k] >= j.Procs {
				f.at[k] = at
				gained++
			}
		}
		f.memory[n] = more
	}
	return gained
}

// grow returns a slice of length n that reuses the array of of where possible. Its elements are not cleared.
func grow[T any](of []T, n int) []T {
	return slices.Grow(of[:0], n)[:n]
}
