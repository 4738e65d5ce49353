package queue

import (
	"math"
	"math/rand/v2"

	"trainopt/simulator/platform"
)

// placer selects the cores of jobs. Each simulation has its own one.
type placer interface {
	// Pools returns sets of processors; a job takes all its cores from one of them. Every job that fits the idle
	// machine must fit one pool, so one pool must be the whole machine.
	Pools() []pool
	// Weigh returns the cost of running a job in a pool that has room for it at the given time; the pool of lowest
	// cost is used, +∞ excludes it. Implementations may return any value ≥ least once the exact cost cannot be lower.
	// Weigh leaves the machine unchanged, and is not called for a single pool.
	Weigh(s *state, job int32, pool int, at, least float64) float64
	// Until returns the latest time at which a pool could have a cost below weight; +∞ if unknown.
	Until(s *state, job int32, weight float64) float64
	// Take takes cores for a job in a pool now, on s.Machine, with the results of Machine.TryPlace.
	Take(s *state, job int32, pool int, into []int32) ([]int32, bool)
}

// pooled implements Pools, and Until for costs that are at least the seconds until the job ends.
type pooled []pool

func (p pooled) Pools() []pool { return p }

func (p pooled) Until(s *state, job int32, weight float64) float64 {
	return s.Now + weight - s.secondsAt(job, s.fastest)
}

// placement is a method of placing jobs.
type placement struct {
	What string // description for users
	New  func(tree *platform.Tree, objective Objective, seed uint64) placer
}

// placements is the registry by name. A new placement is one file and one line here.
var placements = map[string]placement{
	"high_gflops":     {"the fastest cores", simple("high_gflops")},
	"low_power":       {"the cores of least power", simple("low_power")},
	"high_cores":      {"processors with the most busy cores", simple("high_cores")},
	"high_free_cores": {"processors with the most free cores", simple("high_free_cores")},
	"high_mem":        {"nodes with the most memory left", simple("high_mem")},
	"high_mem_bw":     {"processors with the most bandwidth left", simple("high_mem_bw")},
	"random":          {"any cores", simple("random")},
	"homogeneous":     {"cores of one speed, that by which the job ends first", newHomogeneous},
	"bandwidth_aware": {"no processor's bandwidth is oversubscribed if that can be", newBandwidthAware},
	"energy":          {"the fewest joules: processors that are awake, of few watts for what they do", newThrifty},
	"best":            {"the best of these for the objective, harm to others included", newBest},
}

// ofMachine places jobs by a chooser, in a single pool.
type ofMachine struct {
	pooled
	chooser Chooser
}

func simple(chooser string) func(*platform.Tree, Objective, uint64) placer {
	return func(tree *platform.Tree, _ Objective, seed uint64) placer {
		return &ofMachine{pooled{newPool(tree, everyProcessor)}, NewChooser(chooser, rand.New(rand.NewPCG(seed, 0)).IntN)}
	}
}

func everyProcessor(*platform.Processor) bool { return true }

// Weigh is not called for a single pool.
func (o *ofMachine) Weigh(*state, int32, int, float64, float64) float64 { return math.NaN() }

func (o *ofMachine) Take(s *state, job int32, _ int, into []int32) ([]int32, bool) {
	where, fit := s.Machine.TryPlace(job, &s.Jobs[job], o.chooser, into)
	return where, fit == Fits
}
