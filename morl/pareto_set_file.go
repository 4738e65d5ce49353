package morl

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
)

// savedSet is the form in which an agent is stored.
type savedSet struct {
	Steps  int           `json:"steps"`
	Sets   int           `json:"sets"`
	Start  int           `json:"start"`
	Level  int           `json:"level"`
	States []*tableState `json:"states"`
}

// Save implements Agent.
func (a *paretoSet) Save(w io.Writer) error {
	if err := json.NewEncoder(w).Encode(savedSet{a.steps, a.sets, a.start, a.level, a.states}); err != nil {
		return fmt.Errorf("save agent pareto: %w", err)
	}
	return nil
}

// Load implements Agent.
func (a *paretoSet) Load(r io.Reader) error {
	data, err := io.ReadAll(r)
	if err != nil {
		return fmt.Errorf("load agent pareto: %w", err)
	}
	var in savedSet
	if err := json.Unmarshal(data, &in); err != nil || len(data) == 0 || data[len(data)-1] != '\n' {
		return fmt.Errorf("load agent pareto: %v: %w", err, ErrCorrupt)
	}
	b := newParetoSet(a.shape, Config{Gamma: a.gamma}, a.seed)
	b.gamma, b.steps, b.sets, b.start, b.level, b.states = a.gamma, in.Steps, in.Sets, in.Start, in.Level, in.States
	b.queued = make([]bool, len(b.states))
	if in.Start < -1 || in.Start >= len(in.States) || in.Steps < 0 || in.Sets < 0 || in.Level < 1 {
		return fmt.Errorf("load agent pareto: start %d of %d states, level %d: %w", in.Start, len(in.States), in.Level, ErrCorrupt)
	}
	for s, state := range b.states {
		if !b.plausible(state) {
			return fmt.Errorf("load agent pareto: state %d: %w", s, ErrCorrupt)
		}
		b.index[key(state.Key)] = s
		for i := range state.Actions {
			for _, next := range state.Actions[i].Next {
				if before := &b.states[next.State].before; !slices.Contains(*before, s) {
					*before = append(*before, s)
				}
			}
		}
		b.enqueue(s)
	}
	*a = *b
	return nil
}

// plausible reports whether a stored state belongs to the shape of the agent.
func (a *paretoSet) plausible(s *tableState) bool {
	if s == nil || len(s.Key) != a.shape.State || len(s.Actions) != a.shape.Actions || s.Mask != nil && len(s.Mask) != a.shape.Actions {
		return false
	}
	for i := range s.Actions {
		x := &s.Actions[i]
		if x.N < 0 || x.N > 0 && len(x.Reward) != len(a.shape.Objectives) {
			return false
		}
		for _, next := range x.Next {
			if next.State < 0 || next.State >= len(a.states) || next.N < 1 || next.N > x.N {
				return false
			}
		}
	}
	return true
}
