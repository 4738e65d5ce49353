package rlscheduler

import "math"

// sums are over the jobs that have started.
type sums struct {
	n                                           int
	bounded, slowdown, wait, turnaround, worked float64
	last                                        float64 // clock at the last start
}

func (s *sums) add(j *sized, start float64) {
	wait := start - j.submit
	s.n++
	s.wait += wait
	s.turnaround += wait + j.run
	s.slowdown += (wait + j.run) / j.run
	s.bounded += max(1, (wait+j.run)/max(j.run, 10))
	s.worked += j.run * float64(j.procs)
	s.last = start
}

// Measures are RLScheduler's metrics: means over the jobs that have started, times in s.
type Measures struct {
	BoundedSlowdown, Slowdown, Wait, Turnaround float64
	// Utilization is the work of all jobs by what the machine could have done until the last one started. The time after that is
	// not counted though the work is, so that it can be above 1.
	Utilization float64
	Jobs        int // that have started
}

// Measure is what the episode has reached so far; NaN where nothing has started.
func Measure(e *Episode) Measures {
	n := float64(e.sum.n)
	if n == 0 {
		nan := math.NaN()
		return Measures{nan, nan, nan, nan, nan, 0}
	}
	s := &e.sum
	machine := float64(e.nodes) * e.perNode
	return Measures{s.bounded / n, s.slowdown / n, s.wait / n, s.turnaround / n, s.worked / ((s.last - e.jobs[0].submit) * machine), s.n}
}
