// Package cores simulates jobs on a platform.Tree: cores of unequal speed whose processors share bandwidth to memory and whose nodes
// share memory, by the resource model of HDeepRM (Herrera and Bosque 2019) on Batsim (Dutot et al. 2016).
//
// It has two halves that know nothing of one another, since a scheduler may sit at the other end of a socket:
//
//   - Simulation is Batsim's half: what time it is, which jobs run, how fast and with how much energy. It obeys.
//   - Machine is the scheduler's half: which cores are free, how much memory and bandwidth is left, which state each core should
//     have, and where a job's cores are taken.
//
// A scheduler joins them; this one starts each job as it arrives and forgets those that do not fit:
//
//	simulation, err := cores.NewSimulation(tree, jobs)
//	…
//	machine, chooser := cores.NewMachine(tree), cores.Fastest()
//	for simulation.Next() {
//		for _, e := range simulation.Events() {
//			switch e.Kind {
//			case cores.Ended:
//				machine.Release(&jobs[e.Job], simulation.Cores(e.Job))
//			case cores.Submitted:
//				if where, fit := machine.TryPlace(e.Job, &jobs[e.Job], chooser, nil); fit == cores.Fits {
//					err = simulation.Start(e.Job, where)
//				}
//			}
//		}
//		machine.Changes(func(state uint8, cores []int32) { err = simulation.SetState(cores, state) })
//	}
//	result, err := simulation.Result(), simulation.Err()
//
// Neither half decides which job is next: that is queue/hdeeprm and other orders. Neither waits, starts a goroutine or reads a clock.
package cores

// The states of a core. Their speeds are those of the core times 1, 0.75, 0 and 0; their power is its power at work times 1, 1,
// 0.25 and 0.05, as HDeepRM writes it into Batsim's platform.
const (
	Serving uint8 = iota // P0
	Slowed               // P1: serving, but more bandwidth is asked of its processor than that has
	Ready                // P2: idle beside another core of its processor that serves
	Asleep               // P3: idle in an idle processor; all cores begin so
	states
)

// speedOf and powerOf are the share of a core's speed and power in each state.
var (
	speedOf = [states]float64{1, 0.75, 0, 0}
	powerOf = [states]float64{1, 1, 0.25, 0.05}
)
