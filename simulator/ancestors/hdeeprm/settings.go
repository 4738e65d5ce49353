package hdeeprm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/simulator/queue"
	"trainopt/simulator/workload/batsim"
)

// Limits are what jobs ask for at most, nearly: what an observation is relative to.
type Limits struct {
	Time      float64 // s
	Cores     float64
	Memory    float64 // MB of each core
	Bandwidth float64 // GB/s of each core
}

// LimitsOf are the 99th percentiles of what jobs ask for, linearly interpolated, as HDeepRM takes them; 1 where that is 0.
func LimitsOf(jobs []queue.Job) Limits {
	values := make([]float64, len(jobs))
	of := func(key func(*queue.Job) float64) float64 {
		for i := range jobs {
			values[i] = key(&jobs[i])
		}
		slices.Sort(values)
		if v := batsim.Percentile(values, 99); v > 0 {
			return v
		}
		return 1
	}
	return Limits{of(keys[Shortest]), of(keys[Smallest]), of(keys[LowMem]), of(keys[LowMemBW])}
}

// View is how much of the machine an agent sees; all see the queue.
type View uint8

const (
	Normal  View = iota // memory of each node, bandwidth of each processor; speed, power and what is left of the job of each core
	Small               // without the cores
	Minimal             // the queue only
	views
)

var viewNames = [views]string{"normal", "small", "minimal"}

// String is the name in options files.
func (v View) String() string { return viewNames[v] }

// ParseView is the view of a name, normal for "". The error names those that there are.
func ParseView(name string) (View, error) {
	if name == "" {
		return Normal, nil
	}
	if i := slices.Index(viewNames[:], name); i >= 0 {
		return View(i), nil
	}
	return 0, fmt.Errorf("no observation is called %q: there are %s", name, strings.Join(viewNames[:], ", "))
}

// Settings say what an agent sees, may do and is rewarded for. The zero value offers the whole table without void, shows everything,
// rewards short jobs, and corrects HDeepRM's mistakes.
type Settings struct {
	Actions   []Pair    // in the order of their numbers; empty is Table
	Void      bool      // another action, the last, does nothing
	Objective Objective // what rewards are of
	View      View
	// QueueSensitivity is the relative change of the queue's length that is seen as the largest; small values saturate soon. 0 is 0.05.
	QueueSensitivity float64
	// Seed is of the random policies' numbers, those of CPython's random.seed.
	Seed int64
	// Compat does as HDeepRM does where that is a mistake:
	//
	//   - the last action of the list counts as void, also where none is: chosen when nothing arrives any more and jobs wait, the
	//     agent is asked again at once, without end; here that ends in an error. Corrected, only void itself is void, and the agent
	//     is asked again at once only when nothing runs, since else the next end asks it.
	//   - a core that idles beside a busy one is seen, and counts for rewards, with 15 % of its power; corrected, with the 25 %
	//     that it is simulated with.
	//   - what is left of a job is seen as operations less the speed of its first core in GFLOPS times the time, which stays near 1;
	//     corrected, as 1 − done/requested operations, in 0…1.
	//   - a job that can never run waits at the head of the queue for ever, which ends in an error; corrected, it is rejected when it
	//     is submitted.
	//   - the power of each core and state is rounded to 1 mW, as in the platform files that HDeepRM writes for Batsim.
	//
	// That high_cores prefers busy processors is the same in both: high_free_cores is the other one.
	Compat bool
}

// Validate joins all that is wrong.
func (s *Settings) Validate() error {
	var problems []error
	for i, p := range s.Actions {
		if p.Job >= jobPolicies || p.Core >= corePolicies {
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
