package rounds

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/simulator/workload"
)

// Config is a simulation. Devices, Policy and one of Jobs and Generate are needed; the zero value of anything else is useful.
type Config struct {
	Devices []DeviceType // see Devices; types of which there are none are left out
	// Jobs arrive in this order, with steps (see workload.Complete). They are read only.
	Jobs []workload.Job
	// Generate draws jobs instead, until Window is complete, or Total jobs.
	Generate *workload.Options
	Total    int
	// Filled has the cluster begin full: of the jobs that Generate draws, the first arrive at 0, for each type of device until they
	// ask for as many as there are of it; the others come after that as drawn. Needs Generate with a Lambda above 0.
	Filled bool
	// Window are the IDs over which jobs are reported, and whose end ends the run. The zero value is all jobs.
	Window Window
	// Throughputs say how fast jobs run; nil is workload.GavelTable.
	Throughputs *workload.Throughputs
	// Profiling is what is known of pairs of jobs before they share devices; the zero value is everything.
	Profiling Profiling

	Policy string // see NewPolicy
	// Custom is a policy that is used instead of the one that Policy names; Policy is then its name in the Result.
	Custom Policy
	Seed   int64 // of the policy and of the order of device types; that of jobs is in Generate
	// Compat simulates as the published code of Gavel does, to its last quirk.
	Compat bool
	// GlobalQueue has the mechanism of Compat choose the entries of a round from one queue of all types of devices together, by how
	// much they are owed, instead of type by type: the option of the original of that name. Only with Compat, and without Ideal.
	GlobalQueue bool
	// Ideal has no rounds: every job gets exactly its shares, and completions are noticed at the next arrival.
	Ideal bool

	Interval     float64 // length of a round, seconds; 0 is 360
	MinRecompute float64 // least time between two decisions, seconds; 0 is 1920 in compat mode and else that of the policy, if any (Traits.Settled), below 0 is none
	restless     bool    // MinRecompute was below 0
	// WholeRounds has every round last to its end, with devices idle that become free before; compat mode always does that.
	WholeRounds bool
	Preemption  Preemption

	Limit float64 // simulated seconds after which the run ends; 0 is none
	// Backlog ends a run as not stable when jobs that ask for so many times the devices are in the cluster, and their number
	// has kept growing; 0 is 25, below 0 never. Only runs with Generate and without Total can be unstable.
	Backlog float64
	// PolicyLimit is real time that one decision may take; 0 is ten minutes.
	PolicyLimit time.Duration
	// Clock is monotonic time, to measure what the run takes; nil leaves that unknown.
	Clock func() time.Duration
	// Progress is called now and then from the goroutine of Run; nil is never.
	Progress func(Progress)
}

// Window are the jobs with IDs Start ≤ ID < End.
type Window struct{ Start, End int }

func (w Window) has(id int) bool { return w == Window{} || w.Start <= id && id < w.End }

// Preemption is what a job loses each time it goes on after a pause or on other devices. Gavel's simulation has none.
type Preemption struct {
	Seconds float64 // on its new devices before it goes on
	Steps   float64 // since its last checkpoint, done again
}

// Progress is how far a run is.
type Progress struct {
	Now     float64 // simulated seconds
	Arrived int     // jobs
	Done    int     // jobs of the window
	Window  int     // jobs in the window
	Active  int     // jobs in the cluster
}

const (
	defaultInterval     = 360
	defaultMinRecompute = 1920
	defaultBacklog      = 25
	defaultPolicyLimit  = 10 * time.Minute
)

// withDefaults fills in what is zero, and leaves out device types of which there are none.
func (c Config) withDefaults() Config {
	if c.Interval == 0 {
		c.Interval = defaultInterval
	}
	switch {
	case c.MinRecompute == 0 && (c.Compat || c.Ideal):
		c.MinRecompute = defaultMinRecompute
	case c.MinRecompute < 0:
		c.MinRecompute, c.restless = 0, true
	}
	if c.Limit == 0 {
		c.Limit = math.Inf(1)
	}
	switch {
	case c.Backlog == 0:
		c.Backlog = defaultBacklog
	case c.Backlog < 0:
		c.Backlog = math.Inf(1)
	}
	if c.PolicyLimit == 0 {
		c.PolicyLimit = defaultPolicyLimit
	}
	if c.Throughputs == nil {
		c.Throughputs = workload.GavelTable()
	}
	c.Devices = slices.DeleteFunc(slices.Clone(c.Devices), func(d DeviceType) bool { return d.Count == 0 })
	return c
}

// maxJobs bounds the jobs that are drawn, since all of them are kept: a million that are there at once take 1.1 GiB.
const maxJobs = 5_000_000

