package batsim_test

import (
	"context"
	"fmt"
	"net"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/batsim"
	"trainopt/simulator/platform"
)

// Both sides communicate: three jobs on four processors, of which the last overtakes the second.
func Example() {
	address, served := make(chan net.Addr), make(chan error)
	go func() {
		_, err := batsim.Serve(context.Background(), "tcp://127.0.0.1:0", batsim.ServeOptions{
			Order: "fcfs", Backfill: "easy", Listening: func(a net.Addr) { address <- a }})
		served <- err
	}()
	tree := platform.Uniform(1, 1, 4, 1000, platform.Processor{Bandwidth: 10, GFLOPS: 1, Watts: 10})
	jobs := []order.Job{
		{ID: 0, Procs: 3, Run: 10, Request: 10},
		{ID: 1, Submit: 1, Procs: 4, Run: 5, Request: 5},
		{ID: 2, Submit: 2, Procs: 1, Run: 7, Request: 8},
	}
	result, err := batsim.Simulate(context.Background(), "tcp://"+(<-address).String(), tree, jobs, batsim.SimulateOptions{})
	fmt.Println(err, <-served)
	for _, o := range result.Jobs {
		fmt.Println(o.Job.Label(), o.Start, o.End, o.Cores)
	}
	// Output:
	// <nil> <nil>
	// 0 0 10 [0 1 2]
	// 1 10 15 [0 1 2 3]
	// 2 2 9 [3]
}
