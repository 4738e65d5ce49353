package rounds

import (
	"errors"
	"math"

	"trainopt/simulator/engine"
	"trainopt/simulator/workload"
)

// improved is the default mechanism. It keeps Gavel's rounds (OSDI 2020, section 5), which share time by assigning
// each device to one job or pair for some minutes, without the restrictions that cost Gavel time:
//
//   - Decisions are made as soon as jobs arrive or complete, which also ends the round: no job waits for the next
//     decision, and released devices are reassigned immediately (Config.WholeRounds keeps them until the end of the
//     round).
//   - The entries with the largest time owed receive the devices of a round, so shares are accurate to within a
//     round; a holder keeps its devices unless another entry is owed more by at least a lease.
//   - Remaining devices are assigned where they help most, relative to the best device type of each job, rather than
//     in order of speed of the type; jobs move up to better devices that would be idle.
//   - Devices of a job are spread over as few servers as possible. Where they are not, and the throughput table has
//     rates for that case ("v100_unconsolidated"), the job is slower.
//   - Progress is continuous: steps are not rounded down, and completions take effect immediately.
//
// It is a discrete-event state machine: jobs arrive and end, and rounds end if some entry has a partial share of a
// device. While all entries have full shares, there are no rounds. O(jobs · types) per decision or end of a round,
// else O(1).
type improved struct {
	*simulation
	ends    engine.Queue[ending]
	tenants map[[2]int]*tenant // by numbers of both jobs; the second is −1 for a single job
	list    []*tenant          // in order of creation
	running []*tenant
	sized   *sized  // nil: jobs run on the number of devices that they request
	every   float64 // minimum seconds between decisions without arrivals and completions; +Inf: never

	changed    bool    // jobs arrived or completed since the last decision
	came       bool    // jobs arrived
	decided    float64 // time of the last decision; −Inf: none
	roundStart float64
	tick       float64 // scheduled end of the round; +Inf: none
	shared     bool    // some entry has a partial share

	floor
	chooser
}

// tenant is a job, or a pair of co-located jobs, and its current lease.
type tenant struct {
	entry
	want       int // device type assigned in this round; −1: none
	counted    int // device type whose share its time counts for; −1: surplus time
	since      float64
	resumes    float64 // time from which it makes progress
	pace       float64 // steps/s of a on its devices
	paceB      float64
	best       float64 // of a alone on its fastest type
	generation int     // of the scheduled end
	spread     bool
	asked      bool // included in the last decision
}

// ending is a scheduled end of a job.
type ending struct {
	tenant     *tenant
	generation int
}

// Restless is a policy that requests periodic decisions even without arrivals and completions.
type Restless interface {
	Policy
	// Every returns the minimum time between two such decisions in seconds, above 0.
	Every() float64
}

// newImproved returns the mechanism and configures it for elastic, periodic and informed policies.
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

// step advances to the next event: it ends completed jobs, admits arrivals and, at the end of a round or after a
// change, begins the next round.
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

// finish ends the completed jobs of a tenant and releases its devices.
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

// patience returns the minimum time in seconds between the last decision and the next.
func (m *improved) patience() float64 {
	if m.MinRecompute == 0 && !m.restless && !m.came {
		return m.traits.Settled
	}
	return m.MinRecompute
}

// turn begins a round: it updates the time owed, calls the policy if a decision is due, and assigns devices.
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

// account adds the difference between the time due and the time received in the past round to the deficit of each
// tenant. Deficits are limited to a few rounds: they serve for ordering and must not grow while devices are scarce.
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

// redecide settles all running tenants, calls the policy and applies its shares.
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
	// Create tenants as needed, and detect partial shares.
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
	leastShare = 1e-6 // smaller shares are rounding errors
	wholeShare = 1 - 1e-6
)

// forget removes tenants with ended jobs, and pairs without devices that the last decision did not include.
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

// tenantOf returns the tenant of a single job (b is nil) or of a pair in order of arrival, and creates it if
// necessary.
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
