// Package cluster simulates clusters that are time-shared in rounds, as in Gavel (Narayanan et al.,
// "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads", OSDI 2020).
//
// A policy (package share) computes the fraction of time that each job spends on each device type. A mechanism turns
// shares into rounds of a few minutes, in which a device runs one job, or two jobs that are co-located on it: the
// engine of package schedule, the mechanism of Gavel, or none. The package has the clock, the arrivals, the throughputs
// and the money. It reads neither files nor a clock: the same Config yields the same Result.
//
//	result, err := cluster.Run(ctx, cluster.Config{
//		Devices:    cluster.Devices(cluster),
//		Generate:   &workload.Options{Lambda: workload.PerHour(4)},
//		Window:     cluster.Window{Start: 4000, End: 5000},
//		Policy:     "fifo_perf",
//		Compat:     true,
//	})
package cluster

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"runtime/debug"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/workload"
)

// Run simulates until every job of the window, or of the list, has ended. It returns a partial Result together with
// the error when the run was interrupted (ctx), reached its limit (errLimit) or is not stable (errNotStable), or when
// the policy failed (*policyError).
func Run(ctx context.Context, c Config) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("simulate rounds: %w", err)
	}
	s, err := newSimulation(ctx, c.withDefaults())
	if err != nil {
		return nil, fmt.Errorf("simulate rounds: %w", err)
	}
	go s.runApart()
	err = <-s.done
	if crash, ok := err.(*crash); ok {
		panic(crash)
	}
	if err != nil {
		err = fmt.Errorf("simulate rounds: %w", err)
	}
	if s.settleAll != nil {
		s.settleAll()
	}
	return s.result(err), err
}

// crash is a panic of a run, with its stack.
type crash struct {
	reason any
	stack  []byte
}

func (c *crash) Error() string { return fmt.Sprintf("%v\n%s", c.reason, c.stack) }

// runApart runs the simulation in a goroutine of its own, because a call of the policy may never return.
func (s *simulation) runApart() {
	defer func() {
		if r := recover(); r != nil {
			s.done <- &crash{r, debug.Stack()}
		}
	}()
	s.done <- s.run(newMechanism(s))
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
		return &ideal{simulation: s, decideNow: true}
	case s.Compat:
		return newGavel(s)
	}
	return newRoundDriver(s)
}

// simulation is the state shared by all mechanisms.
type simulation struct {
	Config
	ctx       context.Context
	policy    schedule.Policy
	options   share.Options // of the policies
	traits    schedule.Traits
	rates     *rates
	estimates *pairEstimates // of rates of pairs; nil: actual rates are known
	source    *source
	now       float64
	active    []*job // in order of arrival; ended jobs are removed by removeEnded
	gone      int    // number of ended jobs in active
	settleAll func() // accounts the work of the running jobs at the end of the run; nil: nothing to account
	arrived   int
	demand    int // devices requested by active jobs
	devices   int
	used      []float64 // device-seconds by type
	usage     usage

	ended    []jobResult // jobs of the window
	inWindow int         // jobs of the window that have ended
	expected int         // jobs of the window
	usd      float64

	snapshot  schedule.Snapshot
	decisions int
	events    int
	lease     schedule.Leases
	paused    pauses
	backlog   backlog
	warnings  warnings

	began, deciding time.Duration
	done            chan error // the end of the run; buffered, so that no sender waits
}

// pauses counts how often jobs continued after a pause or on other devices, and the time lost.
type pauses struct {
	count   int
	seconds float64 // device-seconds
}

// pythonRandom draws the numbers of Gavel.
type pythonRandom struct{ *workload.Python }

// IntN implements share.Random.
func (p pythonRandom) IntN(n int) int { return p.Below(n) }

// newSimulation creates the policy, the source of jobs and the shared state. c must be valid and have its defaults
// set.
func newSimulation(ctx context.Context, c Config) (*simulation, error) {
	options := share.Options{Random: pythonRandom{workload.NewPython(c.Seed)}, Compat: c.Compat}
	policy, name := c.Custom, c.Policy
	if c.Choose != nil {
		name = Choices[0]
	}
	if policy == nil {
		var err error
		if policy, err = share.New(name, options); err != nil {
			return nil, err
		}
	}
	src, err := newSource(c)
	if err != nil {
		return nil, err
	}
	s := &simulation{
		Config: c, ctx: ctx, policy: policy, options: options, traits: policy.Traits(), source: src,
		rates: newRates(c.Throughputs, c.Devices), used: make([]float64, len(c.Devices)), usage: usage{1, make([][]float64, len(c.Devices))}, expected: expectedJobs(c), done: make(chan error, 1),
	}
	s.traits.Name = cmp.Or(s.traits.Name, c.Policy)
	for _, d := range c.Devices {
		s.devices += d.Count
	}
	if s.estimates, err = newPairEstimates(c, s.traits); err != nil {
		return nil, err
	}
	s.snapshot.Devices = c.Devices
	// Policies receive rates of pairs only if they pack.
	if s.traits.Packs {
		s.snapshot.Pair = s.pairRate
	}
	s.backlog.init(s)
	s.began = s.clock()
	return s, nil
}

// clock returns the real time; 0 without Config.Clock.
func (s *simulation) clock() time.Duration {
	if s.Clock == nil {
		return 0
	}
	return s.Clock()
}

// expectedJobs returns the number of jobs in the window.
func expectedJobs(c Config) int {
	if c.Jobs == nil {
		if c.Window != (Window{}) {
			return c.Window.End - c.Window.Start
		}
		return c.Total
	}
	return stat.Count(c.Jobs, func(j workload.Job) bool { return c.Window.has(j.ID) })
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
				s.Progress(Progress{Done: s.inWindow, Window: s.expected})
			}
		}
		if err := m.step(); err != nil {
			return err
		}
		if s.now > s.Limit {
			return fmt.Errorf("%w of %.0f s: %d of %d jobs have ended, %d are in the cluster", errLimit, s.Limit, s.inWindow, s.expected, s.present())
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
		drawn := s.source.take()
		j := &job{Job: drawn, number: s.arrived, steps: drawn.Steps, chosen: -1}
		if s.Compat && s.Generate != nil && j.SLO > 0 {
			j.Deadline = s.now + float64(j.SLO*j.Seconds) // Gavel's time starts when the job enters the queue, after the round
		}
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
	s.gone++
	s.estimates.forget(j)
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

// removeEnded removes ended jobs from the active ones.
func (s *simulation) removeEnded() {
	kept := s.active[:0]
	for _, j := range s.active {
		if !j.gone {
			kept = append(kept, j)
		}
	}
	clear(s.active[len(kept):])
	s.active, s.gone = kept, 0
}

// present returns the number of active jobs.
func (s *simulation) present() int { return len(s.active) - s.gone }

// charge accounts the use of devices of a type by a job, or by a pair (b is not nil): for some seconds from a point in
// time, at a share of each device. In compat mode each job of a pair pays the full price, as in Gavel; otherwise the
// jobs share it.
func (s *simulation) charge(a, b *job, gpus, device int, from, seconds, share float64) {
	s.usage.add(device, from, from+seconds, float64(share*float64(gpus)))
	seconds *= share
	s.used[device] += float64(seconds * float64(gpus))
	usd := s.Devices[device].USDHour * seconds / 3600 * float64(gpus)
	joules := s.Devices[device].Watts * seconds * float64(gpus)
	s.chargeJob(a, gpus, seconds, usd, joules, b != nil)
	if b != nil {
		s.chargeJob(b, gpus, seconds, usd, joules, true)
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
