package cluster

import (
	"fmt"
	"slices"

	"trainopt/simulator/workload"
)

// source provides jobs in order of arrival.
type source struct {
	jobs []workload.Job // remaining jobs of a list
	draw *workload.Generator
	next *workload.Job // drawn and not yet taken
	left int           // number of jobs still to be drawn; −1: unlimited
	// fill contains the devices, by type, that jobs at time 0 have yet to request.
	fill     []int
	arrivals []float64 // drawn, of jobs that have none yet
	filled   bool
}

// newSource returns a source of the listed or generated jobs of a configuration.
func newSource(c Config) (*source, error) {
	if c.Generate == nil {
		return &source{jobs: c.Jobs}, nil
	}
	g, err := workload.NewGenerator(*c.Generate, c.Throughputs)
	if err != nil {
		return nil, err
	}
	left := -1
	if c.Total > 0 {
		left = c.Total
	}
	s := &source{draw: g, left: left, filled: c.Filled}
	if c.Filled {
		for _, d := range c.Devices {
			s.fill = append(s.fill, d.Count)
		}
	}
	return s, nil
}

// shift moves the jobs that fill the cluster to time 0, and the others to the drawn arrivals in order from the first on.
func (s *source) shift(j *workload.Job) {
	at := 0.0
	s.arrivals = append(s.arrivals, j.Arrival)
	if len(s.fill) > 0 {
		if s.fill[0] -= j.GPUs; s.fill[0] <= 0 {
			s.fill = s.fill[1:]
		}
	} else {
		at, s.arrivals = s.arrivals[0], s.arrivals[1:]
	}
	j.Deadline += at - j.Arrival
	j.Arrival = at
}

// peek returns the next job to arrive, or nil.
func (s *source) peek() *workload.Job {
	switch {
	case s.draw == nil && len(s.jobs) > 0:
		return &s.jobs[0]
	case s.draw == nil:
		return nil
	case s.next == nil && s.left != 0:
		j := s.draw.Next()
		if s.filled {
			s.shift(&j)
		}
		s.next = &j
		s.left--
	}
	return s.next
}

// take returns the next job and advances to the one after it.
func (s *source) take() *workload.Job {
	j := s.peek()
	if s.draw == nil {
		s.jobs = s.jobs[1:]
	}
	s.next = nil
	return j
}

// endless reports whether the number of jobs is unlimited.
func (s *source) endless() bool { return s.left < 0 }

// TraceOptions defines the treatment of the jobs of a trace for which the throughput table has no rate. By default they
// are an error.
type TraceOptions struct {
	Reference string // device type on which durations hold
	Skip      bool   // leave such jobs out
	Draw      *int64 // seed to draw types for such jobs, see drawTypes; nil: none are drawn
}

// CompleteTrace returns the jobs of a trace with steps and durations from a throughput table, and notes on all changes.
func CompleteTrace(jobs []workload.Job, table *workload.Throughputs, o TraceOptions) (out []workload.Job, notes []string, err error) {
	out = jobs
	if o.Skip {
		out = slices.DeleteFunc(slices.Clone(jobs), func(j workload.Job) bool { return !(table.Alone(o.Reference, j.Type, j.GPUs) > 0) })
		if len(out) == 0 {
			return nil, nil, fmt.Errorf("the throughput table has no rate for any of its %d jobs", len(jobs))
		}
		if left := len(jobs) - len(out); left > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d jobs are left out because their throughput was not measured: the simulated load is lower than that of the trace", left, len(jobs)))
		}
	}
	if o.Draw == nil {
		return out, notes, workload.Complete(out, table, o.Reference)
	}
	out, note, err := drawTypes(out, table, o.Reference, *o.Draw)
	if note != "" {
		notes = append(notes, note)
	}
	return out, notes, err
}
