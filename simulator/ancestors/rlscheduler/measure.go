package rlscheduler

import "math"

// sums accumulates over the started jobs.
type sums struct {
	n                                           int
	bounded, slowdown, wait, turnaround, worked float64
	last                                        float64 // time of the last start, s
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

// episodeMeasures holds RLScheduler's metrics: means over the started jobs, times in s.
type episodeMeasures struct {
	BoundedSlowdown, Slowdown, Wait, Turnaround float64
	// Utilization is the work of all started jobs relative to the capacity of the machine until the last start. It
	// can exceed 1, since work done after the last start counts.
	Utilization float64
	Jobs        int // number of started jobs
}

// measure returns the measures of the episode so far; NaN if no job has started.
func measure(e *Episode) episodeMeasures {
	n := float64(e.sum.n)
	if n == 0 {
		nan := math.NaN()
		return episodeMeasures{nan, nan, nan, nan, nan, 0}
	}
	s := &e.sum
	machine := float64(e.nodes) * e.perNode
	return episodeMeasures{s.bounded / n, s.slowdown / n, s.wait / n, s.turnaround / n, s.worked / ((s.last - e.jobs[0].submit) * machine), s.n}
}
