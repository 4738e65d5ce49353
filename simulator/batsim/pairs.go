package batsim

import (
	"fmt"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
)

// pairs is a decider that uses HDeepRM's process.
type pairs struct {
	process *hdeeprm.Process
	agent   func(observation []float32) int // nil: always the first action
}

var _ decider = (*pairs)(nil)

func newPairs(s *session) (*pairs, error) {
	limits := s.options.Limits
	if limits == (hdeeprm.Limits{}) {
		limits = hdeeprm.Limits{Time: 1, Cores: 1, Memory: 1, Bandwidth: 1}
	}
	settings := *s.options.Pairs
	p := &pairs{agent: s.options.Agent}
	if p.agent == nil {
		settings.View = hdeeprm.Minimal
	}
	var err error
	if p.process, err = hdeeprm.NewProcess(s.ground.tree, limits, settings); err != nil {
		return nil, err
	}
	p.process.Reset(nil, s)
	return p, nil
}

func (p *pairs) extend(jobs []order.Job) { p.process.Extend(jobs) }

func (p *pairs) decide(now float64, events []queue.Event, more int) error {
	p.process.HandleEvents(now, events, more)
	for again := true; again; again = p.process.Close() {
		if !p.process.Due() {
			continue
		}
		action := 0
		if p.agent != nil {
			action = p.agent(p.process.Observe())
		}
		p.process.Act(action)
	}
	if err := p.process.Err(); err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	return nil
}

func (p *pairs) finish() error { return p.process.Finish() }
