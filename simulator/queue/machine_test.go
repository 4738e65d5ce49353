package queue_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/workload"
)

// randomTree returns a tree of equal and different processors, so that some keys tie.
func randomTree(t *rapid.T) *platform.Tree {
	tree := &platform.Tree{Clusters: []platform.Subcluster{{}}}
	speeds := 0.0
	for n := range rapid.IntRange(1, 5).Draw(t, "nodes") {
		node := platform.Node{Memory: rapid.SampledFrom([]float64{1000, 4000, 4000.5, 16000}).Draw(t, "memory"), First: len(tree.Processors), Processors: rapid.IntRange(1, 3).Draw(t, "processors")}
		for range node.Processors {
			p := platform.Processor{
				Node: n, First: tree.Cores, Cores: rapid.IntRange(1, 5).Draw(t, "cores"),
				Bandwidth: rapid.SampledFrom([]float64{16, 32, 51.2, 59.7}).Draw(t, "bandwidth"),
				GFLOPS:    rapid.SampledFrom([]float64{1, 9.04, 11.72}).Draw(t, "speed"),
				Watts:     rapid.SampledFrom([]float64{7.5, 11.875, 29}).Draw(t, "watts"),
			}
			for range p.Cores {
				tree.ProcessorOf = append(tree.ProcessorOf, int32(len(tree.Processors)))
				speeds += p.GFLOPS
			}
			tree.Cores += p.Cores
			tree.Processors = append(tree.Processors, p)
		}
		tree.Nodes = append(tree.Nodes, node)
	}
	tree.Clusters[0].Nodes = len(tree.Nodes)
	tree.Reference = speeds / float64(tree.Cores)
	return tree
}

func randomJob(t *rapid.T, id, most int) order.Job {
	return order.Job{
		ID: id, Procs: rapid.IntRange(1, most).Draw(t, "procs"),
		Memory:    rapid.SampledFrom([]float64{0, 100, 333.3, 1000, 2500, 20000}).Draw(t, "memory of a core"),
		Bandwidth: float64(4 * rapid.IntRange(0, 6).Draw(t, "bandwidth of a core")),
	}
}

// plain is a direct implementation of the machine in section 2 of HDeepRM's model, with a stable sort of all cores
// for each core taken.
type plain struct {
	tree              *platform.Tree
	bandwidth, memory []float64
	state             []uint8
	owner             []int32
	changes           map[int32]uint8
}

func newPlain(tree *platform.Tree) *plain {
	p := &plain{tree: tree, state: make([]uint8, tree.Cores), owner: make([]int32, tree.Cores), changes: map[int32]uint8{}}
	for c := range p.state {
		p.state[c], p.owner[c] = queue.Asleep, -1
	}
	for _, processor := range tree.Processors {
		p.bandwidth = append(p.bandwidth, processor.Bandwidth)
	}
	for _, n := range tree.Nodes {
		p.memory = append(p.memory, n.Memory)
	}
	return p
}

func (p *plain) siblings(c int32) (processor int32, all []int32) {
	processor = p.tree.ProcessorOf[c]
	t := p.tree.Processors[processor]
	for s := t.First; s < t.First+t.Cores; s++ {
		all = append(all, int32(s))
	}
	return processor, all
}

func (p *plain) take(owner int32, job *order.Job, c int32, changes map[int32]uint8) {
	processor, siblings := p.siblings(c)
	p.owner[c], p.state[c], changes[c] = owner, queue.Serving, queue.Serving
	p.bandwidth[processor] -= job.Bandwidth
	p.memory[p.tree.Processors[processor].Node] -= job.Memory
	for _, s := range siblings {
		if p.state[s] == queue.Asleep {
			p.state[s], changes[s] = queue.Ready, queue.Ready
		}
		if p.bandwidth[processor] < 0 && p.state[s] == queue.Serving {
			p.state[s], changes[s] = queue.Slowed, queue.Slowed
		}
	}
}

func (p *plain) release(job *order.Job, c int32, changes map[int32]uint8) {
	processor, siblings := p.siblings(c)
	p.owner[c], p.state[c], changes[c] = -1, queue.Ready, queue.Ready
	p.bandwidth[processor] += job.Bandwidth
	node := p.tree.Processors[processor].Node
	p.memory[node] += job.Memory
	busy := false
	for k, o := range p.owner {
		busy = busy || o >= 0 && p.tree.Processors[p.tree.ProcessorOf[k]].Node == node
	}
	if !busy {
		p.memory[node] = p.tree.Nodes[node].Memory
	}
	idle := !slices.ContainsFunc(siblings, func(s int32) bool { return p.owner[s] >= 0 })
	for _, s := range siblings {
		if idle {
			p.state[s], changes[s] = queue.Asleep, queue.Asleep
		}
		if p.bandwidth[processor] >= 0 && p.state[s] == queue.Slowed {
			p.state[s], changes[s] = queue.Serving, queue.Serving
		}
	}
}

