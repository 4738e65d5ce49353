package rlscheduler

import "math"

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
	s := e.Sums()
	n := float64(s.Jobs)
	if n == 0 {
		nan := math.NaN()
		return Measures{nan, nan, nan, nan, nan, 0}
	}
	return Measures{
		s.Bounded / n, s.Slowdown / n, s.Wait / n, s.Turnaround / n,
		s.Work / ((s.Last - s.First) * float64(e.Procs())), s.Jobs,
	}
}
