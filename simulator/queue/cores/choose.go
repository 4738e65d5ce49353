package cores

import (
	"cmp"
	"math/bits"
	"slices"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// The core policies of HDeepRM: each takes the first free core, on a node with memory enough, in the order of a key that is looked
// at anew for each core; of equal keys the lowest core. All cores of a processor have the same key, so these choosers look at
// processors; that they choose the same as sorting all cores is a test. A chooser serves one machine at a time.

// Fastest takes the cores of the highest speed (high_gflops). O(processors/64) a job and O(1) a processor taken from.
func Fastest() Chooser { return &ranked{which: fastest} }

// Thriftiest takes the cores of the lowest power at work (low_power). Its cost is that of Fastest.
func Thriftiest() Chooser { return &ranked{which: thriftiest} }

// Busiest takes cores of the processor with the most busy ones, which consolidates: what HDeepRM's high_cores does.
// O(processors/64) a job for each number of busy cores.
func Busiest() Chooser { return &bucketed{} }

// Freest takes cores of the processor with the most free ones, which scatters: what HDeepRM's documentation says of high_cores.
// Its cost is that of Busiest.
func Freest() Chooser { return &bucketed{freest: true} }

// MostMemory takes cores of the node with the most memory left (high_mem). O(nodes) a job and O(log nodes) a core.
func MostMemory() Chooser { return &heaped{} }

// MostBandwidth takes cores of the processor with the most bandwidth left (high_mem_bw). O(processors) a job and O(log processors)
// a core.
func MostBandwidth() Chooser { return &heaped{bandwidth: true} }

// Anywhere takes any free core of a node with memory enough, all with the same chance; below draws a number in 0…n−1 (random).
// O(nodes) a job and O(log nodes) a core.
func Anywhere(below func(n int) int) Chooser { return &anywhere{below: below} }

const (
	fastest = iota
	thriftiest
)

// ranking is an order of processors that never changes.
type ranking struct {
	order []int32 // processors, best first
	of    []int32 // the place of each
	some  set     // places of those with free cores
}

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

// ranked goes through a ranking once: what a job leaves behind it is full, or its node lacks memory for it.
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

// bucketed goes down the numbers of busy or free cores, and in each through its processors. From the busiest it takes all it can,
// since that stays the busiest; from the freest one, after which it stands with those that have one less.
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

// heaped keeps what a job may choose from in a heap, best first. Only what stands at the top is taken from, so all below is right.
type heaped struct {
	bandwidth bool
	heap      []candidate
}

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

// anywhere counts the cores it may take by node, in sums over ranges of nodes (Fenwick 1994), draws one of them, and finds it.
type anywhere struct {
	below func(int) int
	count int     // free cores on nodes with memory enough
	sums  []int32 // sums[i] is of the i&−i nodes before node i
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
	gone := int32(1) // the one that is taken, or all of the node when that leaves memory for no other
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
