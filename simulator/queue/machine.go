package queue

import (
	"iter"
	"math"
	"math/bits"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// Machine tracks free cores, free memory and bandwidth, and the power state that each core should have. Memory
// belongs to a node and is never oversubscribed; bandwidth belongs to a processor and may be, in which case all its
// serving cores are slowed.
//
// Taking or releasing a core costs O(1), and O(cores of its processor) where the processor becomes busy, idle,
// oversubscribed or no longer so. A Machine is not safe for concurrent use.
type Machine struct {
	tree      *platform.Tree
	total     int
	free      set       // cores
	freeOf    []int32   // free cores by processor
	freeIn    []int32   // free cores by node
	coresIn   []int32   // all cores by node
	bandwidth []float64 // free bandwidth by processor, GB/s
	memory    []float64 // free memory by node, MB
	state     []uint8   // by core
	owner     []int32   // by core, −1 means free

	ranks   [2]ranking // processors with free cores, by speed and by power
	byBusy  []set      // processors with free cores, by number of busy cores
	byFree  []set      // the same, by number of free cores
	touched []int32    // cores whose state was set since the last call of Changes
	marked  []bool
	known   int // len(touched) before the last TryPlace
	grouped [states][]int32

	// Watch, if not nil, is called before the speed of a serving core changes.
	Watch func(core, owner int32)
}

// fit is the result of an attempt to place a job.
type fit uint8

const (
	Fits        fit = iota
	LacksCores      // fewer cores are free than the job requests
	LacksMemory     // enough cores are free, but not on nodes with sufficient memory
)

// NewMachine returns an idle machine.
func NewMachine(tree *platform.Tree) *Machine {
	m := &Machine{
		tree: tree, free: newSet(tree.Cores),
		freeOf: make([]int32, len(tree.Processors)), freeIn: make([]int32, len(tree.Nodes)),
		bandwidth: make([]float64, len(tree.Processors)), memory: make([]float64, len(tree.Nodes)),
		state: make([]uint8, tree.Cores), owner: make([]int32, tree.Cores), marked: make([]bool, tree.Cores),
	}
	m.coresIn = make([]int32, len(tree.Nodes))
	widest := 0
	for _, p := range tree.Processors {
		widest = max(widest, p.Cores)
		m.coresIn[p.Node] += int32(p.Cores)
	}
	m.ranks[speedRank] = rank(tree.Processors, func(p *platform.Processor) float64 { return -p.GFLOPS })
	m.ranks[powerRank] = rank(tree.Processors, func(p *platform.Processor) float64 { return p.Watts })
	for range widest + 1 {
		m.byBusy = append(m.byBusy, newSet(len(tree.Processors)))
		m.byFree = append(m.byFree, newSet(len(tree.Processors)))
	}
	m.Reset()
	return m
}

// Reset returns the machine to idle. It does not allocate.
func (m *Machine) Reset() {
	m.total = m.tree.Cores
	clear(m.free)
	for c := range m.state {
		m.state[c], m.owner[c], m.marked[c] = asleep, -1, false
		m.free.add(c)
	}
	m.touched = m.touched[:0]
	copy(m.freeIn, m.coresIn)
	for i := range m.byBusy {
		clear(m.byBusy[i])
		clear(m.byFree[i])
	}
	for i := range m.tree.Processors {
		p := &m.tree.Processors[i]
		m.freeOf[i], m.bandwidth[i] = int32(p.Cores), p.Bandwidth
		if p.Cores > 0 {
			m.list(int32(i), true)
		}
	}
	for i := range m.tree.Nodes {
		m.memory[i] = m.tree.Nodes[i].Memory
	}
}

// CopyFrom copies the state of another machine of the same tree, for evaluating a decision without taking it. It does
// not allocate; Watch is not copied.
func (m *Machine) CopyFrom(o *Machine) {
	m.total = o.total
	copy(m.free, o.free)
	copy(m.freeOf, o.freeOf)
	copy(m.freeIn, o.freeIn)
	copy(m.bandwidth, o.bandwidth)
	copy(m.memory, o.memory)
	copy(m.state, o.state)
	copy(m.owner, o.owner)
	copy(m.marked, o.marked)
	m.touched = append(m.touched[:0], o.touched...)
	for i := range m.ranks {
		copy(m.ranks[i].some, o.ranks[i].some)
	}
	for i := range m.byBusy {
		copy(m.byBusy[i], o.byBusy[i])
		copy(m.byFree[i], o.byFree[i])
	}
}

// Free returns the number of free cores.
func (m *Machine) Free() int { return m.total }

// FreeOf returns the number of free cores of a processor.
func (m *Machine) FreeOf(processor int32) int { return int(m.freeOf[processor]) }

// Bandwidth returns the free bandwidth of a processor, GB/s; negative where it is oversubscribed.
func (m *Machine) Bandwidth(processor int32) float64 { return m.bandwidth[processor] }

// Memory returns the free memory of a node, MB.
func (m *Machine) Memory(node int32) float64 { return m.memory[node] }

// State returns the power state of a core.
func (m *Machine) State(core int32) uint8 { return m.state[core] }

// Owner returns the job that a core serves, −1 for a free core.
func (m *Machine) Owner(core int32) int32 { return m.owner[core] }

// FreeCore returns the lowest free core of a processor that is at least from, −1 if none exists.
func (m *Machine) FreeCore(processor, from int32) int32 {
	p := &m.tree.Processors[processor]
	c := m.free.next(max(int(from), p.First))
	if c < 0 || c >= p.First+p.Cores {
		return -1
	}
	return int32(c)
}

// Room returns the number of the job's cores that the processor can take now, limited by its free cores and its
// node's free memory.
func (m *Machine) Room(processor int32, job *order.Job) int {
	return room(m.freeOf[processor], m.memory[m.tree.Processors[processor].Node], job)
}

// room returns how many cores of a job fit on a node with the given free cores and memory, MB.
func room(free int32, memory float64, job *order.Job) int {
	if job.Memory > 0 && memory < float64(free)*job.Memory {
		return int(memory / job.Memory)
	}
	return int(free)
}

// Rate returns the speed of a job on cores in their present states, operations per second: that of its slowest core.
func (m *Machine) Rate(where []int32) float64 {
	least, last := math.Inf(1), int32(-1)
	for _, c := range where {
		p := m.tree.ProcessorOf[c]
		if p == last {
			continue
		}
		last = p
		v := m.tree.Processors[p].GFLOPS * 1e9
		if m.bandwidth[p] < 0 {
			v *= speedOf[Slowed]
		}
		least = min(least, v)
	}
	return least
}

// Power returns the present power of a processor, W; ready is the power of an idle core beside a serving one, relative
// to its active power.
func (m *Machine) Power(processor int32, ready float64) float64 {
	p := &m.tree.Processors[processor]
	free := int(m.freeOf[processor])
	if free == p.Cores {
		return powerOf[asleep] * p.Watts * float64(p.Cores)
	}
	return p.Watts * (float64(p.Cores-free) + ready*float64(free))
}

// byProcessor yields each processor of ascending cores with the number of cores on it.
func byProcessor(tree *platform.Tree, where []int32) iter.Seq2[int32, int32] {
	return func(yield func(processor, count int32) bool) {
		for i := 0; i < len(where); {
			p, first := tree.ProcessorOf[where[i]], i
			for i < len(where) && tree.ProcessorOf[where[i]] == p {
				i++
			}
			if !yield(p, int32(i-first)) {
				return
			}
		}
	}
}

// MaxCores returns the number of the job's cores that the idle machine can take. A job that requests more can never run.
func MaxCores(tree *platform.Tree, job *order.Job) int {
	most := 0
	for i := range tree.Nodes {
		n, cores := &tree.Nodes[i], 0
		for p := n.First; p < n.First+n.Processors; p++ {
			cores += tree.Processors[p].Cores
		}
		most += room(int32(cores), n.Memory, job)
	}
	return most
}

// A Chooser selects the cores of a job. Start is called once per job, then Next, with the number of cores still
// missing, until the job has all its cores. Next returns a free core and the number of cores to take, counted upward
// from it among the free cores of the same processor; a count of 0 means that no core is suitable. The cores are
// taken before Next is called again.
type Chooser interface {
	Start(m *Machine, job *order.Job)
	Next(m *Machine, job *order.Job, want int) (first int32, count int)
}

// TryPlace takes the cores that a job requests, as selected by the chooser, and appends them to into in ascending
// order. If the job does not fit, the machine is restored and into is returned unchanged. Owner identifies the job
// and is at least 0.
func (m *Machine) TryPlace(owner int32, job *order.Job, chooser Chooser, into []int32) ([]int32, fit) {
	if m.total < job.Procs {
		return into, LacksCores
	}
	before, known := len(into), len(m.touched)
	m.known = known
	chooser.Start(m, job)
	for want := job.Procs; want > 0; {
		took := 0
		if first, count := chooser.Next(m, job, want); count > 0 {
			processor := m.tree.ProcessorOf[first]
			m.list(processor, false)
			for c := first; took < min(count, want) && c >= 0; c = m.FreeCore(processor, c+1) {
				if m.memory[m.tree.Processors[processor].Node] < job.Memory || m.owner[c] >= 0 {
					break
				}
				m.take(owner, job, c, processor)
				into = append(into, c)
				took++
			}
			m.list(processor, true)
		}
		if took == 0 {
			m.withdraw(job, into[before:], known)
			return into[:before], LacksMemory
		}
		want -= took
	}
	slices.Sort(into[before:])
	return into, Fits
}

// Undo reverts the last TryPlace, whose appended cores are passed. No other placement, release or Changes may have
// happened since. It costs O(cores), less than CopyFrom.
func (m *Machine) Undo(job *order.Job, cores []int32) { m.withdraw(job, cores, m.known) }

// withdraw releases cores, in the order in which they were taken, and removes the state changes that taking them
// recorded.
func (m *Machine) withdraw(job *order.Job, cores []int32, known int) {
	m.Release(job, cores)
	for _, c := range m.touched[known:] {
		m.marked[c] = false
	}
	m.touched = m.touched[:known]
}

// Release frees the cores of a job.
func (m *Machine) Release(job *order.Job, cores []int32) {
	last := int32(-1)
	for _, c := range cores {
		if p := m.tree.ProcessorOf[c]; p != last {
			if last >= 0 {
				m.list(last, true)
			}
			m.list(p, false)
			last = p
		}
		m.release(job, c, last)
	}
	if last >= 0 {
		m.list(last, true)
	}
}

// take assigns a free core and deducts memory and bandwidth. The first busy core of a processor wakes its siblings;
// oversubscription of the bandwidth slows all serving cores. The processor must not be listed, see list; the caller
// lists it again afterwards.
func (m *Machine) take(owner int32, job *order.Job, c, processor int32) {
	p := &m.tree.Processors[processor]
	m.total--
	m.freeOf[processor]--
	m.freeIn[p.Node]--
	m.free.remove(int(c))
	m.owner[c] = owner
	over := m.bandwidth[processor] < 0
	m.bandwidth[processor] -= job.Bandwidth
	m.memory[p.Node] -= job.Memory
	m.set(c, Serving)
	if int(m.freeOf[processor]) == p.Cores-1 {
		for sibling := int32(p.First); sibling < int32(p.First+p.Cores); sibling++ {
			if sibling != c {
				m.set(sibling, Ready)
			}
		}
	}
	switch {
	case m.bandwidth[processor] >= 0:
	case over:
		m.set(c, Slowed)
	default:
		m.setServing(p, Slowed)
	}
}

// release frees a core of a processor that is not listed.
func (m *Machine) release(job *order.Job, c, processor int32) {
	p := &m.tree.Processors[processor]
	m.total++
	m.freeOf[processor]++
	m.freeIn[p.Node]++
	m.free.add(int(c))
	m.owner[c] = -1
	over := m.bandwidth[processor] < 0
	m.bandwidth[processor] += job.Bandwidth
	if m.memory[p.Node] += job.Memory; m.freeIn[p.Node] == m.coresIn[p.Node] {
		m.memory[p.Node] = m.tree.Nodes[p.Node].Memory // discard rounding errors, which could make a job unplaceable
	}
	m.set(c, Ready)
	switch {
	case int(m.freeOf[processor]) == p.Cores:
		for sibling := int32(p.First); sibling < int32(p.First+p.Cores); sibling++ {
			m.set(sibling, asleep)
		}
	case over && m.bandwidth[processor] >= 0:
		m.setServing(p, Serving)
	}
}

// setServing sets the state of all serving cores of a processor.
func (m *Machine) setServing(p *platform.Processor, state uint8) {
	for c := int32(p.First); c < int32(p.First+p.Cores); c++ {
		if m.owner[c] < 0 {
			continue
		}
		if m.Watch != nil {
			m.Watch(c, m.owner[c])
		}
		m.set(c, state)
	}
}

// set sets the state of a core and records it for Changes.
func (m *Machine) set(c int32, state uint8) {
	m.state[c] = state
	if !m.marked[c] {
		m.marked[c] = true
		m.touched = append(m.touched, c)
	}
}

// list adds a processor to, or removes it from, the sets that choosers search; a processor without free cores is in
// none.
func (m *Machine) list(processor int32, in bool) {
	free := m.freeOf[processor]
	if free == 0 {
		if in {
			for i := range m.ranks {
				m.ranks[i].some.remove(int(m.ranks[i].of[processor]))
			}
		}
		return
	}
	busy := int32(m.tree.Processors[processor].Cores) - free
	if !in {
		m.byBusy[busy].remove(int(processor))
		m.byFree[free].remove(int(processor))
		return
	}
	m.byBusy[busy].add(int(processor))
	m.byFree[free].add(int(processor))
	for i := range m.ranks {
		m.ranks[i].some.add(int(m.ranks[i].of[processor]))
	}
}

// Changes calls send, once per state in ascending order, with the cores whose state was set since the last call. A
// core is included even if it returned to its earlier state. The slice is reused by the next call.
func (m *Machine) Changes(send func(state uint8, cores []int32)) {
	for i := range m.grouped {
		m.grouped[i] = m.grouped[i][:0]
	}
	for _, c := range m.touched {
		m.grouped[m.state[c]] = append(m.grouped[m.state[c]], c)
		m.marked[c] = false
	}
	m.touched = m.touched[:0]
	for state, cores := range m.grouped {
		if len(cores) > 0 {
			send(uint8(state), cores)
		}
	}
}

// set is a bit set of small integers.
type set []uint64

func newSet(n int) set { return make(set, (n+63)/64) }

func (s set) add(i int)    { s[i>>6] |= 1 << (i & 63) }
func (s set) remove(i int) { s[i>>6] &^= 1 << (i & 63) }

// next returns the smallest member that is at least i, −1 if none exists.
func (s set) next(i int) int {
	w := i >> 6
	if w >= len(s) {
		return -1
	}
	for word := s[w] >> (i & 63) << (i & 63); ; word = s[w] {
		if word != 0 {
			return w<<6 + bits.TrailingZeros64(word)
		}
		if w++; w == len(s) {
			return -1
		}
	}
}
