package unequal

import (
	"math"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// Pool is a set of processors. A job takes all its cores from one pool.
type Pool struct {
	Speed float64 // speed of its slowest core, GFLOPS
	Watts float64 // mean active power of a core, W
	Cores int
	least float64 // lowest active power of a core, W
	of    []bool  // membership by processor
	list  []int32 // its processors
}

// newPool returns the pool of the processors for which has returns true.
func newPool(tree *platform.Tree, has func(*platform.Processor) bool) Pool {
	k := Pool{Speed: math.Inf(1), least: math.Inf(1), of: make([]bool, len(tree.Processors))}
	for i := range tree.Processors {
		p := &tree.Processors[i]
		if p.Cores == 0 || !has(p) {
			continue
		}
		k.of[i] = true
		k.list = append(k.list, int32(i))
		k.Cores += p.Cores
		k.Watts += p.Watts * float64(p.Cores)
		k.Speed, k.least = min(k.Speed, p.GFLOPS), min(k.least, p.Watts)
	}
	k.Watts /= float64(k.Cores)
	return k
}

// forecast computes when each pool has room for a job, from the expected ends of running jobs. now must be called
// before later.
type forecast struct {
	free   [][]int32 // free cores by pool and node
	memory []float64 // free memory by node, MB
	room   []int
	at     []float64
	ends   []ending
	// missing is the number of pools that have no room yet.
	missing int
	heaped  bool
}

// ending is the expected end of the running job at an index of State.running.
type ending struct {
	at    float64
	place int32
}

// room returns how many cores of a job fit on a node with the given free cores and memory, MB.
func room(free int32, memory float64, job *queue.Job) int {
	if job.Memory > 0 && memory < float64(free)*job.Memory {
		return int(memory / job.Memory)
	}
	return int(free)
}

// now sets f.at to s.Now for the pools that have room already, to +∞ for the others, and returns it. O(processors ×
// pools).
func (f *forecast) now(s *State, job int32, pools []Pool) []float64 {
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
func (f *forecast) later(s *State, job int32, pools []Pool, until float64) []float64 {
	if f.missing == 0 || until <= s.Now {
		return f.at
	}
	if !f.heaped {
		f.heap(s)
		f.heaped = true
	}
	for f.missing > 0 && len(f.ends) > 0 && f.ends[0].at <= until {
		e := f.pop()
		f.missing -= f.release(s, &s.running[e.place], &s.Jobs[job], pools, max(e.at, s.Now))
	}
	return f.at
}

// release adds the cores and memory of a running job that ends at the given time, and returns how many pools gained
// room.
func (f *forecast) release(s *State, r *running, j *queue.Job, pools []Pool, at float64) (gained int) {
	memory := s.Jobs[r.job].Memory
	for i := 0; i < len(r.cores); {
		p := s.Tree.ProcessorOf[r.cores[i]]
		n, count := s.Tree.Processors[p].Node, 0
		for ; i < len(r.cores) && s.Tree.ProcessorOf[r.cores[i]] == p; i++ {
			count++
		}
		more := f.memory[n] + float64(count)*memory
		for k := range pools {
			if !math.IsInf(f.at[k], 1) || pools[k].Cores < j.Procs {
				continue
			}
			before := f.free[k][n]
			after := before
			if pools[k].of[p] {
				after += int32(count)
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

// heap builds a heap of the running jobs by expected end, the earliest first.
func (f *forecast) heap(s *State) {
	f.ends = f.ends[:0]
	for i := range s.running {
		f.ends = append(f.ends, ending{s.running[i].end, int32(i)})
	}
	for i := len(f.ends)/2 - 1; i >= 0; i-- {
		f.down(i)
	}
}

func (f *forecast) pop() ending {
	top, last := f.ends[0], len(f.ends)-1
	f.ends[0] = f.ends[last]
	f.ends = f.ends[:last]
	f.down(0)
	return top
}

func (f *forecast) down(i int) {
	for {
		below := 2*i + 1
		if below >= len(f.ends) {
			return
		}
		if below+1 < len(f.ends) && f.ends[below+1].before(f.ends[below]) {
			below++
		}
		if !f.ends[below].before(f.ends[i]) {
			return
		}
		f.ends[i], f.ends[below] = f.ends[below], f.ends[i]
		i = below
	}
}

func (e ending) before(o ending) bool { return e.at < o.at || e.at == o.at && e.place < o.place }

// grow returns a slice of length n that reuses the array of of where possible. Its elements are not cleared.
func grow[T any](of []T, n int) []T {
	if cap(of) < n {
		return make([]T, n)
	}
	return of[:n]
}
