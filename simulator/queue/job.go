// Package queue simulates batch queues on a machine of equal processors: an order ranks the waiting jobs, and
// backfilling determines which of them may overtake. Machines of unequal cores with shared memory and bandwidth are
// in queue/cores; the two systems reproduced are in ancestors/hdeeprm and ancestors/rlscheduler.
//
//	trace, err := swf.Load("KTH-SP2-1996-2.1-cln.swf.gz", swf.Options{}) // or queue.Lublin{Jobs: 10000}.Generate()
//	result, err := queue.Run(ctx, queue.Config{Procs: trace.Procs, Jobs: trace.Jobs, Order: "sjf", Backfill: "easy"})
//	fmt.Println(result.Summary().BoundedSlowdown.Mean)
//
// Times are in seconds. All results are deterministic.
package queue

import (
	"math"
	"strconv"
)

// Job is one batch job. A value absent from the workload is −1 where noted, else 0.
type Job struct {
	ID     int
	Name   string  // name in the workload ("w0!17"); "" means the ID
	Submit float64 // s
	Procs  int     // processors (cores) it occupies simultaneously, at least 1
	Run    float64 // run time on equal processors, s
	// Request is the run time requested by the user, s; the workload readers set it to at least 1 where only Run is
	// known.
	Request float64
	// Limit is the run time after which the job is killed, s; 0 means no limit.
	Limit float64

	// Per core, on a platform.Tree:
	Ops        float64 // operations executed
	RequestOps float64 // operations requested
	Memory     float64 // MB
	Bandwidth  float64 // GB/s

	User, Group, Executable int     // −1 means unknown
	Deadline                float64 // absolute time, s; NaN means none
}

// Label returns the name of the job, or its ID where it has no name.
func (j *Job) Label() string {
	if j.Name != "" {
		return j.Name
	}
	return strconv.Itoa(j.ID)
}

// State is the final state of a job.
type State uint8

const (
	Waiting   State = iota // it never started
	Running                // it had not ended when the simulation stopped
	Completed              //
	Killed                 // it reached its limit
	Rejected               // it exceeds the machine and can never run
)

// Outcome is the result of one job.
type Outcome struct {
	Job        *Job
	State      State
	Start, End float64 // s; NaN where the job did not start or end
	Cores      []int32 // cores it ran on, ascending; nil where processors are not numbered
}

// Wait returns the time from submission to start, s; NaN for a job that never started.
func (o *Outcome) Wait() float64 { return o.Start - o.Job.Submit }

// Turnaround returns the time from submission to end, s; NaN for a job that did not end.
func (o *Outcome) Turnaround() float64 { return o.End - o.Job.Submit }

// Slowdown returns turnaround by run time, without a bound, as Batsim reports it.
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
	Energy float64 // from the first submission to the last end, J; NaN means unknown
	// Switches counts changes of power states: Batsim's nb_machine_switches and nb_grouped_switches.
	Switches, GroupedSwitches int
}
