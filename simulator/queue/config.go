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

// Config describes one simulation of a machine of equal processors.
type Config struct {
	Procs int // processors of the machine
	Jobs  []Job
	// Order is the name of one of Orders; "" means fcfs. Custom replaces it where Custom.Score is not nil.
	Order  string
	Custom Order
	// Backfill is one of Backfills; "" means none.
	Backfill string
	// AsPublished scores jobs by the formula in RLScheduler's code where it differs from the published one. With
	// Backfill none or rlscheduler, it also uses RLScheduler's event loop, in which the selected job blocks the queue
	// until it starts.
	AsPublished bool
	// Progress is called periodically with the number of finished jobs and their total; nil means no reports.
	Progress func(done, total int)
}

// loop simulates a machine until all jobs have ended.
type loop func(context.Context, *machine) error

var backfills = map[string]loop{
	"none":         func(ctx context.Context, m *machine) error { return m.run(ctx, headOnly{}) },
	"easy":         func(ctx context.Context, m *machine) error { return m.run(ctx, newEasy(m)) },
	"conservative": func(ctx context.Context, m *machine) error { return m.run(ctx, newConservative(m)) },
	"rlscheduler":  func(ctx context.Context, m *machine) error { return runPatient(ctx, m, true) },
}

// Backfills returns the names of the backfilling algorithms, sorted:
//
//   - none: no job overtakes the head of the queue.
//   - easy: a job may overtake if, by the estimates, it does not delay the reservation of the head of the queue,
//     either because it ends before that reservation or because it uses only processors that the head does not need
//     (Lifka, JSSPP 1995; Mu'alem and Feitelson, TPDS 2001).
//   - conservative: every waiting job has a reservation, and a job may overtake if it delays none of them (Mu'alem
//     and Feitelson 2001).
//   - rlscheduler: the backfilling of RLScheduler (package rlscheduler).
//
// Estimates are the requested times, cut at the limit of the job.
func Backfills() []string { return slices.Sorted(maps.Keys(backfills)) }

// most is the maximum number of invalid jobs that Validate reports individually.
const most = 10

// Validate returns all problems of the configuration joined; of invalid jobs, it lists the first ten and counts the
// others.
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

// latest is an upper bound on all input times, s; sums of times below it keep a resolution of microseconds.
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

// order returns the configured order. The configuration must be valid.
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
