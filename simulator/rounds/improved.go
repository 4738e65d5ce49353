package rounds

import (
	"errors"
	"math"

	"trainopt/simulator/engine"
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
	elastic Elastic            // nil when jobs run on as many devices as they ask for
	every   float64            // least seconds between decisions although nobody comes or goes; +Inf never

	changed    bool    // jobs came or went since the last decision
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
	number     int
	want       int // type that it is to have in this round; −1 none
	counted    int // type whose share its time counts for; −1 it is extra
	since      float64
	resumes    float64 // from when on it gets something done
	pace       float64 // steps/s of a where it is
	paceB      float64
	generation int // of the end that is expected
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
	m.elastic, _ = s.policy.(Elastic)
	if r, ok := s.policy.(Restless); ok {
		m.every = r.Every()
	}
	m.floor.init(s.Devices)
	return m
}

func (m *improved) step() error {
	if err := m.advance(); err != nil {
		return err
	}
	m.complete()
	m.arrive(func(j *job) { m.changed = true; m.tenant(j, nil) })
	if m.WholeRounds && m.now < m.tick && !math.IsInf(m.tick, 1) {
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
	if at, ok := m.nextEnd(); ok {
		next = min(next, at)
	}
	if math.IsInf(next, 1) {
		return &PolicyError{m.traits.Name, m.now, m.active[0].ID, errors.New("it gives no device to any job that is left, and no other will come")}
	}
	m.now = next
	return nil
}

// nextEnd is when the next job ends, as things are.
func (m *improved) nextEnd() (at float64, ok bool) {
	for {
		at, ok = m.ends.Peek()
		if !ok {
			return 0, false
		}
		if e := m.ends.First(); e.generation == e.tenant.generation {
			return at, true
		}
		m.ends.Pop()
	}
}
