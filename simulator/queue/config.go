package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// Config is one simulation on a machine of equal processors.
type Config struct {
	Procs int // of the machine
	Jobs  []Job
	// Order is one of Orders; "" is fcfs. Custom, where its Score is set, is used instead.
	Order  string
	Custom Order
	// Backfill is one of Backfills; "" is none.
	Backfill string
	// AsPublished has an order as RLScheduler coded it and, with Backfill none and rlscheduler, its loop: a job that was chosen is
	// waited for whatever comes.
	AsPublished bool
	// Progress is told now and then how many jobs have ended; nil: nobody is.
	Progress func(done, total int)
}

// loop runs a machine to the end of its jobs.
type loop func(context.Context, *machine) error

var backfills = map[string]loop{
	"none":         func(ctx context.Context, m *machine) error { return m.run(ctx, headOnly{}) },
	"easy":         func(ctx context.Context, m *machine) error { return m.run(ctx, newEasy(m)) },
	"conservative": func(ctx context.Context, m *machine) error { return m.run(ctx, newConservative(m)) },
	"rlscheduler":  func(ctx context.Context, m *machine) error { return runPatient(ctx, m, true) },
}

// Backfills are the names of what may overtake the first of the queue:
//
//   - none: nothing.
//   - easy: what by its estimate delays the first at no time that it could start by the estimates of those that run, be it for it
//     ends before or for it needs none of the processors that the first will (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).
//   - conservative: what delays no job that waits; each has a reservation (Mu'alem and Feitelson 2001).
//   - rlscheduler: as RLScheduler does it (package rlscheduler).
//
// Estimates are requested times, and limits where they are shorter.
func Backfills() []string { return slices.Sorted(maps.Keys(backfills)) }

// most is how many problems of jobs Validate names.
const most = 10

// Validate names all that is wrong; of what is wrong with the jobs the first ten.
func (c *Config) Validate() error {
	var errs []error
	if c.Procs < 1 || c.Procs > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("a machine of %d processors: want 1 or more", c.Procs))
	}
	if _, ok := Orders[c.Order]; !ok && c.Order != "" && c.Custom.Score == nil {
		errs = append(errs, fmt.Errorf("order %q: want one of %s", c.Order, strings.Join(OrderNames(), ", ")))
	}
	if _, ok := backfills[c.Backfill]; !ok && c.Backfill != "" {
		errs = append(errs, fmt.Errorf("backfilling %q: want one of %s", c.Backfill, strings.Join(Backfills(), ", ")))
	}
	wrong := 0
	for i := range c.Jobs {
		err := c.Jobs[i].validate()
		if err == nil {
			continue
		}
		if wrong++; wrong <= most {
			errs = append(errs, fmt.Errorf("job %s (number %d of the workload): %w", c.Jobs[i].Label(), i+1, err))
		}
	}
	if wrong > most {
		errs = append(errs, fmt.Errorf("and %d jobs more", wrong-most))
	}
	return errors.Join(errs...)
}

// latest is beyond every simulation; sums of times below it keep microseconds.
const latest = 1e12

func (j *Job) validate() error {
	if j.Procs >= 1 && j.Submit >= 0 && j.Submit <= latest && j.Run >= 0 && j.Run <= latest && j.Request >= 0 && j.Request <= latest &&
		j.Limit >= 0 && j.Limit <= latest {
		return nil
	}
	var errs []error
	if j.Procs < 1 {
		errs = append(errs, fmt.Errorf("%d processors, want 1 or more", j.Procs))
	}
	for _, t := range []struct {
		what string
		s    float64
	}{{"submission at", j.Submit}, {"run time", j.Run}, {"requested time", j.Request}, {"limit", j.Limit}} {
		if !(t.s >= 0 && t.s <= latest) {
			errs = append(errs, fmt.Errorf("%s %v s, want 0 to %g", t.what, t.s, latest))
		}
	}
	return errors.Join(errs...)
}

// order that the configuration asks for; it must be valid.
func (c *Config) order() Order {
	o := c.Custom
	if o.Score == nil {
		name := c.Order
		if name == "" {
			name = "fcfs"
		}
		o = Orders[name]
	}
	if published := o.AsPublished; c.AsPublished && published != nil {
		o.Score = func(j *Job, _ float64) float64 { return published(j) }
		o.Aging = false
	}
	return o
}
