// Package unequal schedules batch jobs on cores of unequal speed whose processors share bandwidth to memory and whose nodes share
// memory (the model of queue/cores): any order of package queue, EASY or conservative backfilling, and placements that know what a
// slow core, a short bandwidth or an awake processor costs. It descends from HDeepRM (queue/hdeeprm), which does not backfill.
//
//	tree, err := platform.Example("gaia")
//	…
//	result, err := unequal.Run(ctx, unequal.Config{Tree: tree, Jobs: jobs, Order: "saf", Backfill: "easy", Placement: "best"})
//
// A scheduler here sees what users ask for (operations, or time at the reference speed of the machine), never how long a job really
// runs, and of the jobs that ended which share of it they used. It is no agent: nothing is kept from one run to the next.
//
// # What backfilling guarantees
//
// Estimates are the work that is asked for, by the speed of the cores that a job gets. With estimates that are exact, or too long,
// EASY never delays the first of the queue beyond the time that was reserved when it became first: of what overtakes it, cores and
// memory count, and so does the time by which it slows those that run on the same processors. What is not guaranteed is how fast
// the first then runs. A job that outlasts its estimate is thought to need a tenth of it more.
package unequal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

type Objective uint8

const (
	Finish   Objective = iota // early ends: of the last, and of large jobs more than of small ones
	Slowdown                  // low mean slowdown; long jobs may be left on slow cores for it
	Energy                    // few joules
)

var objectives = [...]string{"finish", "slowdown", "energy"}

// Objectives are the names of the objectives.
func Objectives() []string { return objectives[:] }

// String is the name.
func (o Objective) String() string {
	if int(o) >= len(objectives) {
		return fmt.Sprintf("objective %d", o)
	}
	return objectives[o]
}

// ParseObjective is the objective of a name. The error names those that there are.
func ParseObjective(name string) (Objective, error) {
	if i := slices.Index(objectives[:], name); i >= 0 {
		return Objective(i), nil
	}
	return 0, fmt.Errorf("objective %q: want one of %s", name, strings.Join(objectives[:], ", "))
}

// Config is one simulation.
type Config struct {
	Tree *platform.Tree
	Jobs []queue.Job
	// Order is one of order.Orders; "" is saf. Custom, where its Score is set, is used instead.
	Order  string
	Custom order.Order
	// Backfill is none, easy or conservative; "" is easy.
	Backfill string
	// Placement is one of Placements; "" is best.
	Placement string
	Objective Objective
	Seed      uint64 // of what is drawn: random placement, guesses
	// Depth is how many waiting jobs a pass looks at behind the first. 0 is all, and with EASY 64 where a placement weighs several
	// pools, each of which takes time; negative is all.
	Depth int
	// Rollout, where it is not nil, chooses order and placement anew at each decision by trying them out; with EASY only.
	Rollout *Rollout
	// Progress is told now and then how many jobs have ended; nil: nobody is.
	Progress func(done, total int)
}

// Validate names all that is wrong but with the jobs, of which Run says what is wrong with the first that makes no sense.
func (c *Config) Validate() error {
	var errs []error
	if c.Tree == nil || c.Tree.Cores < 1 {
		errs = append(errs, errors.New("no machine: want a tree with cores"))
	}
	if _, ok := order.Orders[c.order()]; !ok && c.Custom.Score == nil {
		errs = append(errs, fmt.Errorf("order %q: want one of %s", c.Order, strings.Join(order.OrderNames(), ", ")))
	}
	if _, ok := backfills[c.backfill()]; !ok {
		errs = append(errs, fmt.Errorf("backfilling %q: want one of %s", c.Backfill, strings.Join(Backfills(), ", ")))
	}
	if _, ok := placements[c.placement()]; !ok {
		errs = append(errs, fmt.Errorf("placement %q: want one of %s", c.Placement, strings.Join(Placements(), ", ")))
	}
	if int(c.Objective) >= len(objectives) {
		errs = append(errs, fmt.Errorf("objective %d: want 0…%d", c.Objective, len(objectives)-1))
	}
	if c.Rollout != nil {
		errs = append(errs, c.Rollout.Validate())
		if c.backfill() != "easy" {
			errs = append(errs, fmt.Errorf("rollouts with %s backfilling: want easy", c.backfill()))
		}
	}
	return errors.Join(errs...)
}

