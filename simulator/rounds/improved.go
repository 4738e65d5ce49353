package rounds

import (
	"errors"
	"math"

	"trainopt/simulator/engine"
	"trainopt/simulator/workload"
)

// improved is the mechanism that is used unless Gavel's is asked for. It keeps Gavel's rounds (OSDI 2020, section 5), where time is
// shared by giving each device to one job, or pair, for some minutes, and does without what costs Gavel time:
//
//   - A decision is made as soon as jobs come or go, and a round ends when that happens: nobody waits for the next decision,
//     and devices that become free are given on at once (Config.WholeRounds keeps them to the end of the round).
//   - Who has devices in a round is who has been owed most time there, so that shares are kept to within a round; whoever could
//     change devices keeps them for as long as no one else is owed more by a lease.
//   - Devices that are left go to whom they help most, compared with the device that would be best for that job, and not to the
//     fastest type first; jobs move up to better devices that would stay idle.
//   - Devices of a job stand in as few servers as possible; where they do not, and the throughput table has rates for that
//     ("v100_unconsolidated"), it is slower.
//   - Steps are done continuously: nothing is rounded down, and what a job did counts to the instant.
//
// It is a step machine of events: jobs arrive, end, and rounds end where somebody has only a part of a device's time. While everybody
// has devices for all their time there are no rounds. O(jobs · types) at a decision or the end of a round, else O(1).
type improved struct {
	*simulation
	ends    engine.Queue[ending]
	tenants map[[2]int]*tenant // by number of both jobs; of a job alone the second is −1
	list    []*tenant          // in the order in which they were made
	running []*tenant
	sized   *sized  // nil when jobs run on as many devices as they ask for
	every   float64 // least seconds between decisions although nobody comes or goes; +Inf never

	changed    bool    // jobs came or went since the last decision
	came       bool    // jobs came
	decided    float64 // when; −Inf never
	roundStart float64
	tick       float64 // when the round ends though nobody comes or goes; +Inf it does not
	shared     bool    // somebody has a part of a device's time

	floor
	chooser
}

// tenant is a job, or a pair of jobs that share devices, and how it stands with its devices.
type tenant struct {
	entry
	want       int // type that it is to have in this round; −1 none
	counted    int // type whose share its time counts for; −1 it is extra
	since      float64
	resumes    float64 // from when on it gets something done
	pace       float64 // steps/s of a where it is
	paceB      float64
	best       float64 // of a alone where it is fastest
	generation int     // of the end that is expected
	spread     bool
	asked      bool // by the last decision
}

// ending is an expected end of a job.
type ending struct {
	tenant     *tenant
	generation int
}

// Restless is a policy that wants to decide again though nobody came or went.
type Restless interface {
	Policy
	// Every is the least time between two such decisions, seconds, above 0.
	Every() float64
}

func newImproved(s *simulation) *improved {
	m := &improved{
		simulation: s, tenants: map[[2]int]*tenant{}, changed: true, decided: math.Inf(-1), tick: math.Inf(1), every: math.Inf(1),
	}
	if e, ok := s.policy.(Elastic); ok {
		m.sized = &sized{Elastic: e, rate: func(j *workload.Job, device, gpus int) float64 {
			return s.Throughputs.Alone(s.Devices[device].Name, j.Type, gpus)
		}}
		s.policy, s.traits.Overcommits = m.sized, true
	}
	if r, ok := s.policy.(Restless); ok {
		m.every = r.Every()
	}
	if p, ok := s.policy.(informed); ok {
		p.inform(s.beliefs == nil, s.Preemption)
	}
	m.floor.init(s.Devices)
	return m
}

func (m *improved) step() error {
	if err := m.advance(); err != nil {
		return err
	}
	for at, ok := m.ends.Peek(); ok && at <= m.now; at, ok = m.ends.Peek() {
		if _, e := m.ends.Pop(); e.generation == e.tenant.generation {
			m.finish(e.tenant)
		}
	}
	m.arrive(func(j *job) { m.changed, m.came = true, true; m.tenantOf(j, nil) })
	switch {
	case m.now >= m.tick:
	case !m.changed, m.WholeRounds && !math.IsInf(m.tick, 1):
		return nil
	}
	return m.turn()
}