// key is the sort key of a core policy; nil means random.
type key func(p *plain, c int32) float64

func (p *plain) place(owner int32, job *order.Job, by key, below func(int) int) ([]int32, queue.Fit) {
	free := 0
	for _, o := range p.owner {
		if o < 0 {
			free++
		}
	}
	if free < job.Procs {
		return nil, queue.LacksCores
	}
	var taken []int32
	changes := map[int32]uint8{}
	for range job.Procs {
		var may []int32
		for c, o := range p.owner {
			if o < 0 && p.memory[p.tree.Processors[p.tree.ProcessorOf[c]].Node] >= job.Memory {
				may = append(may, int32(c))
			}
		}
		if len(may) == 0 {
			for _, c := range taken {
				p.release(job, c, map[int32]uint8{})
			}
			return nil, queue.LacksMemory
		}
		pick := 0
		if by == nil {
			pick = below(len(may))
		} else {
			slices.SortStableFunc(may, func(a, b int32) int {
				if x, y := by(p, a), by(p, b); x < y {
					return -1
				} else if x > y {
					return 1
				}
				return 0
			})
		}
		p.take(owner, job, may[pick], changes)
		taken = append(taken, may[pick])
	}
	for c, s := range changes {
		p.changes[c] = s
	}
	slices.Sort(taken)
	return taken, queue.Fits
}

func (p *plain) busyBeside(c int32) (busy, free float64) {
	_, siblings := p.siblings(c)
	for _, s := range siblings {
		if p.owner[s] >= 0 {
			busy++
		} else {
			free++
		}
	}
	return busy, free
}

// policies returns the choosers with their sort keys.
func policies(below func(int) int) []struct {
	name    string
	chooser queue.Chooser
	key     key
} {
	of := func(p *plain, c int32) *platform.Processor { return &p.tree.Processors[p.tree.ProcessorOf[c]] }
	return []struct {
		name    string
		chooser queue.Chooser
		key     key
	}{
		{"random", queue.NewChooser("random", below), nil},
		{"high_gflops", queue.NewChooser("high_gflops", nil), func(p *plain, c int32) float64 { return -of(p, c).GFLOPS }},
		{"low_power", queue.NewChooser("low_power", nil), func(p *plain, c int32) float64 { return of(p, c).Watts }},
		{"high_mem", queue.NewChooser("high_mem", nil), func(p *plain, c int32) float64 { return -p.memory[of(p, c).Node] }},
		{"high_mem_bw", queue.NewChooser("high_mem_bw", nil), func(p *plain, c int32) float64 { return -p.bandwidth[p.tree.ProcessorOf[c]] }},
		{"high_cores", queue.NewChooser("high_cores", nil), func(p *plain, c int32) float64 { busy, _ := p.busyBeside(c); return -busy }},
		{"high_free_cores", queue.NewChooser("high_free_cores", nil), func(p *plain, c int32) float64 { _, free := p.busyBeside(c); return -free }},
	}
}

// The indexed machine equals, bit for bit, sorting all cores for each core taken; policies change between jobs.
func TestMachineIsPlain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := randomTree(t)
		seed := rapid.Int64Range(0, 1000).Draw(t, "seed")
		m, want := queue.NewMachine(tree), newPlain(tree)
		mine, its := workload.NewPython(seed), workload.NewPython(seed)
		all := policies(mine.Below)
		type placed struct {
			job   order.Job
			cores []int32
		}
		var running []placed
		copied := queue.NewMachine(tree)
		for i := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(running) > 0 && rapid.Bool().Draw(t, "release") {
				k := rapid.IntRange(0, len(running)-1).Draw(t, "which")
				m.Release(&running[k].job, running[k].cores)
				for _, c := range running[k].cores {
					want.release(&running[k].job, c, want.changes)
				}
				running = slices.Delete(running, k, k+1)
			} else {
				job := randomJob(t, i, min(8, tree.Cores))
				by := all[rapid.IntRange(0, len(all)-1).Draw(t, "policy")]
				copied.CopyFrom(m)
				if tried, fit := copied.TryPlace(int32(i), &job, all[1+i%(len(all)-1)].chooser, nil); fit == queue.Fits {
					copied.Undo(&job, tried)
					sameChanges(t, copied, want)
					copied.CopyFrom(m)
				}
				got, fit := m.TryPlace(int32(i), &job, by.chooser, nil)
				expect, expectFit := want.place(int32(i), &job, by.key, its.Below)
				if fit != expectFit || !slices.Equal(got, expect) {
					t.Fatalf("%s: job %+v: got %v, %v, want %v, %v", by.name, job, got, fit, expect, expectFit)
				}
				if fit == queue.Fits {
					running = append(running, placed{job, got})
				} else if fit == queue.LacksMemory && by.key != nil {
					if again, f := copied.TryPlace(int32(i), &job, by.chooser, nil); f != fit || len(again) != 0 {
						t.Fatalf("a copy of the machine places %v, %v", again, f)
					}
				}
			}
			sameMachine(t, m, want)
			if rapid.Bool().Draw(t, "send") {
				sameChanges(t, m, want)
				clear(want.changes)
			}
		}
		m.Reset()
		sameMachine(t, m, newPlain(tree))
	})
}

