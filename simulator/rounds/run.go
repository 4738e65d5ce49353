package rounds

import (
	"context"
	"fmt"
	"math"
	"time"
)

// Run simulates until every job of the window, or of the list, has ended. It returns a partial Result together with
// the error when the run was interrupted (ctx), reached its limit (ErrLimit) or is not stable (ErrNotStable), or when
// the policy failed (*PolicyError).
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("simulate rounds: %w", err)
	}
	s, err := newSimulation(ctx, c.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("simulate rounds: %w", err)
	}
	if err = s.run(newMechanism(s)); err != nil {
		err = fmt.Errorf("simulate rounds: %w", err)
	}
	return s.result(err), err
}

// mechanism turns shares into work. It owns the events and entries; the simulation owns jobs, time and accounting.
type mechanism interface {
	// step advances to the next point in time at which the state changes.
	step() error
}

// newMechanism returns the mechanism selected by the configuration.
func newMechanism(s *simulation) mechanism {
	switch {
	case s.Ideal:
		return newIdeal(s)
	case s.Compat:
		return newGavel(s)
	}
	return newImproved(s)
}

// simulation is the state shared by all mechanisms.
type simulation struct {
	Config
	ctx     context.Context
	policy  Policy
	traits  Traits
	rates   *rates
	beliefs *beliefs
	source  *source
	now     float64
	active  []*job // in order of arrival
	arrived int
	demand  int // devices requested by active jobs
	devices int
	used    []float64 // device-seconds by type
	usage   usage

	ended    []JobResult // jobs of the window
	inWindow int         // jobs of the window that have ended
	expected int         // jobs of the window
	usd      float64

	snapshot  Snapshot
	decisions int
	events    int
	lease     leases
	paused    pauses
	backlog   backlog
	warnings  warnings

	began, deciding time.Duration
}

// leases counts how often an entry of a round was still present in the next one (chances), and how often it kept its
// devices (extended).
type leases struct{ chances, extended int }

// pauses counts how often jobs continued after a pause or on other devices, and the time lost.
type pauses struct {
	count   int
	seconds float64 // device-seconds
}

// newSimulation creates the policy, the source of jobs and the shared state. c must be valid and have its defaults
// set.
func newSimulation(ctx context.Context, c Config) (*simulation, error) {
	policy := c.Custom
	if policy == nil {
		var err error
		if policy, err = NewPolicy(c.Policy, PolicyOptions{Seed: c.Seed, Compat: c.Compat}); err != nil {
			return nil, err
		}
	}
	src, err := newSource(c)
	if err != nil {
		return nil, err
	}
	s := &simulation{
		Config: c, ctx: ctx, policy: policy, traits: traitsOf(policy, c.Policy), source: src,
		rates: newRates(c.Throughputs, c.Devices), used: make([]float64, len(c.Devices)), usage: newUsage(len(c.Devices)), expected: expectedJobs(c),
	}
	for _, d := range c.Devices {
		s.devices += d.Count
	}
	if s.beliefs, err = newBeliefs(c, s.traits); err != nil {
		return nil, err
	}
	s.snapshot.Devices = c.Devices
	// Policies receive rates of pairs only if they pack.
	if s.traits.Packs {
		s.snapshot.Pair = s.pairRate
	}
	s.backlog.init(s)
	if c.Clock != nil {
		s.began = c.Clock()
	}
	return s, nil
}

// expectedJobs returns the number of jobs in the window.
func expectedJobs(c Config) int {
	if c.Jobs == nil {
		if c.Window != (Window{}) {
			return c.Window.End - c.Window.Start
		}
		return c.Total
	}
	n := 0
	for i := range c.Jobs {
		if c.Window.has(c.Jobs[i].ID) {
			n++
		}
	}
	return n
}

// stepsBetweenChecks is the number of steps between checks of ctx and calls of Progress.
const stepsBetweenChecks = 256

// run steps the mechanism until all jobs of the window have ended. It checks the context, the limit of simulated time
// and the stability of the run.
func (s *simulation) run(m mechanism) error {
	for i := 0; s.inWindow < s.expected; i++ {
		if i%stepsBetweenChecks == 0 {
			if s.ctx.Err() != nil {
				return fmt.Errorf("interrupted at %.0f s of simulated time: %w", s.now, context.Cause(s.ctx))
			}
			if s.Progress != nil {
				s.Progress(Progress{Now: s.now, Arrived: s.arrived, Done: s.inWindow, Window: s.expected, Active: len(s.active)})
			}
		}
		if err := m.step(); err != nil {
			return err
		}
		if s.now > s.Limit {
			return fmt.Errorf("%w of %.0f s: %d of %d jobs have ended, %d are in the cluster", ErrLimit, s.Limit, s.inWindow, s.expected, len(s.active))
		}
		if err := s.backlog.check(s); err != nil {
			return err
		}
	}
	return nil
}

// arrive admits the jobs that have arrived by now and calls enter for each that can run. Jobs that cannot run are
// recorded without a completion time.
func (s *simulation) arrive(enter func(*job)) {
	for next := s.source.peek(); next != nil && next.Arrival <= s.now; next = s.source.peek() {
		j := &job{Job: s.source.take(), number: s.arrived, chosen: -1}
		j.kind = s.rates.kind(j.Job)
		s.arrived++
		s.events++
		if !j.kind.runs {
			s.warnings.add("jobs left out because no device type has as many devices as they ask for, or a rate for them", j.ID)
			s.record(j, math.NaN())
			continue
		}
		s.active = append(s.active, j)
		s.demand += j.GPUs
		s.backlog.add(j)
		s.profile(j)
		enter(j)
	}
}

// end removes a job from the cluster. The completion time is NaN if the job was abandoned.
func (s *simulation) end(j *job, at float64) {
	j.gone = true
	s.beliefs.forget(j)
	s.demand -= j.GPUs
	s.record(j, at)
}

// record adds a job of the window to the results.
func (s *simulation) record(j *job, at float64) {
	if !s.Window.has(j.ID) {
		return
	}
	s.inWindow++
	s.ended = append(s.ended, newJobResult(j, at))
}

// sweep removes ended jobs from the active ones.
func (s *simulation) sweep() {
	kept := s.active[:0]
	for _, j := range s.active {
		if !j.gone {
			kept = append(kept, j)
		}
	}
	clear(s.active[len(kept):])
	s.active = kept
}

// charge accounts the use of devices of a type by the jobs of an entry: for some seconds from a point in time, at a
// share of each device. In compat mode each job of a pair pays the full price, as in Gavel; otherwise the jobs share
// it.
func (s *simulation) charge(e *entry, device int, from, seconds, share float64) {
	s.usage.add(device, from, from+seconds, float64(share*float64(e.gpus)))
	seconds *= share
	s.used[device] += float64(seconds * float64(e.gpus))
	usd := s.Devices[device].USDHour * seconds / 3600 * float64(e.gpus)
	joules := s.Devices[device].Watts * seconds * float64(e.gpus)
	s.chargeJob(e.a, e.gpus, seconds, usd, joules, e.b != nil)
	if e.b != nil {
		s.chargeJob(e.b, e.gpus, seconds, usd, joules, true)
	}
}

func (s *simulation) chargeJob(j *job, gpus int, seconds, usd, joules float64, shared bool) {
	j.attained += seconds * float64(gpus)
	if shared {
		joules /= 2
		if !s.Compat {
			usd /= 2
		}
	}
	j.usd += usd
	j.joules += joules
	s.usd += usd
}
