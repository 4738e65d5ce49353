package unequal

import (
	"math"
	"math/rand/v2"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue/cores"
)

// Placer selects the cores of jobs. Each simulation has its own Placer.
type Placer interface {
	// Pools returns sets of processors; a job takes all its cores from one of them. Every job that fits the idle
	// machine must fit one pool, so one pool must be the whole machine.
	Pools() []Pool
	// Fastest returns the speed of the fastest core, GFLOPS.
	Fastest() float64
	// Weigh returns the cost of running a job in a pool that has room for it at the given time; the pool of lowest
	// cost is used, +∞ excludes it. Implementations may return any value ≥ least once the exact cost cannot be lower.
	// Weigh leaves the machine unchanged, and is not called for a single pool.
	Weigh(s *State, job int32, pool int, at, least float64) float64
	// Until returns the latest time at which a pool could have a cost below weight; +∞ if unknown.
	Until(s *State, job int32, weight float64) float64
	// Take takes cores for a job in a pool now, on s.Machine, with the results of cores.Machine.TryPlace.
	Take(s *State, job int32, pool int, into []int32) ([]int32, bool)
}

// Placement is a method of placing jobs.
type Placement struct {
	What string // description for users
	New  func(tree *platform.Tree, objective Objective, seed uint64) Placer
}

// placements is the registry by name. A new placement is one file and one line here.
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

// ofMachine places jobs by a chooser of package cores, in a single pool.
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

// fastest returns the speed of the fastest core, GFLOPS.
func fastest(tree *platform.Tree) float64 {
	v := 0.0
	for _, p := range tree.Processors {
		v = max(v, p.GFLOPS)
	}
	return v
}

// until returns the latest time at which a job could start on cores of the given speed and still end within seconds
// from now.
func until(s *State, job int32, gflops, seconds float64) float64 {
	return s.Now + seconds - s.seconds(job, s.fastest(job, gflops))
}

func (o *ofMachine) Pools() []Pool    { return o.pools }
func (o *ofMachine) Fastest() float64 { return o.fastest }

// Weigh is not called for a single pool.
func (o *ofMachine) Weigh(*State, int32, int, float64, float64) float64 { return math.NaN() }

func (o *ofMachine) Until(*State, int32, float64) float64 { return inf }

func (o *ofMachine) Take(s *State, job int32, _ int, into []int32) ([]int32, bool) {
	where, fit := s.Machine.TryPlace(job, &s.Jobs[job], o.chooser, into)
	return where, fit == cores.Fits
}
