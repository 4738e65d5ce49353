package hdeeprm

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
)

// Limits are approximate maxima of the requests of jobs, by which observations are normalised.
type Limits struct {
	Time      float64 // s
	Cores     float64
	Memory    float64 // MB per core
	Bandwidth float64 // GB/s per core
}

// LimitsOf returns the 99th percentiles of the requests, linearly interpolated as in HDeepRM; 1 for a percentile of
// 0.
func LimitsOf(jobs []order.Job) Limits {
	values := make([]float64, len(jobs))
	of := func(key func(*order.Job) float64) float64 {
		for i := range jobs {
			values[i] = key(&jobs[i])
		}
		slices.Sort(values)
		if v := percentile(values, 99); v > 0 {
			return v
		}
		return 1
	}
	return Limits{of(keys[shortestJob]), of(keys[smallestJob]), of(keys[lowMemJob]), of(keys[lowMemBWJob])}
}

// View is the part of the machine in an observation; all views include the queue.
type View uint8

const (
	Normal  View = iota // memory by node, bandwidth by processor; speed, power and remaining work by core
	Small               // without the cores
	Minimal             // only the queue
	views
)

var viewNames = [views]string{"normal", "small", "minimal"}

// String returns the name in options files.
func (v View) String() string { return viewNames[v] }

// parseView returns the view with the given name, Normal for "". The error lists the valid names.
func parseView(name string) (View, error) {
	if name == "" {
		return Normal, nil
	}
	i, err := parse("observation", name, viewNames[:])
	return View(i), err
}

// Settings hold the observation, actions and reward of an agent. The zero value offers the whole table without void,
// the full observation and the reward Slowdown, and corrects HDeepRM's errors.
type Settings struct {
	Actions   []Pair    // numbered by their index; empty means Table
	Void      bool      // adds a last action without effect
	Objective Objective // objective of the rewards
	View      View
	// QueueSensitivity is the relative change of the queue's length at which its observation saturates; 0 means 0.05.
	QueueSensitivity float64
	// Seed is the seed of the random policies, as of CPython's random.seed.
	Seed int64
	// Compat reproduces errors of HDeepRM:
	//
	//   - The last action of the list counts as void, even if void is disabled: if it is chosen when no further job
	//     will be submitted and jobs wait, another decision is due immediately, without end; here this ends with an
	//     error. Corrected, only void itself is void, and another decision is due only if nothing runs, since
	//     otherwise the next end triggers it.
	//   - An idle core beside a busy one is observed, and counts in rewards, with 15 % of its power; corrected, with
	//     the 25 % of the simulation.
	//   - The remaining work of a job is observed as operations less the speed of its first core in GFLOPS times
	//     elapsed time, which remains near 1; corrected, as 1 − done/requested operations, in [0, 1].
	//   - A job that can never run waits at the head of the queue forever, which ends with an error; corrected, it is
	//     rejected at submission.
	//   - The power of each core and state is rounded to 1 mW, as in the platform files that HDeepRM writes for
	//     Batsim.
	//
	// In both modes, high_cores prefers busy processors; high_free_cores is the alternative.
	Compat bool
}

// Validate returns all problems joined.
func (s *Settings) Validate() error {
	var problems []error
	for i, p := range s.Actions {
		if p.job >= jobPolicies || p.core >= corePolicies {
			problems = append(problems, fmt.Errorf("action %d is no pair of policies", i))
		}
	}
	if s.Objective >= objectives {
		problems = append(problems, fmt.Errorf("objective %d: there are 0…%d", s.Objective, objectives-1))
	}
	if s.View >= views {
		problems = append(problems, fmt.Errorf("view %d: there are 0…%d", s.View, views-1))
	}
	if !(s.QueueSensitivity >= 0) || math.IsInf(s.QueueSensitivity, 1) {
		problems = append(problems, fmt.Errorf("queue sensitivity %v: want a number above 0, or 0 for %v", s.QueueSensitivity, defaultSensitivity))
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("settings of the decisions: %w", err)
	}
	return nil
}

const defaultSensitivity = 0.05