// sameChanges compares the reported state changes.
func sameChanges(t *rapid.T, m *queue.Machine, want *plain) {
	got := map[int32]uint8{}
	m.Changes(func(state uint8, cores []int32) {
		for _, c := range cores {
			got[c] = state
		}
	})
	if fmt.Sprint(got) != fmt.Sprint(want.changes) {
		t.Fatalf("changes: got %v, want %v", got, want.changes)
	}
}

func sameMachine(t *rapid.T, m *queue.Machine, want *plain) {
	free := 0
	for c := range want.state {
		if m.State(int32(c)) != want.state[c] || m.Owner(int32(c)) != want.owner[c] {
			t.Fatalf("core %d: got P%d, job %d, want P%d, job %d", c, m.State(int32(c)), m.Owner(int32(c)), want.state[c], want.owner[c])
		}
		if want.owner[c] < 0 {
			free++
		}
	}
	if m.Free() != free {
		t.Fatalf("got %d free cores, want %d", m.Free(), free)
	}
	for p, b := range want.bandwidth {
		if m.Bandwidth(int32(p)) != b {
			t.Fatalf("processor %d: got %v GB/s, want %v", p, m.Bandwidth(int32(p)), b)
		}
	}
	for n, mb := range want.memory {
		if m.Memory(int32(n)) != mb || mb < 0 {
			t.Fatalf("node %d: got %v MB, want %v, and never below 0", n, m.Memory(int32(n)), mb)
		}
	}
}

// A job fits the idle machine exactly if Most permits it, for any policy.
func TestMost(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tree := randomTree(t)
		job := randomJob(t, 0, tree.Cores)
		for _, by := range policies(workload.NewPython(0).Below) {
			_, fit := queue.NewMachine(tree).TryPlace(0, &job, by.chooser, nil)
			if (fit == queue.Fits) != (queue.MaxCores(tree, &job) >= job.Procs) {
				t.Fatalf("%s: job %+v: %v, but the machine takes %d cores of it", by.name, job, fit, queue.MaxCores(tree, &job))
			}
		}
	})
}

// The transitions of the learning platform, computed by hand: the first serving core of a processor wakes its
// sibling; the second oversubscribes the bandwidth.
func TestTransitions(t *testing.T) {
	tree, err := platform.Example("learning")
	if err != nil {
		t.Fatal(err)
	}
	m := queue.NewMachine(tree)
	job := order.Job{Procs: 1, Memory: 8000, Bandwidth: 24}
	states := func() string { return fmt.Sprint(m.State(0), m.State(1), m.State(2), m.State(3)) }
	for i, want := range []struct {
		states    string
		bandwidth float64
	}{{"3 3 0 2", 8}, {"3 3 1 1", -16}, {"0 2 1 1", -16}, {"1 1 1 1", -16}} {
		if _, fit := m.TryPlace(int32(i), &job, queue.NewChooser("high_gflops", nil), nil); fit != queue.Fits || states() != want.states || m.Bandwidth(1) != want.bandwidth {
			t.Errorf("after job %d: %v, %s, %v GB/s, want %+v", i, fit, states(), m.Bandwidth(1), want)
		}
	}
	if _, fit := m.TryPlace(9, &job, queue.NewChooser("high_gflops", nil), nil); fit != queue.LacksCores {
		t.Errorf("a job too many: %v", fit)
	}
	m.Release(&job, []int32{2})
	if got := states(); got != "1 1 2 0" {
		t.Errorf("after a release: %s, want full speed and one that idles", got)
	}
	if _, fit := m.TryPlace(9, &order.Job{Procs: 1, Memory: 8001}, queue.NewChooser("high_gflops", nil), nil); fit != queue.LacksMemory || math.Abs(m.Memory(0)-8000) > 0 {
		t.Errorf("a job with too much memory: %v, %v MB left", fit, m.Memory(0))
	}
}
