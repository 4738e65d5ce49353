package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// Objective is the criterion of placements.
type Objective uint8

const (
	Finish   Objective = iota // early ends: of the last job, and of large jobs more than of small ones
	Slowdown                  // low mean slowdown; long jobs may remain on slow cores
	Energy                    // low energy
	objectives
)

// CoresConfig describes one simulation.
type CoresConfig struct {
	Tree *platform.Tree
	Jobs []order.Job
	// Order is the name of one of order.Orders; "" means saf.
	Order string
	// Backfill is none, easy or conservative; "" means easy.
	Backfill string
	// Placement is one of Placements; "" means best.
	Placement string
	Objective Objective
	Seed      uint64 // seed of random placement and of sampled run times
	// Rollout selects the order at each decision by rollouts; it requires EASY and ignores Order and Placement.
	Rollout bool
	// Progress is called periodically with the number of ended jobs and their total; nil means no reports.
	Progress func(done, total int)
}

// Validate returns all problems except those of the jobs; for these, Run returns an error on the first invalid one.
func (c *CoresConfig) Validate() error {
	var errs []error
	if c.Tree == nil || c.Tree.Cores < 1 {
		errs = append(errs, errors.New("no machine: want a tree with cores"))
	}
	_, err := order.Parse(c.order())
	errs = append(errs, err)
	if _, ok := backfills[c.backfill()]; !ok {
		errs = append(errs, fmt.Errorf("backfilling %q: want one of %s", c.Backfill, strings.Join(CoreBackfills(), ", ")))
	}
	if _, ok := placements[c.placement()]; !ok {
		errs = append(errs, fmt.Errorf("placement %q: want one of %s", c.Placement, strings.Join(Placements(), ", ")))
	}
	if c.Objective >= objectives {
		errs = append(errs, fmt.Errorf("objective %d: want 0…%d", c.Objective, objectives-1))
	}
	if c.Rollout && c.backfill() != "easy" {
		errs = append(errs, fmt.Errorf("rollouts with %s backfilling: want easy", c.backfill()))
	}
	return errors.Join(errs...)
}

func (c *CoresConfig) order() string     { return cmp.Or(c.Order, "saf") }
func (c *CoresConfig) backfill() string  { return cmp.Or(c.Backfill, "easy") }
func (c *CoresConfig) placement() string { return cmp.Or(c.Placement, "best") }

// CoreBackfills returns the names of the backfilling algorithms, sorted.
func CoreBackfills() []string { return slices.Sorted(maps.Keys(backfills)) }

// Placements returns the names of the placements, sorted.
func Placements() []string { return slices.Sorted(maps.Keys(placements)) }

// Describe returns the description of a placement.
func Describe(placement string) string { return placements[placement].What }

// RunCores simulates the jobs until the last one ends. Jobs that cannot run even on the idle machine are Rejected at
// submission. When ctx is cancelled, Run returns the partial result with the error.
func RunCores(ctx context.Context, c CoresConfig) (*Result, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("simulate a queue on unequal cores: %w", err)
	}
	simulation, err := NewSimulation(c.Tree, c.Jobs)
	if err != nil {
		return nil, fmt.Errorf("simulate a queue on unequal cores: %w", err)
	}
	d := newDriver(&c, simulation)
	if err := d.run(ctx); err != nil {
		return simulation.Result(), fmt.Errorf("simulate a queue on unequal cores: at %v s, %d of %d jobs ended: %w", d.state.Now, d.done, len(c.Jobs), err)
	}
	return simulation.Result(), nil
}

// driver connects a simulation and a policy.
type driver struct {
	config     *CoresConfig
	simulation *Simulation
	state      *state
	policy     policy
	rollouts   *rollouts // nil means no rollouts
	done       int
	woken      float64 // time of the last Wake, s
	failure    error   // first error of a command
}

func (d *driver) failed(err error) {
	if d.failure == nil {
		d.failure = err
	}
}

func newDriver(c *CoresConfig, simulation *Simulation) *driver {
	d := &driver{config: c, simulation: simulation, state: newState(c.Tree, c.Jobs)}
	o := order.Orders[c.order()]
	d.policy = policy{order: &o, placer: placements[c.placement()].New(c.Tree, c.Objective, c.Seed), backfill: backfills[c.backfill()]()}
	if c.Rollout {
		d.rollouts = newRollouts(c)
	}
	return d
}

// run processes the instants of the simulation: events are applied to the state, the policy starts jobs, and changes
// of core states are sent back. Without rollouts, the context is checked every 1024 instants.
func (d *driver) run(ctx context.Context) error {
	for turn := 0; d.simulation.Next(); turn++ {
		if turn%1024 == 0 || d.rollouts != nil { // a rollout takes milliseconds
			if err := ctx.Err(); err != nil {
				return err
			}
			if d.config.Progress != nil {
				d.config.Progress(d.done, len(d.config.Jobs))
			}
		}
		if !d.events() {
			continue
		}
		d.decide(func(job int32, where []int32) {
			d.failed(d.simulation.Start(job, where))
		})
		d.state.Machine.Changes(func(state uint8, which []int32) {
			d.failed(d.simulation.SetState(which, state))
		})
		if d.failure != nil {
			return d.failure
		}
	}
	if d.config.Progress != nil {
		d.config.Progress(d.done, len(d.config.Jobs))
	}
	if err := d.simulation.Err(); err != nil {
		return err
	}
	if n := len(d.state.waiting); n > 0 {
		return fmt.Errorf("%d jobs wait for ever", n)
	}
	return nil
}

// events applies the events of the step to the state: ended jobs release their cores and extend the history,
// submitted jobs enter the queue or, if they can never run, are rejected. It returns false if no decision is
// required.
func (d *driver) events() bool {
	s, news := d.state, false
	s.Now = d.simulation.Now()
	for _, e := range d.simulation.Events() {
		switch e.Kind {
		case Ended, Stopped:
			news = true
			d.done++
			r := &s.running[s.slot[e.Job]]
			if r.advance(s.Now); s.work[e.Job] > 0 {
				s.history = append(s.history, r.done/s.work[e.Job])
			}
			s.finish(e.Job)
			d.policy.ended = true
		case Woken:
			news = true
		case Submitted:
			if MaxCores(d.config.Tree, &d.config.Jobs[e.Job]) < d.config.Jobs[e.Job].Procs {
				d.done++
				d.failed(d.simulation.Reject(e.Job))
				continue
			}
			news = true
			s.enqueue(e.Job, d.policy.order)
		}
	}
	return news
}

// decide runs one pass of the policy and requests the wake-up that the pass returns.
func (d *driver) decide(start func(int32, []int32)) {
	if len(d.state.waiting) == 0 {
		return
	}
	d.state.extendOverdue()
	if d.rollouts != nil {
		d.rollouts.choose(d.state, &d.policy)
	}
	if again := d.policy.pass(d.state, start); !math.IsInf(again, 1) && again != d.woken {
		d.woken = again
		d.failed(d.simulation.Wake(again))
	}
}
