package cluster

import (
	"trainopt/optimizer/schedule"
)

// updatingDriver is a roundDriver whose policy decides from what has changed.
type updatingDriver struct {
	*roundDriver
	policy  schedule.Incremental
	changes schedule.Changes
	moves   []schedule.JobPlace
	latest  int // ID of the job that arrived last
}

var _ schedule.Updater = (*updatingDriver)(nil)

func newUpdatingDriver(m *roundDriver, p schedule.Incremental) *updatingDriver {
	u := &updatingDriver{roundDriver: m, policy: p}
	u.changes.Devices, u.changes.Preemption = m.Devices, m.Preemption
	u.changes.Remaining = func(number int) float64 {
		j := m.jobs[number]
		m.settle(j)
		return j.remaining()
	}
	m.settleAll = func() {
		for _, r := range m.engine.Running() {
			m.settle(m.jobs[r.A.Number])
		}
	}
	return u
}

// Update implements schedule.Updater. The policy may read the remaining work of jobs, which is accounted up to now.
func (u *updatingDriver) Update(now float64, arrived, ended []*schedule.ActiveJob) ([]schedule.JobPlace, bool, error) {
	c := &u.changes
	c.Now, c.Arrived, c.Ended = now, c.Arrived[:0], c.Ended[:0]
	for _, j := range ended {
		c.Ended = append(c.Ended, j.Number)
	}
	for _, j := range arrived {
		if a := u.jobs[j.Number]; a != nil {
			c.Arrived = append(c.Arrived, schedule.Arrival{Number: j.Number, JobState: a.state()})
			u.latest = a.ID
		}
	}
	if u.gone > u.present() { // the majority
		u.removeEnded()
	}
	var moves []schedule.Place
	var ok bool
	err := u.call(u.latest, func() error { moves, ok = u.policy.Update(c); return nil })
	if err != nil {
		return nil, false, u.policyError(err, u.latest)
	}
	if !ok {
		return nil, false, nil
	}
	u.decisions++
	u.moves = u.moves[:0]
	for _, p := range moves {
		u.moves = append(u.moves, schedule.JobPlace{Job: &u.jobs[p.Number].round, Device: p.Device})
	}
	return u.moves, true, nil
}
