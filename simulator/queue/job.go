// Package queue simulates batch queues: jobs wait, an order says which is next, backfilling says which may overtake, and a machine
// of equal processors runs them. Machines of unequal cores that share memory and bandwidth are in queue/cores, the two systems
// that this one descends from in queue/hdeeprm and queue/rlscheduler.
//
//	trace, err := swf.Load("KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{}) // or queue.Lublin{Jobs: 10000}.Generate()
//	result, err := queue.Run(ctx, queue.Config{Procs: trace.Procs, Jobs: trace.Jobs, Order: "sjf", Backfill: "easy"})
//	fmt.Println(result.Summary().BoundedSlowdown.Mean)
//
// Times are seconds. Everything is deterministic.
package queue

import (
	"math"
	"strconv"
)

// Job is one batch job. What its workload does not say is −1 where that is noted, else 0.
type Job struct {
	ID     int
	Name   string  // as its workload names it ("w0!17"); "" is the ID
	Submit float64 // s
	Procs  int     // processors (cores) at once, at least 1
	Run    float64 // s it takes on equal processors
	// Request is the time that its user asked for, s; at least 1 where a workload says nothing better than Run.
	Request float64
	// Limit is the run time after which it is killed, s; 0 is never.
	Limit float64

	// Of each of its cores, on a platform.Tree:
	Ops        float64 // operations that it really executes
	RequestOps float64 // operations that were asked for
	Memory     float64 // MB
	Bandwidth  float64 // GB/s

	User, Group, Executable int     // −1 unknown
	Deadline                float64 // absolute, s; NaN none
}

// Label is the job's name, else its ID.
func (j *Job) Label() string {
	if j.Name != "" {
		return j.Name
	}
	return strconv.Itoa(j.ID)
}

// State is how a job ended.
type State uint8

const (
	Waiting   State = iota // never started
	Running                // the simulation ended first
	Completed              //
	Killed                 // at its limit
	Rejected               // it can never run here
)

// Outcome is what became of a job.
type Outcome struct {
	Job        *Job
	State      State
	Start, End float64 // s; NaN when it never did
	Cores      []int32 // on which it ran, ascending; nil where processors have no number
}

// Wait is the time between submission and start, s; NaN when it never started.
func (o *Outcome) Wait() float64 { return o.Start - o.Job.Submit }

// Turnaround is the time between submission and end, s.
func (o *Outcome) Turnaround() float64 { return o.End - o.Job.Submit }

// Slowdown is turnaround by run time, without a bound, as Batsim reports it.
func (o *Outcome) Slowdown() float64 { return o.Turnaround() / (o.End - o.Start) }

// BoundedSlowdown is max(1, turnaround / max(run time, 10 s)) (Feitelson et al. 1997).
func (o *Outcome) BoundedSlowdown() float64 {
	return max(1, o.Turnaround()/math.Max(o.End-o.Start, 10))
}

// Result is a finished simulation.
type Result struct {
	Jobs   []Outcome // in the order of the workload
	Procs  int       // processors (cores) of the machine
	Events int
	Energy float64 // J from the first submission to the last end; NaN unknown
	// Switches are the changes of power states, Batsim's nb_machine_switches and nb_grouped_switches.
	Switches, GroupedSwitches int
}