// advance moves the clock to the next event.
func (m *improved) advance() error {
	next := m.tick
	if j := m.source.peek(); j != nil {
		next = min(next, max(m.now, j.Arrival))
	}
	if at, ok := m.ends.Peek(); ok {
		next = min(next, at)
	}
	if math.IsInf(next, 1) {
		if len(m.active) == 0 {
			return errors.New("no job is left")
		}
		return &PolicyError{m.traits.Name, m.now, m.active[0].ID, errors.New("it gives no device to any job that is left, and no other will come")}
	}
	m.now = next
	return nil
}

// finish ends those jobs of a tenant that are done now.
func (m *improved) finish(t *tenant) {
	m.settle(t)
	m.events++
	for _, j := range t.jobs() {
		if j.done >= j.Steps {
			m.end(j, m.now)
		}
	}
	m.leave(t)
	m.changed = true
}

// patience is the least time since the last decision after which there may be another, seconds.
func (m *improved) patience() float64 {
	if m.MinRecompute == 0 && !m.restless && !m.came {
		return m.traits.Settled
	}
	return m.MinRecompute
}

// turn begins a round: it settles what was owed, has the policy decide when jobs came or went, and hands out devices.
func (m *improved) turn() error {
	m.account()
	m.observe()
	since := m.now - m.decided
	if m.changed && since >= m.patience() || since >= m.every {
		if err := m.redecide(); err != nil {
			return err
		}
	}
	m.choose()
	m.move()
	m.tick = math.Inf(1)
	if m.shared || m.changed || m.WholeRounds && len(m.running) > 0 || m.surprise() {
		m.tick = m.now + m.Interval
	}
	m.tick = min(m.tick, max(m.now+1, m.decided+m.every))
	return nil
}

// account adds what everybody should have had of the round that ends, less what it had, to what it is owed. What is owed stays
// within a few rounds: it is for order, and no debt grows while there are too few devices.
func (m *improved) account() {
	length := m.now - m.roundStart
	m.roundStart = m.now
	if !m.shared || length <= 0 {
		return
	}
	most := longestDebt * m.Interval
	for _, t := range m.list {
		for d, x := range t.x {
			due := float64(x * length)
			if t.counted == d {
				due -= length
			}
			t.deficit[d] = min(max(t.deficit[d]+due, -most), most)
		}
	}
}

const longestDebt = 20 // rounds

// redecide brings all jobs up to date and takes over the shares that the policy decides.
func (m *improved) redecide() error {
	for _, t := range m.running {
		m.settle(t)
	}
	m.sweep()
	m.forget()
	a, counts, err := m.ask()
	if err != nil {
		return err
	}
	m.decided, m.changed, m.came, m.shared = m.now, false, false, false
	for _, t := range m.list {
		clear(t.x)
		t.asked = false
	}
	for i, e := range a.Entries {
		t := m.tenantOf(m.active[e.A], nil)
		if e.B >= 0 {
			t = m.tenantOf(m.active[min(e.A, e.B)], m.active[max(e.A, e.B)])
		}
		t.asked = true
		if counts != nil {
			m.resize(t, counts[i])
		}
		for d, x := range e.X {
			t.x[d] = min(max(x, 0), 1)
			m.shared = m.shared || x > leastShare && x < wholeShare
		}
	}
	return nil
}

const (
	leastShare = 1e-6 // below it a share is rounding
	wholeShare = 1 - 1e-6
)

// forget drops tenants whose jobs have ended, and pairs that the last decision did not ask for.
func (m *improved) forget() {
	kept := m.list[:0]
	for _, t := range m.list {
		if t.gone() || t.b != nil && !t.asked && t.device < 0 {
			delete(m.tenants, t.key())
			continue
		}
		kept = append(kept, t)
	}
	clear(m.list[len(kept):])
	m.list = kept
}

// tenantOf is the tenant of a job alone (b is nil) or of a pair, in order of arrival.
func (m *improved) tenantOf(a, b *job) *tenant {
	key := [2]int{a.number, -1}
	if b != nil {
		key[1] = b.number
	}
	if t, ok := m.tenants[key]; ok {
		return t
	}
	rate, rateB := a.kind.rate, []float64(nil)
	if b != nil {
		p := m.believed(a, b)
		rate, rateB = p.a, p.b
	}
	t := &tenant{entry: *newEntry(a, b, rate, rateB, 0), want: -1, counted: -1}
	t.best = m.best(t)
	m.tenants[key] = t
	m.list = append(m.list, t)
	return t
}

func (t *tenant) key() [2]int {
	if t.b != nil {
		return [2]int{t.a.number, t.b.number}
	}
	return [2]int{t.a.number, -1}
}
