package rounds

import (
	"trainopt/simulator/workload"
)

// source hands out jobs by arrival.
type source struct {
	jobs []workload.Job // the rest of a list
	draw *workload.Generator
	next *workload.Job // drawn and not taken
	left int           // jobs that may still be drawn; −1 no end
	// fill are the devices, by type, that jobs at 0 are still to ask for; since is when the last of those would have come.
	fill   []int
	since  float64
	filled bool
}

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

// shift has the jobs that fill the cluster arrive at 0, and the others as long after each other as they were drawn.
func (s *source) shift(j *workload.Job) {
	at := 0.0
	if len(s.fill) > 0 {
		s.since = j.Arrival
		if s.fill[0] -= j.GPUs; s.fill[0] <= 0 {
			s.fill = s.fill[1:]
		}
	} else {
		at = j.Arrival - s.since
	}
	j.Deadline += at - j.Arrival
	j.Arrival = at
}

// peek is the job that arrives next, nil when there is none.
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

// take is peek, and goes on to the one behind it.
func (s *source) take() *workload.Job {
	j := s.peek()
	if s.draw == nil {
		s.jobs = s.jobs[1:]
	}
	s.next = nil
	return j
}

// endless says that jobs never end.
func (s *source) endless() bool { return s.left < 0 }
