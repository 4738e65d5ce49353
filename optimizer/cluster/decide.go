package cluster

import (
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
)

// Decide implements schedule.World: it calls the policy with the jobs that may move. Devices of jobs that must not be
// interrupted are not part of the snapshot. A policy that fails, or returns an invalid allocation, changes nothing:
// holders keep their devices, and the failure is recorded.
func (s *scheduler) Decide(at float64) (schedule.Allocation, error) {
	if len(s.active) == 0 {
		return schedule.Allocation{}, nil
	}
	for _, m := range s.active {
		s.settle(at+s.origin, m)
	}
	snap := s.snapshot(at)
	var a schedule.Allocation
	var err error
	if len(snap.Jobs) > 0 {
		a, err = decide(s.policy, snap)
	}
	if err != nil {
		s.log(at+s.origin, Event{Kind: EventDecide, Policy: s.Policy, Jobs: len(s.active), Reason: "policy " + s.Policy + " failed: " + err.Error()})
		s.stale = true // decide again at the end of the round
		return s.unchanged(), nil
	}
	return s.complete(a), nil
}

// decide calls a policy; a panic is an error.
func decide(p schedule.Policy, snap *schedule.Snapshot) (a schedule.Allocation, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("it panicked: %v", r)
		}
	}()
	if a, err = p.Decide(snap); err != nil {
		return a, err
	}
	_, err = a.Check(snap, p.Traits())
	return a, err
}

// leastRemaining is the part of the total steps that remains at least for policies, which divide by it: a job that has
// reported all of its steps holds its devices until it exits.
const leastRemaining = 1e-4

// snapshot returns the view of the policy. It contains all device types, even without a device: policies remember them by
// index.
func (s *scheduler) snapshot(at float64) *schedule.Snapshot {
	count := counts(s.Devices)
	s.settles = math.Inf(1)
	for _, m := range s.active {
		if m.settles = s.policy.Traits().OnlyShares && m.State.holds() && at+s.origin < m.settled; m.settles {
			s.settles = min(s.settles, m.settled)
		}
		if gpus, d := m.round.Held(); m.fixed() && (m.round.Beside() == nil || m.round.Number < m.round.Beside().Number) {
			count[d] -= gpus
		}
	}
	snap := &schedule.Snapshot{Now: at, Preemption: s.engine.Preemption, Devices: slices.Clone(s.Devices)}
	for d := range snap.Devices {
		snap.Devices[d].Count = count[d]
	}
	pool := ""
	if !slices.Equal(count, counts(s.Devices)) {
		pool = fmt.Sprint(count) // policies may remember by type what the devices of a snapshot offer to a job
	}
	s.index = s.index[:0]
	for i, m := range s.active {
		total, done := s.Rates.Work(m.ID)
		state := schedule.JobState{Job: &m.trace, Remaining: max(total-done, leastRemaining*total), Attained: m.Attained, Rate: make([]float64, len(count))}
		state.Held, state.Device = m.round.Held()
		state.Seconds = m.trace.Seconds * (state.Remaining / m.trace.Steps)
		for d, n := range count {
			if m.trace.GPUs <= n {
				state.Rate[d] = m.round.Rate[d]
			}
		}
		if m.fixed() || slices.Max(state.Rate) == 0 {
			snap.Absent = append(snap.Absent, state)
			continue
		}
		m.trace.Type = s.Rates.Kind(m.ID) + pool
		snap.Jobs = append(snap.Jobs, state)
		s.index = append(s.index, i)
	}
	s.offer(snap)
	return snap
}

func counts(devices []schedule.DeviceType) []int {
	out := make([]int, len(devices))
	for d := range devices {
		out[d] = devices[d].Count
	}
	return out
}

// offer sets what the policy may do beyond dividing time: choose numbers of devices, and co-locate.
func (s *scheduler) offer(snap *schedule.Snapshot) {
	snap.SizedRate = func(j *schedule.Job, device, gpus int) float64 {
		if gpus > snap.Devices[device].Count {
			return 0
		}
		rate, _ := s.Rates.Alone(j.ID, device, gpus)
		return rate
	}
	if !s.policy.Traits().Packs {
		return
	}
	snap.PairByKind = true
	snap.Pair = func(a, b, device int) (ra, rb float64) {
		if a > b {
			rb, ra = snap.Pair(b, a, device)
			return ra, rb
		}
		return s.Rates.Pair(snap.Jobs[a].ID, snap.Jobs[b].ID, device)
	}
}

