package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
	"trainopt/simulator/platform"
	"trainopt/simulator/workload"
)

// Devices returns the device types of a cluster, sorted by name.
func Devices(c platform.Cluster) []schedule.DeviceType {
	out := make([]schedule.DeviceType, len(c))
	for i, a := range c {
		out[i] = a.DeviceType
	}
	return out
}

// Config is the input of a simulation. Devices, Policy and one of Jobs and Generate are required; all other zero
// values are useful.
type Config struct {
	Devices []schedule.DeviceType // see Devices; types with a count of 0 are ignored
	// Jobs in order of arrival, with steps (see workload.Complete). They are not modified.
	Jobs []workload.Job
	// Generate draws jobs instead of Jobs, until Window is complete or Total jobs have been drawn.
	Generate *workload.Options
	Total    int
	// Filled starts with a full cluster: of the jobs drawn by Generate, the first arrive at time 0, until for each
	// device type in turn they request at least as many devices as exist. The remaining jobs follow with the
	// interarrival times drawn. Requires Generate with a Lambda above 0.
	Filled bool
	// Window is the range of IDs of the jobs that are reported; the run ends when all of them have ended. Zero: all
	// jobs.
	Window Window
	// Throughputs are the throughputs of the jobs; nil: workload.GavelTable.
	Throughputs *workload.Throughputs
	// Profiling determines which rates of pairs are known before they are co-located; zero: all.
	Profiling Profiling

	Policy string // see share.New
	// Custom replaces the policy named by Policy, which is then only its name in the Result.
	Custom schedule.Policy
	// Choose returns the index in Choices of the policy that decides from now on. It is called at the first arrival and
	// each time that jobs as many as half of the devices have arrived or completed; an index below 0 ends the run.
	// Policy is then only the name in the Result. Requires neither Compat nor Ideal; nil: Policy decides throughout.
	Choose func(*DecisionPoint) int
	Seed   int64 // of the policy and of the order of device types; the seed of the jobs is in Generate
	// Compat reproduces the published code of Gavel, including its defects.
	Compat bool
	// GlobalQueue makes the mechanism of Compat choose the entries of a round from one queue of all device types, by
	// time owed, instead of one queue per type: the option of the same name in the original. Requires Compat without
	// Ideal.
	GlobalQueue bool
	// Ideal simulates without rounds: every job receives exactly its shares, and completions take effect at the next
	// arrival.
	Ideal bool

	Interval     float64 // length of a round in seconds; 0: 360
	MinRecompute float64 // minimum seconds between decisions; 0: 1920 with Compat or Ideal, else Traits.MinReplanInterval; negative: none
	// WholeRounds makes every round last its full length, with devices that become free earlier idle until then;
	// compat mode always does so.
	WholeRounds bool
	Preemption  schedule.Preemption

	Limit float64 // simulated seconds after which the run is stopped; 0: none
	// Backlog stops a run as not stable when the active jobs request this multiple of the devices in the cluster and
	// the demand keeps growing; 0: 25, negative: never. Only runs with Generate and without Total can be unstable.
	Backlog float64
	// PolicyLimit is the limit on the real time of one decision; 0: ten minutes.
	PolicyLimit time.Duration
	// Clock is a monotonic clock for measuring the run; nil: real times are unknown.
	Clock func() time.Duration
	// Progress is called periodically from the goroutine of Run; nil: never.
	Progress func(Progress)
}

// Window is the set of jobs with IDs Start ≤ ID < End.
type Window struct{ Start, End int }

func (w Window) has(id int) bool { return w == Window{} || w.Start <= id && id < w.End }

// Progress is the progress of a run.
type Progress struct {
	Done, Window int // jobs of the window that ended, and all of them
}

const (
	defaultInterval     = 360
	defaultMinRecompute = 1920
	defaultBacklog      = 25
	defaultPolicyLimit  = 10 * time.Minute
)

// withDefaults replaces zero values by defaults and removes device types with a count of 0.
func (c Config) withDefaults() Config {
	c.Interval = cmp.Or(c.Interval, defaultInterval)
	if c.MinRecompute == 0 && (c.Compat || c.Ideal) {
		c.MinRecompute = defaultMinRecompute
	}
	c.Limit = cmp.Or(c.Limit, math.Inf(1))
	switch {
	case c.Backlog == 0:
		c.Backlog = defaultBacklog
	case c.Backlog < 0:
		c.Backlog = math.Inf(1)
	}
	c.PolicyLimit = cmp.Or(c.PolicyLimit, defaultPolicyLimit)
	c.Throughputs = cmp.Or(c.Throughputs, workload.GavelTable())
	c.Devices = slices.DeleteFunc(slices.Clone(c.Devices), func(d schedule.DeviceType) bool { return d.Count == 0 })
	return c
}

// maxJobs limits the number of drawn jobs, all of which are retained: a million active jobs take 1.1 GiB.
const maxJobs = 5_000_000

// Validate returns all problems of the configuration in one line, or nil.
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
	if c.Choose != nil && (c.Compat || c.Ideal || c.Custom != nil) {
		wrong("a choice among policies: only the default mechanism has one")
	}
	if c.Custom == nil && c.Choose == nil {
		if _, err := share.New(c.Policy, share.Options{}); err != nil {
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
	// Sorted, since the order of a map range above varies.
	words := make([]string, len(errs))
	for i, err := range errs {
		words[i] = err.Error()
	}
	slices.Sort(words)
	return errors.New(strings.Join(words, "; "))
}

// validateDevices returns the problems of the device types.
func validateDevices(devices []schedule.DeviceType) (errs []error) {
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

// validateJobs returns the first problem of the jobs.
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

// requireRates checks that the throughput table contains the jobs on the device types of the cluster.
func requireRates(c Config) error {
	var names []string
	for _, d := range c.Devices {
		if d.Count > 0 {
			names = append(names, d.Name)
		}
	}
	return cmp.Or(c.Throughputs, workload.GavelTable()).Require(c.Jobs, names)
}
