package queue

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
)

// Config is one simulation on a machine of identical processors.
type Config struct {
	Procs int // of the machine
	Jobs  []order.Job
	// Order is one of order.Orders; "" is fcfs.
	Order string
	// Backfill is one of Backfills; "" is none.
	Backfill string
	// AsPublished uses an order as RLScheduler coded it.
	AsPublished bool
	// Progress is called now and then with the number of jobs that have ended; may be nil.
	Progress func(done, total int)
}

// rlschedulerBackfill is the backfilling of RLScheduler's simulator (package rlscheduler).
const rlschedulerBackfill = "rlscheduler"

// Backfills returns the names of the backfilling methods, sorted: those of order.Backfills and rlscheduler.
func Backfills() []string {
	names := append(order.Backfills(), rlschedulerBackfill)
	slices.Sort(names)
	return names
}

// maxJobProblems is the number of jobs whose problems Validate lists.
const maxJobProblems = 10

// Validate reports all problems; of those with the jobs, the first ten.
func (c *Config) Validate() error {
	var errs []error
	if c.Procs < 1 || c.Procs > math.MaxInt32 {
		errs = append(errs, fmt.Errorf("a machine of %d processors: want 1 or more", c.Procs))
	}
	_, err := order.Parse(c.orderName())
	errs = append(errs, err)
	if c.Backfill != "" && !slices.Contains(Backfills(), c.Backfill) {
		errs = append(errs, fmt.Errorf("backfilling %q: want one of %s", c.Backfill, strings.Join(Backfills(), ", ")))
	}
	wrong := 0
	for i := range c.Jobs {
		err := c.Jobs[i].Validate()
		if err == nil {
			continue
		}
		if wrong++; wrong <= maxJobProblems {
			errs = append(errs, fmt.Errorf("job %s (number %d of the workload): %w", c.Jobs[i].Label(), i+1, err))
		}
	}
	if wrong > maxJobProblems {
		errs = append(errs, fmt.Errorf("and %d jobs more", wrong-maxJobProblems))
	}
	return errors.Join(errs...)
}

func (c *Config) orderName() string { return cmp.Or(c.Order, "fcfs") }

// order returns the configured order; the configuration must be valid.
func (c *Config) order() order.Order {
	o := order.Orders[c.orderName()]
	if c.AsPublished {
		return o.Published()
	}
	return o
}