// complete translates an allocation of a snapshot to all active jobs, and adds the jobs that keep their devices.
func (s *scheduler) complete(a schedule.Allocation) schedule.Allocation {
	out := schedule.Allocation{Entries: make([]schedule.Entry, 0, len(a.Entries)), GPUs: []int{}}
	for i := range a.Entries {
		e := &a.Entries[i]
		full := schedule.Entry{A: s.index[e.A], B: -1, X: e.X}
		if e.B >= 0 {
			full.B = s.index[e.B]
		}
		out.Entries = append(out.Entries, full)
		if a.GPUs != nil {
			out.GPUs = append(out.GPUs, a.GPUs[i])
		} else { // a policy before this one may have chosen another number
			out.GPUs = append(out.GPUs, s.active[full.A].trace.GPUs)
		}
	}
	for i, m := range s.active {
		if m.fixed() {
			s.keep(&out, i)
		}
	}
	return out
}

// fixed reports whether a job keeps its devices whatever the policy decides, since it, or the job beside it, must not be
// interrupted, or it is about to exit: to policies by remaining time, nothing is worth more than its last moment. One that has
// restarted keeps them until it has worked for as long, if the policy does not divide time: it would make no progress if it were
// stopped during each start.
func (m *member) fixed() bool {
	gpus, _ := m.round.Held()
	beside := m.round.Beside()
	return gpus > 0 && (m.round.Pinned || beside != nil && beside.Pinned || beside == nil && (m.finished() || m.settles))
}

// finished reports whether a job has done its work: it is about to exit.
func (m *member) finished() bool { return m.Total > 0 && m.Job.Done >= m.Total }

// unchanged returns the allocation in which all holders keep their devices, and the other jobs receive those that are
// left in order of arrival, each on its fastest type.
func (s *scheduler) unchanged() schedule.Allocation {
	out := schedule.Allocation{GPUs: []int{}}
	left := counts(s.Devices)
	for i, m := range s.active {
		if gpus, d := m.round.Held(); gpus > 0 && s.keep(&out, i) {
			left[d] -= gpus
		}
	}
	for i, m := range s.active {
		best := -1
		for d, rate := range m.round.Rate {
			if left[d] >= m.trace.GPUs && rate > 0 && (best < 0 || rate > m.round.Rate[best]) {
				best = d
			}
		}
		if gpus, _ := m.round.Held(); gpus == 0 && best >= 0 {
			left[best] -= m.trace.GPUs
			s.give(&out, i, -1, m.trace.GPUs, best)
		}
	}
	return out
}

// keep adds the full share of a job, and of the one beside it, on the devices that they hold. It returns false for the later
// one of a pair, and adds nothing.
func (s *scheduler) keep(a *schedule.Allocation, i int) bool {
	gpus, device := s.active[i].round.Held()
	beside := s.active[i].round.Beside()
	other := -1
	if beside != nil {
		other = slices.IndexFunc(s.active, func(o *member) bool { return &o.round == beside })
		if other < i {
			return false
		}
	}
	s.give(a, i, other, gpus, device)
	return true
}

// give adds the full share of a job, or of a pair, on a number of devices.
func (s *scheduler) give(a *schedule.Allocation, i, other, gpus, device int) {
	e := schedule.Entry{A: i, B: other, X: make([]float64, len(s.Devices))}
	e.X[device] = 1
	a.Entries = append(a.Entries, e)
	a.GPUs = append(a.GPUs, gpus)
}

// PairRates implements schedule.World.
func (s *scheduler) PairRates(first, second *schedule.ActiveJob) (a, b []float64) {
	rates := [2][]float64{make([]float64, len(s.Devices)), make([]float64, len(s.Devices))}
	if s.byID[first.ID] == nil || s.byID[second.ID] == nil { // it has ended, see Restore
		return rates[0], rates[1]
	}
	pair := [2]*schedule.ActiveJob{first, second}
	s.ratePair(pair, rates)
	s.paired[pair] = rates
	return rates[0], rates[1]
}

// ratePair sets the rates of a pair.
func (s *scheduler) ratePair(pair [2]*schedule.ActiveJob, rates [2][]float64) {
	for d := range s.Devices {
		rates[0][d], rates[1][d] = s.Rates.Pair(pair[0].ID, pair[1].ID, d)
	}
}

// SizedRate implements schedule.World.
func (s *scheduler) SizedRate(j *schedule.ActiveJob, device, gpus int) float64 {
	if s.byID[j.ID] == nil { // it has ended
		return 0
	}
	rate, _ := s.Rates.Alone(j.ID, device, gpus)
	return rate
}