func or(name, otherwise string) string {
	if name == "" {
		return otherwise
	}
	return name
}

func (c *Config) order() string     { return or(c.Order, "saf") }
func (c *Config) backfill() string  { return or(c.Backfill, "easy") }
func (c *Config) placement() string { return or(c.Placement, "best") }

// Backfills are the names of what may overtake the first of the queue.
func Backfills() []string { return slices.Sorted(maps.Keys(backfills)) }

// Placements are the names of the placements.
func Placements() []string { return slices.Sorted(maps.Keys(placements)) }

// Describe says what a placement does.
func Describe(placement string) string { return placements[placement].What }

// Run simulates the jobs to the end of the last. Jobs that cannot run even on an idle machine are Rejected at submission. When ctx
// ends, the result so far comes with its error.
func Run(ctx context.Context, c Config) (*queue.Result, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("simulate a queue on unequal cores: %w", err)
	}
	simulation, err := cores.NewSimulation(c.Tree, c.Jobs)
	if err != nil {
		return nil, fmt.Errorf("simulate a queue on unequal cores: %w", err)
	}
	d := newDriver(&c, simulation)
	if err := d.run(ctx); err != nil {
		return simulation.Result(), fmt.Errorf("simulate a queue on unequal cores: at %v s, %d of %d jobs ended: %w", d.state.Now, d.done, len(c.Jobs), err)
	}
	return simulation.Result(), nil
}

// driver joins a simulation and what decides.
type driver struct {
	config     *Config
	simulation *cores.Simulation
	state      *State
	policy     policy
	rollouts   *rollouts // nil: none
	done       int
	woken      float64 // the last time for which it asked to be woken
	failure    error   // the first command that was refused
}

func (d *driver) failed(err error) {
	if d.failure == nil {
		d.failure = err
	}
}

func newDriver(c *Config, simulation *cores.Simulation) *driver {
	d := &driver{config: c, simulation: simulation, state: newState(c.Tree, c.Jobs)}
	o := c.Custom
	if o.Score == nil {
		o = order.Orders[c.order()]
	}
	d.policy = policy{order: &o, placer: placements[c.placement()].New(c.Tree, c.Objective, c.Seed), backfill: backfills[c.backfill()](), depth: c.Depth}
	if c.Rollout != nil {
		d.rollouts = newRollouts(c)
	}
	return d
}

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

// events takes in what happened; false when nothing is to be decided.
func (d *driver) events() bool {
	s, news := d.state, false
	s.Now = d.simulation.Now()
	for _, e := range d.simulation.Events() {
		switch e.Kind {
		case cores.Ended, cores.Stopped:
			news = true
			d.done++
			r := &s.running[s.slot[e.Job]]
			if r.advance(s.Now); s.work[e.Job] > 0 {
				s.history.add(r.done / s.work[e.Job])
			}
			s.finish(e.Job)
			d.policy.ended = true
		case cores.Woken:
			news = true
		case cores.Submitted:
			if cores.Most(d.config.Tree, &d.config.Jobs[e.Job]) < d.config.Jobs[e.Job].Procs {
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

func (d *driver) decide(start func(int32, []int32)) {
	if len(d.state.waiting) == 0 {
		return
	}
	d.state.outlasted()
	if d.rollouts != nil {
		d.rollouts.choose(d.state, &d.policy)
	}
	if again := d.policy.pass(d.state, start); !math.IsInf(again, 1) && again != d.woken {
		d.woken = again
		d.failed(d.simulation.Wake(again))
	}
}
