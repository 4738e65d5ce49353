package cluster

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
)

// savedScheduler is the form of a scheduler in State.
type savedScheduler struct {
	Schema  int             `json:"schema"`
	Origin  float64         `json:"origin"`
	Policy  string          `json:"policy"`
	Devices []string        `json:"devices"` // names of the types: leases refer to them by index
	Memory  []byte          `json:"policy_state,omitempty"`
	Engine  json.RawMessage `json:"engine"`
	Numbers map[int]int     `json:"numbers"` // in the engine, by job
	Pinned  []int           `json:"pinned,omitempty"`
	Next    int             `json:"next"`
	Started []float64       `json:"started,omitempty"`
	Moved   []float64       `json:"moved"`
	Stale   bool            `json:"stale,omitempty"`
	Settled map[int]float64 `json:"settled,omitempty"` // by job
	Settles float64         `json:"settles,omitempty"` // 0: never
}

// State encodes the state of the scheduler between two calls. The jobs themselves are not part of it.
func (s *scheduler) State() ([]byte, error) {
	saved := savedScheduler{Schema: schema, Origin: s.origin, Policy: s.Policy, Devices: s.names(), Numbers: map[int]int{}, Next: s.number, Started: s.started, Moved: s.moved, Stale: s.stale, Settled: map[int]float64{}}
	if !math.IsInf(s.settles, 1) {
		saved.Settles = s.settles
	}
	var err error
	if saved.Engine, err = s.engine.State(); err != nil {
		return nil, err
	}
	if p, ok := s.policy.(schedule.Stateful); ok {
		if saved.Memory, err = json.Marshal(p.State()); err != nil {
			return nil, err
		}
	}
	for _, m := range s.active {
		saved.Numbers[m.ID] = m.round.Number
		if m.settled > 0 {
			saved.Settled[m.ID] = m.settled
		}
		if m.round.Pinned {
			saved.Pinned = append(saved.Pinned, m.ID)
		}
	}
	return json.Marshal(saved)
}

// names returns the names of the device types.
func (s *scheduler) names() []string {
	out := make([]string, len(s.Devices))
	for i, d := range s.Devices {
		out[i] = d.Name
	}
	return out
}

// Restore replaces the state of a new scheduler with the same devices, whose origin is the present, by that of State, with the jobs that had not
// ended. After an error the scheduler must not be used. A policy other than the saved one begins without state.
func (s *scheduler) Restore(state []byte, jobs []*Job, specs []*Spec) error {
	var saved savedScheduler
	if err := json.Unmarshal(state, &saved); err != nil {
		return fmt.Errorf("restore cluster: %w", err)
	}
	if !slices.Equal(saved.Devices, s.names()) {
		return fmt.Errorf("restore cluster: device types %s, want %s", strings.Join(saved.Devices, ", "), strings.Join(s.names(), ", "))
	}
	var engine struct {
		Now float64 `json:"now"`
	}
	_ = json.Unmarshal(saved.Engine, &engine) // Restore of the engine reports it
	now := s.origin
	s.origin = min(saved.Origin, now-engine.Now) // the clock may have been set back since
	s.number, s.stale = saved.Next, saved.Stale
	if saved.Settles > 0 {
		s.settles = saved.Settles
	}
	numbers := map[int]*schedule.ActiveJob{}
	for i, j := range jobs {
		number, ok := saved.Numbers[j.ID]
		if !ok {
			return fmt.Errorf("restore cluster: job %d is not in the saved state", j.ID)
		}
		j.Counted = min(j.Counted, now)
		m := s.member(saved.Origin, j, specs[i])
		m.round.Number, m.round.Pinned = number, slices.Contains(saved.Pinned, j.ID)
		m.asked, m.settled = j.State == Stopping, saved.Settled[j.ID]
		s.byID[j.ID] = m
		s.rate(m)
		s.active = append(s.active, m)
		numbers[number] = &m.round
	}
	slices.SortFunc(s.active, func(a, b *member) int { return a.round.Number - b.round.Number })
	s.started, s.moved = saved.Started, saved.Moved
	s.charge()
	var ended []*schedule.ActiveJob // some between the writing of the job and that of the state, when the last server died
	err := s.engine.Restore(saved.Engine, func(number int) *schedule.ActiveJob {
		j := numbers[number]
		if j == nil {
			j = &schedule.ActiveJob{Job: &schedule.Job{ID: -1, GPUs: 1}, Number: number, Rate: make([]float64, len(s.Devices))}
			ended = append(ended, j)
		}
		return j
	})
	if err != nil {
		return err
	}
	for _, j := range ended {
		s.engine.End(engine.Now, j)
	}
	byNumber := s.numbers()
	for _, r := range s.engine.Running() {
		if r.B != nil {
			a, b := byNumber[r.A.Number], byNumber[r.B.Number]
			a.partner, b.partner = b.ID, a.ID
		}
	}
	if saved.Policy != s.Policy {
		s.engine.SetTraits(s.policy.Traits())
		return nil
	}
	if p, ok := s.policy.(schedule.Stateful); ok && saved.Memory != nil {
		return share.Restore(p, saved.Memory)
	}
	return nil
}
