package cluster

import (
	"fmt"
	"math"
)

// ideal is a mechanism without rounds: between two arrivals, every job receives exactly its shares of all device
// types simultaneously. Gavel uses it as the reference for its rounds. Completions take effect at the next arrival,
// so completion times are rounded up to arrivals until the last job has arrived. In compat mode the steps of each
// period are rounded down on each type, as in the original. Preemption is free.
type ideal struct {
	*simulation
	shares    []idealShare
	decideNow bool
	decided   float64
	ever      bool
}

// idealShare is the share of a job or a pair.
type idealShare struct {
	a, b        *job // b is nil for a single job
	rate, rateB []float64
	x           []float64
}

// step advances to the next arrival or, after the last one, to the first completion. It performs the work until then
// and makes a new decision if the jobs have changed.
func (m *ideal) step() error {
	next := m.source.peek()
	at := m.now + m.untilFirst()
	if next != nil {
		at = max(m.now, next.Arrival)
	}
	if math.IsInf(at, 1) {
		if !m.decideNow && m.decided == m.now {
			return &policyError{m.traits.Name, m.now, m.active[0].ID,
				fmt.Errorf("it gives no share to any of the %d jobs, and no other will come", len(m.active))}
		}
		at, m.decideNow, m.ever = m.now, true, false
	}
	m.work(at-m.now, m.Compat && next != nil)
	m.now = at
	m.finish(next == nil)
	m.arrive(func(*job) { m.decideNow = true })
	if !m.decideNow || m.ever && m.now-m.decided < m.MinRecompute {
		return nil
	}
	return m.share()
}

// untilFirst returns the time until the first completion at the current shares.
func (m *ideal) untilFirst() float64 {
	speed := map[*job]float64{}
	for i := range m.shares {
		s := &m.shares[i]
		for d, x := range s.x {
			speed[s.a] += x * s.rate[d]
			if s.b != nil {
				speed[s.b] += x * s.rateB[d]
			}
		}
	}
	first := math.Inf(1)
	for j, v := range speed {
		if v > 0 && !j.gone {
			first = min(first, j.remaining()/v)
		}
	}
	return first
}

// work performs the work of a period. If whole is set, steps are rounded down.
func (m *ideal) work(seconds float64, whole bool) {
	steps := func(x, rate float64) float64 {
		n := x * seconds * rate
		if whole {
			n = math.Trunc(n)
		}
		return n
	}
	for i := range m.shares {
		s := &m.shares[i]
		if s.a.gone || s.b != nil && s.b.gone {
			continue
		}
		for d, x := range s.x {
			if x == 0 {
				continue
			}
			m.events++
			m.charge(s.a, s.b, s.a.GPUs, d, m.now, seconds, x)
			s.a.done += steps(x, s.rate[d])
			if s.b != nil {
				s.b.done += steps(x, s.rateB[d])
			}
		}
	}
}

// negligible is the part of a job's steps below which a remainder is attributed to rounding.
const negligible = 1e-12

// finish ends the completed jobs. exact accepts a remainder due to rounding.
func (m *ideal) finish(exact bool) {
	for _, j := range m.active {
		if left := j.remaining(); left <= 0 || exact && left <= negligible*j.Steps {
			m.end(j, m.now)
			m.decideNow = true
		}
	}
	m.removeEnded()
}

// share calls the policy and stores its shares with the actual rates of the entries.
func (m *ideal) share() error {
	a, err := m.decide()
	if err != nil {
		return err
	}
	m.decideNow, m.decided, m.ever = false, m.now, true
	m.shares = m.shares[:0]
	for _, e := range a.Entries {
		s := idealShare{a: m.active[e.A], x: append([]float64(nil), e.X...)}
		s.rate = s.a.kind.rate
		if e.B >= 0 {
			s.b = m.active[e.B]
			r := m.rates.pair(s.a.kind, s.b.kind)
			s.rate, s.rateB = r.a, r.b
		}
		m.shares = append(m.shares, s)
	}
	return nil
}
