package unequal

import (
	"math"
	"math/rand/v2"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue/cores"
)

// Placer says where jobs run. One belongs to one simulation.
type Placer interface {
	// Pools are sets of processors; a job gets all its cores in one of them. Together they must have room for each job that fits
	// the idle machine: one pool must be all of it.
	Pools() []Pool
	// Fastest is the speed of the fastest core, GFLOPS.
	Fastest() float64
	// Weigh says how good it is to have a job in a pool that has room for it at a time; the lowest is taken, +∞ never. What is not
	// below least may be any number that is not either. It is not called when there is one pool. The machine is the same afterwards.
	Weigh(s *State, job int32, pool int, at, least float64) float64
	// Until is the last time at which a pool could weigh less than this; +∞ when it is not known.
	Until(s *State, job int32, weight float64) float64
	// Take takes cores in a pool now, on s.Machine, as cores.Machine.TryPlace does.
	Take(s *State, job int32, pool int, into []int32) ([]int32, bool)
}

// Placement is a way to place jobs.
type Placement struct {
	What string // for people
	New  func(tree *platform.Tree, objective Objective, seed uint64) Placer
}

// placements are all there are, by name: a new one is one file and one line.
var placements = map[string]Placement{
	"high_gflops":     {"the fastest cores", simple(cores.Fastest)},
	"low_power":       {"the cores of least power", simple(cores.Thriftiest)},
	"high_cores":      {"processors with the most busy cores", simple(cores.Busiest)},
	"high_free_cores": {"processors with the most free cores", simple(cores.Freest)},
	"high_mem":        {"nodes with the most memory left", simple(cores.MostMemory)},
	"high_mem_bw":     {"processors with the most bandwidth left", simple(cores.MostBandwidth)},
	"random":          {"any cores", anywhere},
	"homogeneous":     {"cores of one speed, that by which the job ends first", newHomogeneous},
	"bandwidth_aware": {"no processor's bandwidth is oversubscribed if that can be", newBandwidthAware},
	"energy":          {"the fewest joules: processors that are awake, of few watts for what they do", newThrifty},
	"best":            {"the best of these for the objective, harm to others included", newBest},
}

// ofMachine places by a chooser of package cores.
type ofMachine struct {
	chooser cores.Chooser
	pools   []Pool
	fastest float64
}

func simple(chooser func() cores.Chooser) func(*platform.Tree, Objective, uint64) Placer {
	return func(tree *platform.Tree, _ Objective, _ uint64) Placer { return newOfMachine(tree, chooser()) }
}

func anywhere(tree *platform.Tree, _ Objective, seed uint64) Placer {
	return newOfMachine(tree, cores.Anywhere(rand.New(rand.NewPCG(seed, 0)).IntN))
}

func newOfMachine(tree *platform.Tree, chooser cores.Chooser) *ofMachine {
	return &ofMachine{chooser, []Pool{newPool(tree, everyProcessor)}, fastest(tree)}
}

func everyProcessor(*platform.Processor) bool { return true }

func fastest(tree *platform.Tree) float64 {
	v := 0.0
	for _, p := range tree.Processors {
		v = max(v, p.GFLOPS)
	}
	return v
}

// until is the last time at which a job could start on the fastest cores and end by so many seconds from now.
func until(s *State, job int32, gflops, seconds float64) float64 {
	return s.Now + seconds - s.seconds(job, s.fastest(job, gflops))
}

func (o *ofMachine) Pools() []Pool    { return o.pools }
func (o *ofMachine) Fastest() float64 { return o.fastest }

func (o *ofMachine) Weigh(*State, int32, int, float64, float64) float64 { return math.NaN() }

func (o *ofMachine) Until(*State, int32, float64) float64 { return inf }

func (o *ofMachine) Take(s *State, job int32, _ int, into []int32) ([]int32, bool) {
	where, fit := s.Machine.TryPlace(job, &s.Jobs[job], o.chooser, into)
	return where, fit == cores.Fits
}
