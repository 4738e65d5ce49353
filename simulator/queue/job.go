// Package queue simulates batch queues: an order.Scheduler decides which waiting jobs start, and a machine of identical processors runs
// them. Machines of unequal cores that share memory and bandwidth are in queue/cores, the two published systems that this package
// descends from in ancestors/hdeeprm and ancestors/rlscheduler.
//
//	trace, err := swf.Load("KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{}) // or swf.Lublin{Jobs: 10000}.Generate()
//	result, err := queue.Run(ctx, queue.Config{Procs: trace.Procs, Jobs: trace.Jobs, Order: "sjf", Backfill: "easy"})
//	fmt.Println(result.Summary().BoundedSlowdown.Mean)
//
// Times are seconds. Results are deterministic.
package queue

import (
	"math"

	"trainopt/optimizer/schedule/order"
)

// State is how a job ended.
type State uint8

const (
	Waiting   State = iota // never started
	Running                // the simulation ended first
	Completed              //
	Killed                 // at its limit
	Rejected               // larger than the machine
)

// Outcome is the result of one job.
type Outcome struct {
	Job        *order.Job
	State      State
	Start, End float64 // s; NaN when it never did
	Cores      []int32 // cores it ran on, ascending; nil where processors have no number
}

// Ran reports whether the job ran to its end or to its limit.
func (o *Outcome) Ran() bool { return o.State == Completed || o.State == Killed }

// Wait returns the time between submission and start, s; NaN when it never started.
func (o *Outcome) Wait() float64 { return o.Start - o.Job.Submit }

// Turnaround returns the time between submission and end, s.
func (o *Outcome) Turnaround() float64 { return o.End - o.Job.Submit }

// Slowdown returns turnaround divided by run time, without a bound, as Batsim reports it.
func (o *Outcome) Slowdown() float64 { return o.Turnaround() / (o.End - o.Start) }

// BoundedSlowdown returns max(1, turnaround / max(run time, 10 s)) (Feitelson et al. 1997).
func (o *Outcome) BoundedSlowdown() float64 {
	return max(1, o.Turnaround()/math.Max(o.End-o.Start, 10))
}

// Result is the result of a simulation.
type Result struct {
	Jobs   []Outcome // in the order of the workload
	Procs  int       // processors (cores) of the machine
	Events int
	Energy float64 // J from the first submission to the last end; NaN unknown
	// Switches are the changes of power states, Batsim's nb_machine_switches and nb_grouped_switches.
	Switches, GroupedSwitches int
}
