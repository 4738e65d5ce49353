package queue

import (
	"cmp"
	"math/bits"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// choosers are the core policies of HDeepRM, by name, and high_free_cores. Each repeatedly takes the first free core, on
// a node with sufficient memory, in ascending order of a key that is evaluated again for every core; equal keys are
// ordered by core number. All cores of a processor have equal keys, so choosers examine processors; tests check that
// the result equals sorting all cores.
var choosers = map[string]func(below func(n int) int) Chooser{
	"random":          func(below func(int) int) Chooser { return &random{below: below} },
	"high_gflops":     func(func(int) int) Chooser { return &ranked{which: speedRank} },
	"high_cores":      func(func(int) int) Chooser { return &bucketed{} },
	"high_free_cores": func(func(int) int) Chooser { return &bucketed{free: true} },
	"high_mem":        func(func(int) int) Chooser { return &heaped{} },
	"high_mem_bw":     func(func(int) int) Chooser { return &heaped{bandwidth: true} },
	"low_power":       func(func(int) int) Chooser { return &ranked{which: powerRank} },
}

// NewChooser returns a chooser by its name in HDeepRM, for one machine at a time:
//
//   - random: a free core of any node with sufficient memory, with equal probability; below returns a random number in
//     [0, n). O(nodes) per job and O(log nodes) per core.
//   - high_gflops, low_power: the cores of the highest speed, of the lowest active power. O(processors/64) per job and
//     O(1) per processor used.
//   - high_cores: the processor with the most busy cores, which consolidates load: the behaviour of HDeepRM's code.
//     O(processors/64) per job and level, a level being a number of busy cores.
//   - high_free_cores: the processor with the most free cores, which spreads load: high_cores as HDeepRM's
//     documentation describes it. Its cost is that of high_cores.
//   - high_mem: the node with the most free memory. O(nodes) per job and O(log nodes) per core.
//   - high_mem_bw: the processor with the most free bandwidth. O(processors) per job and O(log processors) per core.
func NewChooser(name string, below func(n int) int) Chooser { return choosers[name](below) }

// The rankings of a machine.
const (
	speedRank = iota
	powerRank
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

func (r *ranked) Start(*Machine, *order.Job) { r.place = 0 }

func (r *ranked) Next(m *Machine, job *order.Job, want int) (int32, int) {
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
	free             bool
	level, processor int
}

func (b *bucketed) Start(m *Machine, _ *order.Job) { b.level, b.processor = len(m.byBusy)-1, 0 }

func (b *bucketed) Next(m *Machine, job *order.Job, want int) (int32, int) {
	levels := m.byBusy
	if b.free {
		levels = m.byFree
	}
	for ; b.level >= 0; b.level, b.processor = b.level-1, 0 {
		for b.processor = levels[b.level].next(b.processor); b.processor >= 0; b.processor = levels[b.level].next(b.processor) {
			p := int32(b.processor)
			b.processor++
			if room := m.Room(p, job); room > 0 {
				if b.free {
					return m.FreeCore(p, 0), 1
				}
				return m.FreeCore(p, 0), min(room, want)
			}
		}
	}
	return -1, 0
}

// entry is a node, a processor or a running job with its key. The smallest key comes first, and of equal keys the
// smallest number.
type entry struct {
	key float64
	of  int32
}

// Before is the order of a heap.
func (a entry) Before(b entry) bool { return a.key < b.key || a.key == b.key && a.of < b.of }

// heaped keeps the candidates of a job, nodes or processors, in a heap by free memory or bandwidth at insertion, the
// largest first. Cores are taken only from the top, so all other entries remain valid.
type heaped struct {
	bandwidth bool
	heap      schedule.Heap[entry] // of the negative amounts
}

func (h *heaped) Start(m *Machine, job *order.Job) {
	h.heap = h.heap[:0]
	if h.bandwidth {
		for p, free := range m.freeOf {
			if free > 0 && m.memory[m.tree.Processors[p].Node] >= job.Memory {
				h.heap = append(h.heap, entry{-m.bandwidth[p], int32(p)})
			}
		}
	} else {
		for n, free := range m.freeIn {
			if free > 0 && m.memory[n] >= job.Memory {
				h.heap = append(h.heap, entry{-m.memory[n], int32(n)})
			}
		}
	}
	h.heap.Init()
}

// Next removes or re-sorts a top entry that is exhausted or out of date until the top is current, and takes one core
// from it.
func (h *heaped) Next(m *Machine, job *order.Job, _ int) (int32, int) {
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
			h.heap.Pop()
		case -left != top.key:
			top.key = -left
			h.heap.Down(0)
		default:
			return int32(m.free.next(first)), 1
		}
	}
	return -1, 0
}

// random keeps the number of eligible cores by node in a Fenwick tree (Fenwick 1994), draws one core uniformly, and
// locates it.
type random struct {
	below func(int) int
	count int     // free cores on nodes with sufficient memory
	sums  []int32 // sums[i] covers the i&−i nodes before node i
}

func (r *random) Start(m *Machine, job *order.Job) {
	r.count = 0
	r.sums = append(r.sums[:0], 0)
	for n, free := range m.freeIn {
		if m.memory[n] < job.Memory {
			free = 0
		}
		r.count += int(free)
		r.sums = append(r.sums, free)
	}
	for i := 1; i < len(r.sums); i++ {
		if above := i + i&-i; above < len(r.sums) {
			r.sums[above] += r.sums[i]
		}
	}
}

// Next draws the index of an eligible core, finds its node by binary descent of the tree, and deducts the core or,
// where the node's memory allows no further one, all cores of the node.
func (r *random) Next(m *Machine, job *order.Job, _ int) (int32, int) {
	if r.count == 0 {
		return -1, 0
	}
	at, n := int32(r.below(r.count)), 0
	for step := 1 << (bits.Len(uint(len(r.sums)-1)) - 1); step > 0; step >>= 1 {
		if n+step < len(r.sums) && r.sums[n+step] <= at {
			n += step
			at -= r.sums[n]
		}
	}
	gone := int32(1) // the core taken, or all cores of the node where its memory allows no further one
	if m.memory[n]-job.Memory < job.Memory {
		gone = m.freeIn[n]
	}
	r.count -= int(gone)
	for i := n + 1; i < len(r.sums); i += i & -i {
		r.sums[i] -= gone
	}
	core := m.free.next(m.tree.Processors[m.tree.Nodes[n].First].First)
	for range at {
		core = m.free.next(core + 1)
	}
	return int32(core), 1
}
