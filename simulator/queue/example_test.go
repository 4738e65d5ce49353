package queue_test

import (
	"fmt"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
)

// Two jobs on two cores that share 32 GB/s: each requests 24, so both run at 75 % while they overlap.
func Example() {
	tree := platform.Uniform(1, 1, 2, 1000, platform.Processor{Bandwidth: 32, GFLOPS: 1, Watts: 10})
	jobs := []order.Job{{ID: 0, Procs: 1, Ops: 3e9, Bandwidth: 24}, {ID: 1, Procs: 1, Ops: 6e9, Bandwidth: 24}}
	simulation, err := queue.NewSimulation(tree, jobs)
	if err != nil {
		fmt.Println(err)
		return
	}
	machine, chooser := queue.NewMachine(tree), queue.NewChooser("high_gflops", nil)
	for simulation.Next() {
		for _, e := range simulation.Events() {
			switch e.Kind {
			case queue.Ended:
				machine.Release(&jobs[e.Job], simulation.Cores(e.Job))
			case queue.Submitted:
				if where, fit := machine.TryPlace(e.Job, &jobs[e.Job], chooser, nil); fit == queue.Fits {
					err = simulation.Start(e.Job, where)
				}
			}
		}
		machine.Changes(func(state uint8, cores []int32) { err = simulation.SetState(cores, state) })
	}
	for _, o := range simulation.Result().Jobs {
		fmt.Println("job", o.Job.ID, "on", o.Cores, "from", o.Start, "to", o.End, "s")
	}
	fmt.Println(simulation.Energy(), "J", err, simulation.Err())
	// Output:
	// job 0 on [0] from 0 to 4 s
	// job 1 on [1] from 0 to 7 s
	// 117.5 J <nil> <nil>
}
