package queue

import "math"

// MeanMax holds the mean and the maximum of a quantity; NaN for an empty sample.
type MeanMax struct {
	Mean, Max float64
}

// Summary holds the metrics of a simulation. Means are over the jobs that ended, completed or killed; times are in s.
type Summary struct {
	Jobs, Completed, Killed, Rejected, Unfinished int

	BoundedSlowdown MeanMax // at 10 s
	Slowdown        MeanMax // without a bound, as Batsim reports it; excludes jobs of zero run time
	Wait            MeanMax
	Turnaround      MeanMax

	Makespan float64 // time of the last end, as in Batsim 3 and 4; NaN if no job ended
	Span     float64 // from the first submission to the last end, s
	// Utilization is the share of the machine's processor seconds during Span that jobs occupied.
	Utilization float64
	// PublishedUtilization is RLScheduler's utilization: its denominator ends at the last start, but work done after
	// it counts.
	PublishedUtilization float64

	Deadlines, DeadlineMisses int     // jobs with a deadline, and those of them that missed it
	Energy                    float64 // J; NaN means unknown
}

// tally accumulates a sum and a maximum.
type tally struct {
	n        int
	sum, max float64
}

func (t *tally) add(v float64) {
	t.n++
	t.sum += v
	t.max = max(t.max, v)
}

func (t *tally) figures() MeanMax {
	if t.n == 0 {
		return MeanMax{math.NaN(), math.NaN()}
	}
	return MeanMax{t.sum / float64(t.n), t.max}
}

// Summary computes the metrics of all jobs of the result. Rejected and unfinished jobs are only counted; jobs of zero
// run time are omitted from Slowdown. Cost: O(jobs).
func (r *Result) Summary() Summary {
	s := Summary{Jobs: len(r.Jobs), Energy: r.Energy}
	var bounded, slowdown, wait, turnaround tally
	first, last, lastStart, work := math.Inf(1), math.Inf(-1), math.Inf(-1), 0.0
	for i := range r.Jobs {
		o := &r.Jobs[i]
		first = min(first, o.Job.Submit)
		s.deadline(o)
		switch o.State {
		case Completed:
			s.Completed++
		case Killed:
			s.Killed++
		case Rejected:
			s.Rejected++
			continue
		default:
			s.Unfinished++
			continue
		}
		last, lastStart = max(last, o.End), max(lastStart, o.Start)
		work += (o.End - o.Start) * float64(o.Job.Procs)
		bounded.add(o.BoundedSlowdown())
		wait.add(o.Wait())
		turnaround.add(o.Turnaround())
		if o.End > o.Start {
			slowdown.add(o.Slowdown())
		}
	}
	s.BoundedSlowdown, s.Slowdown, s.Wait, s.Turnaround = bounded.figures(), slowdown.figures(), wait.figures(), turnaround.figures()
	s.Makespan, s.Span, s.Utilization, s.PublishedUtilization = math.NaN(), math.NaN(), math.NaN(), math.NaN()
	if wait.n > 0 {
		s.Makespan, s.Span = last, last-first
		s.Utilization = work / (s.Span * float64(r.Procs))
		s.PublishedUtilization = work / ((lastStart - first) * float64(r.Procs))
	}
	return s
}

// deadline counts the deadline of a job and whether it was missed. A deadline of 0 or NaN is none.
func (s *Summary) deadline(o *Outcome) {
	if d := o.Job.Deadline; !math.IsNaN(d) && d != 0 {
		s.Deadlines++
		if !(o.End <= d) || o.State == Killed {
			s.DeadlineMisses++
		}
	}
}

// metric is one value of a Summary with its name in files and tables.
type metric struct {
	Name  string
	Value float64 // NaN means unknown
}

// Metrics returns the values of the summary in display order.
func (s *Summary) Metrics() []metric {
	return []metric{
		{"mean_bounded_slowdown", s.BoundedSlowdown.Mean}, {"max_bounded_slowdown", s.BoundedSlowdown.Max},
		{"mean_slowdown", s.Slowdown.Mean}, {"max_slowdown", s.Slowdown.Max},
		{"mean_wait_s", s.Wait.Mean}, {"max_wait_s", s.Wait.Max},
		{"mean_turnaround_s", s.Turnaround.Mean}, {"max_turnaround_s", s.Turnaround.Max},
		{"utilization", s.Utilization}, {"published_utilization", s.PublishedUtilization},
		{"makespan_s", s.Makespan}, {"span_s", s.Span}, {"energy_joules", s.Energy},
	}
}
