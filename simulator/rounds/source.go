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
	return &source{draw: g, left: left}, nil
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
