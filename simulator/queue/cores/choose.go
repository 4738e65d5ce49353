package cores

import (
	"cmp"
	"math/bits"
	"slices"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// The core policies of HDeepRM. Each repeatedly takes the first free core, on a node with sufficient memory, in
// ascending order of a key that is evaluated again for every core; equal keys are ordered by core number. All cores
// of a processor have equal keys, so these choosers examine processors; tests check that the result equals sorting
// all cores. A chooser serves one machine at a time.

// Fastest takes the cores of the highest speed (high_gflops). O(processors/64) per job and O(1) per processor used.
func Fastest() Chooser { return &ranked{which: fastest} }

// Thriftiest takes the cores of the lowest active power (low_power). Its cost is that of Fastest.
func Thriftiest() Chooser { return &ranked{which: thriftiest} }

// Busiest takes cores of the processor with the most busy cores, which consolidates load: the behaviour of HDeepRM's
// high_cores. O(processors/64) per job and level, a level being a number of busy cores.
func Busiest() Chooser { return &bucketed{} }

// Freest takes cores of the processor with the most free cores, which spreads load: high_cores as HDeepRM's
// documentation describes it. Its cost is that of Busiest.
func Freest() Chooser { return &bucketed{freest: true} }

// MostMemory takes cores of the node with the most free memory (high_mem). O(nodes) per job and O(log nodes) per
// core.
func MostMemory() Chooser { return &heaped{} }

// MostBandwidth takes cores of the processor with the most free bandwidth (high_mem_bw). O(processors) per job and
// O(log processors) per core.
func MostBandwidth() Chooser { return &heaped{bandwidth: true} }

// Anywhere takes a free core of any node with sufficient memory, with equal probability (random). below returns a
// random number in [0, n). O(nodes) per job and O(log nodes) per core.
func Anywhere(below func(n int) int) Chooser { return &anywhere{below: below} }

const (
	fastest = iota
	thriftiest
)

// ranking is a fixed order of processors.
type ranking struct {
	order []int32 // processors, best first
	of    []int32 // rank of each processor
	some  set     // ranks of processors with free cores
}

// rank sorts processors by ascending key, stably; no processor has free cores yet.
func rank(processors []platform.Processor, key func(*platform.Processor) float64) ranking {
	r := ranking{order: make([]int32, len(processors)), of: make([]int32, len(processors)), some: newSet(len(processors))}
	for i := range r.order {
		r.order[i] = int32(i)
	}
	slices.SortStableFunc(r.order, func(a, b int32) int { return cmp.Compare(key(&processors[a]), key(&processors[b])) })
	for place, p := range r.order {
		r.of[p] = int32(place)
	}
	return r
}

// ranked traverses a ranking once per job: a processor already passed is full, or its node lacks memory for the job.
type ranked struct {
	which int
	place int
}

func (r *ranked) Start(*Machine, *queue.Job) { r.place = 0 }

func (r *ranked) Next(m *Machine, job *queue.Job, want int) (int32, int) {
	ranks := &m.ranks[r.which]
	for {
		r.place = ranks.some.next(r.place)
		if r.place < 0 {
			r.place = len(ranks.order)
			return -1, 0
		}
		p := ranks.order[r.place]
		if room := m.Room(p, job); room > 0 {
			return m.FreeCore(p, 0), min(room, want)
		}
		r.place++
	}
}

// bucketed traverses the numbers of busy or free cores in descending order, and the processors at each. From the
// busiest processor it takes as many cores as possible, since the processor remains the busiest; from the freest it
// takes one, which moves the processor to the next lower level.
type bucketed struct {
	freest           bool
	level, processor int
}

func (b *bucketed) Start(m *Machine, _ *queue.Job) { b.level, b.processor = len(m.byBusy)-1, 0 }

func (b *bucketed) Next(m *Machine, job *queue.Job, want int) (int32, int) {
	levels := m.byBusy
	if b.freest {
		levels = m.byFree
	}
	for ; b.level >= 0; b.level, b.processor = b.level-1, 0 {
		for b.processor = levels[b.level].next(b.processor); b.processor >= 0; b.processor = levels[b.level].next(b.processor) {
			p := int32(b.processor)
			b.processor++
			if room := m.Room(p, job); room > 0 {
				if b.freest {
					return m.FreeCore(p, 0), 1
				}
				return m.FreeCore(p, 0), min(room, want)
			}
		}
	}
	return -1, 0
}

// heaped keeps the candidates of a job in a max-heap. Cores are taken only from the top, so all other entries remain
// valid.
type heaped struct {
	bandwidth bool
	heap      []candidate
}

// candidate is a node or processor with its free memory or bandwidth at insertion.
type candidate struct {
	left float64
	of   int32 // processor or node
}

func (a candidate) before(b candidate) bool {
	return a.left > b.left || a.left == b.left && a.of < b.of
}

func (h *heaped) Start(m *Machine, job *queue.Job) {
	h.heap = h.heap[:0]
	if h.bandwidth {
		for p, free := range m.freeOf {
			if free > 0 && m.memory[m.tree.Processors[p].Node] >= job.Memory {
				h.heap = append(h.heap, candidate{m.bandwidth[p], int32(p)})
			}
		}
	} else {
		for n, free := range m.freeIn {
			if free > 0 && m.memory[n] >= job.Memory {
				h.heap = append(h.heap, candidate{m.memory[n], int32(n)})
			}
		}
	}
	for i := len(h.heap)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// Next removes or re-sorts a top entry that is exhausted or out of date until the top is current, and takes one core
// from it.
func (h *heaped) Next(m *Machine, job *queue.Job, _ int) (int32, int) {
	for len(h.heap) > 0 {
		top := &h.heap[0]
		var free int32
		var left float64
		var node, first int
		if h.bandwidth {
			p := &m.tree.Processors[top.of]
			free, left, node, first = m.freeOf[top.of], m.bandwidth[top.of], p.Node, p.First
		} else {
			node = int(top.of)
			free, left, first = m.freeIn[node], m.memory[node], m.tree.Processors[m.tree.Nodes[node].First].First
		}
		switch {
		case free == 0 || m.memory[node] < job.Memory:
			last := len(h.heap) - 1
			h.heap[0] = h.heap[last]
			h.heap = h.heap[:last]
			h.down(0)
		case left != top.left:
			top.left = left
			h.down(0)
		default:
			return int32(m.free.next(first)), 1
		}
	}
	return -1, 0
}

func (h *heaped) down(i int) {
	for {
		below := 2*i + 1
		if below >= len(h.heap) {
			return
		}
		if below+1 < len(h.heap) && h.heap[below+1].before(h.heap[below]) {
			below++
		}
		if !h.heap[below].before(h.heap[i]) {
			return
		}
		h.heap[i], h.heap[below] = h.heap[below], h.heap[i]
		i = below
	}
}

// anywhere keeps the number of eligible cores by node in a Fenwick tree (Fenwick 1994), draws one core uniformly, and
// locates it.
type anywhere struct {
	below func(int) int
	count int     // free cores on nodes with sufficient memory
	sums  []int32 // sums[i] covers the i&−i nodes before node i
}

func (a *anywhere) Start(m *Machine, job *queue.Job) {
	a.count = 0
	a.sums = append(a.sums[:0], 0)
	for n, free := range m.freeIn {
		if m.memory[n] < job.Memory {
			free = 0
		}
		a.count += int(free)
		a.sums = append(a.sums, free)
	}
	for i := 1; i < len(a.sums); i++ {
		if above := i + i&-i; above < len(a.sums) {
			a.sums[above] += a.sums[i]
		}
	}
}

// Next draws the index of an eligible core, finds its node by binary descent of the tree, and deducts the core or,
// where the node's memory allows no further one, all cores of the node.
func (a *anywhere) Next(m *Machine, job *queue.Job, _ int) (int32, int) {
	if a.count == 0 {
		return -1, 0
	}
	at, n := int32(a.below(a.count)), 0
	for step := 1 << (bits.Len(uint(len(a.sums)-1)) - 1); step > 0; step >>= 1 {
		if n+step < len(a.sums) && a.sums[n+step] <= at {
			n += step
			at -= a.sums[n]
		}
	}
	gone := int32(1) // the core taken, or all cores of the node where its memory allows no further one
	if m.memory[n]-job.Memory < job.Memory {
		gone = m.freeIn[n]
	}
	a.count -= int(gone)
	for i := n + 1; i < len(a.sums); i += i & -i {
		a.sums[i] -= gone
	}
	core := m.free.next(m.tree.Processors[m.tree.Nodes[n].First].First)
	for range at {
		core = m.free.next(core + 1)
	}
	return int32(core), 1
}
