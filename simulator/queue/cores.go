package queue

// RunCores simulates jobs on a platform.Tree: cores of unequal speed whose processors share memory bandwidth and
// whose nodes share memory, by the resource model of HDeepRM (Herrera and Bosque 2019) on Batsim (Dutot et al. 2016).
//
// It has two independent halves, so that the scheduler may run in another process, connected by a socket:
//
//   - Simulation is Batsim's half: the clock, the running jobs, their speed and energy. It executes commands.
//   - Machine is the scheduler's half: free cores, free memory and bandwidth, the power state that each core should
//     have, and the selection of cores for a job.
//
// A scheduler connects them; this one starts each job on arrival and drops the jobs that do not fit:
//
//	simulation, err := queue.NewSimulation(tree, jobs)
//	…
//	machine, chooser := queue.NewMachine(tree), queue.NewChooser("high_gflops", nil)
//	for simulation.Next() {
//		for _, e := range simulation.Events() {
//			switch e.Kind {
//			case queue.Ended:
//				machine.Release(&jobs[e.Job], simulation.Cores(e.Job))
//			case queue.Submitted:
//				if where, fit := machine.TryPlace(e.Job, &jobs[e.Job], chooser, nil); fit == queue.Fits {
//					err = simulation.Start(e.Job, where)
//				}
//			}
//		}
//		machine.Changes(func(state uint8, cores []int32) { err = simulation.SetState(cores, state) })
//	}
//	result, err := simulation.Result(), simulation.Err()
//
// Run connects them to a scheduler that combines any order of package order, EASY or conservative backfilling, and
// placements that account for slow cores, limited bandwidth and idle processors. It extends HDeepRM
// (ancestors/hdeeprm), which does not backfill, and uses the requests of users (operations, or time at the reference
// speed of the machine), never the true run times of jobs, and for ended jobs the share of the request that they used:
//
//	result, err := queue.RunCores(ctx, queue.CoresConfig{Tree: tree, Jobs: jobs, Order: "saf", Backfill: "easy", Placement: "best"})
//
// # Guarantees of backfilling
//
// An estimate is the requested work divided by the speed of the cores that a job receives. If no estimate is too
// short, EASY never delays the head of the queue beyond the time reserved when it became the head: the cores and
// memory of overtaking jobs are accounted for, and so is the time by which they slow running jobs on shared
// processors. The speed of the head after its start is not guaranteed. A job that exceeds its estimate is expected to
// require a further tenth of it.
//
// Nothing blocks, starts a goroutine or reads a clock.

// The power states of a core. Speeds are the core's speed times 1, 0.75, 0 and 0; powers are its active power times
// 1, 1, 0.25 and 0.05, as in the platform files that HDeepRM writes for Batsim.
const (
	Serving uint8 = iota // P0
	Slowed               // P1: serving, slowed because the bandwidth of its processor is oversubscribed
	Ready                // P2: idle, in a processor with a serving core
	asleep               // P3: idle, in an idle processor; the initial state
	states
)

// speedOf and powerOf are the fractions of a core's speed and active power by state.
var (
	speedOf = [states]float64{1, 0.75, 0, 0}
	powerOf = [states]float64{1, 1, 0.25, 0.05}
)