// Validate names all that is wrong, in one line.
func (c Config) Validate() error {
	var errs []error
	wrong := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	errs = append(errs, validateDevices(c.Devices)...)
	if (c.Jobs == nil) == (c.Generate == nil) {
		wrong("jobs: want either a list or a generator")
	}
	if c.Generate != nil && c.Total <= 0 && c.Window.End <= 0 {
		wrong("jobs: a generator needs a window or a total")
	}
	if c.Filled && (c.Generate == nil || c.Generate.Lambda == 0) {
		wrong("a cluster that begins full: want jobs that keep coming, from a generator")
	}
	if c.Total < 0 || c.Window.Start < 0 || c.Window.End < c.Window.Start || c.Window.End == c.Window.Start && c.Window.Start > 0 {
		wrong("window %d:%d, total %d: want 0 ≤ start < end and a total from 0", c.Window.Start, c.Window.End, c.Total)
	}
	if max(c.Total, c.Window.End) > maxJobs {
		wrong("window %d:%d, total %d: want at most %d jobs, all of which are kept", c.Window.Start, c.Window.End, c.Total, maxJobs)
	}
	if c.Generate != nil && c.Total > 0 && c.Window.End > c.Total {
		wrong("window %d:%d of %d jobs: it never ends", c.Window.Start, c.Window.End, c.Total)
	}
	for name, v := range map[string]float64{"interval": c.Interval, "limit": c.Limit, "preemption seconds": c.Preemption.Seconds, "preemption steps": c.Preemption.Steps} {
		if !(v >= 0) || math.IsInf(v, 1) {
			wrong("%s %v: want a number from 0", name, v)
		}
	}
	if math.IsNaN(c.MinRecompute) || math.IsNaN(c.Backlog) || c.PolicyLimit < 0 {
		wrong("time between decisions %v, backlog %v, time of a decision %v: want numbers", c.MinRecompute, c.Backlog, c.PolicyLimit)
	}
	if interval := c.Interval; interval == 0 && c.Preemption.Seconds >= defaultInterval || interval > 0 && c.Preemption.Seconds >= interval {
		wrong("preemption costs %v s: want less than a round", c.Preemption.Seconds)
	}
	if c.GlobalQueue && (!c.Compat || c.Ideal) {
		wrong("a global queue: only the mechanism of Compat without Ideal has one")
	}
	if c.Custom == nil {
		if _, err := NewPolicy(c.Policy, PolicyOptions{}); err != nil {
			errs = append(errs, err)
		}
	}
	errs = append(errs, validateJobs(c.Jobs)...)
	errs = append(errs, validateProfiling(c)...)
	if len(c.Jobs) > 0 && expectedJobs(c) == 0 {
		wrong("window %d:%d: no job of the list is in it", c.Window.Start, c.Window.End)
	}
	if c.Jobs != nil && len(c.Devices) > 0 {
		if err := requireRates(c); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	words := make([]string, len(errs))
	for i, err := range errs {
		words[i] = err.Error()
	}
	slices.Sort(words)
	return errors.New(strings.Join(words, "; "))
}

func validateDevices(devices []DeviceType) (errs []error) {
	all := 0
	for i, d := range devices {
		switch {
		case d.Name == "" || d.Count < 0:
			errs = append(errs, fmt.Errorf("device type %q: there are %d, want a name and a number from 0", d.Name, d.Count))
		case i > 0 && devices[i-1].Name >= d.Name:
			errs = append(errs, fmt.Errorf("device type %q comes after %q: want names in order, each once", d.Name, devices[i-1].Name))
		case d.USDHour < 0 || d.Watts < 0 || math.IsInf(d.USDHour, 1) || math.IsInf(d.Watts, 1):
			errs = append(errs, fmt.Errorf("device type %q: %v USD/h and %v W, want numbers from 0", d.Name, d.USDHour, d.Watts))
		}
		all += max(d.Count, 0)
	}
	if all == 0 {
		errs = append(errs, errors.New("the cluster has no device"))
	}
	return errs
}

// validateJobs finds the first job that cannot be simulated.
func validateJobs(jobs []workload.Job) []error {
	if jobs != nil && len(jobs) == 0 {
		return []error{errors.New("the list of jobs is empty")}
	}
	inOrder := true
	for i := range jobs {
		j := &jobs[i]
		switch {
		case !(j.Steps > 0) || math.IsInf(j.Steps, 1):
			return []error{fmt.Errorf("job %d: %v steps, want a number above 0", j.ID, j.Steps)}
		case j.GPUs < 1:
			return []error{fmt.Errorf("job %d: %d devices, want at least 1", j.ID, j.GPUs)}
		case !(j.Arrival >= 0) || math.IsInf(j.Arrival, 1):
			return []error{fmt.Errorf("job %d: arrives at %v s, want a number from 0", j.ID, j.Arrival)}
		case i > 0 && j.Arrival < jobs[i-1].Arrival:
			return []error{fmt.Errorf("job %d arrives at %v s, after job %d, which arrives at %v s: want jobs by arrival",
				j.ID, j.Arrival, jobs[i-1].ID, jobs[i-1].Arrival)}
		}
		inOrder = inOrder && (i == 0 || j.ID > jobs[i-1].ID)
	}
	if inOrder {
		return nil
	}
	seen := make(map[int]bool, len(jobs))
	for i := range jobs {
		if seen[jobs[i].ID] {
			return []error{fmt.Errorf("job %d is there twice", jobs[i].ID)}
		}
		seen[jobs[i].ID] = true
	}
	return nil
}

func requireRates(c Config) error {
	table := c.Throughputs
	if table == nil {
		table = workload.GavelTable()
	}
	var names []string
	for _, d := range c.Devices {
		if d.Count > 0 {
			names = append(names, d.Name)
		}
	}
	return table.Require(c.Jobs, names)
}
