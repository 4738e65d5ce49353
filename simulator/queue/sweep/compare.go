package sweep

import (
	"context"
	"fmt"

	"trainopt/simulator/experiment"
	"trainopt/simulator/queue"
)

// Named is a method with its name in tables.
type Named struct {
	Name string
	Method
}

// Case is one experiment that every method runs. Cases of the same Group are statistically dependent.
type Case struct {
	Name     string
	Workload *Workload
	Window   Window
	Seed     uint64 // seed of randomised methods
	Group    uint64
}

// Sweep describes a comparison. Methods and Cases are required.
type Sweep struct {
	Title   string
	Methods []Named
	Against []string // baselines; nil means the first method
	Cases   []Case
	Workers int // concurrent runs; 0 means one per core
	// Keep retains all runs, for their jobs; otherwise only the runs of the first case are kept, for charts.
	Keep bool
	// Progress is called after each case, not concurrently; nil means no reports.
	Progress func(done, total int)
	Notes    []string
}

// Outcome is the result of a comparison.
type Outcome struct {
	*Sweep
	Comparison *experiment.Comparison
	Runs       [][]*queue.Result // by method and case; nil for a run that was not executed or not kept
}

// measures are the metrics of comparison, named as in queue.Metric. A new metric is one line here.
var measures = []experiment.Metric{
	{Name: "mean_bounded_slowdown", Better: experiment.Lower, Means: "turnaround by run time, at least 1, run times below 10 s taken as 10 s; mean over jobs"},
	{Name: "mean_slowdown", Better: experiment.Lower, Means: "turnaround by run time without a bound, as Batsim has it; mean over jobs", Detail: true},
	{Name: "mean_wait_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "from submission to start"},
	{Name: "mean_turnaround_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "from submission to end", Detail: true},
	{Name: "max_bounded_slowdown", Better: experiment.Lower, Means: "of the job that is worst off", Detail: true},
	{Name: "max_wait_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "of the job that waited longest", Detail: true},
	{Name: "utilization", Unit: "share", Better: experiment.Higher, Means: "processor seconds that jobs had by those of the machine, to the last end"},
	{Name: "published_utilization", Unit: "share", Better: experiment.Higher, Means: "RLScheduler's: until the last start only, though the work after it counts", Detail: true},
	{Name: "span_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "makespan: from the first submission to the last end", Detail: true},
	{Name: "energy_joules", Unit: "J", Better: experiment.Lower, Means: "of all cores from the first submission to the last end", Detail: true},
	{Name: "not_run", Unit: "share", Better: experiment.Lower, Means: "of the jobs that did not end", Detail: true},
}

// metrics returns the metrics of the sweep: on platforms, energy and makespan are no longer details; elsewhere energy
// is omitted.
func (s *Sweep) metrics() []experiment.Metric {
	tree, long := false, false
	for _, c := range s.Cases {
		tree = tree || c.Workload.Tree != nil
		for i := range c.Workload.Jobs {
			long = long || c.Workload.Jobs[i].Request >= 600
		}
	}
	var out []experiment.Metric
	for _, m := range measures {
		m.Hours = m.Hours && long
		if tree {
			m.Detail = m.Detail && m.Name != "energy_joules" && m.Name != "span_s"
		} else if m.Name == "energy_joules" {
			continue
		}
		out = append(out, m)
	}
	return out
}

// values returns the metrics of a summary by name.
func values(s *queue.Summary) map[string]float64 {
	out := map[string]float64{}
	for _, m := range s.Metrics() {
		out[m.Name] = m.Value
	}
	out["not_run"] = float64(s.Rejected+s.Unfinished) / float64(s.Jobs)
	return out
}

// kept is what remains of a run.
type kept struct {
	Run      *queue.Result // nil unless it is to be retained
	Rejected int
}

// Run runs every method on every case. The outcome is byte for byte independent of the number of workers. When
// ctx is cancelled, Compare returns the complete cases with the error.
func (s *Sweep) Run(ctx context.Context) (*Outcome, error) {
	o := &Outcome{Sweep: s, Runs: make([][]*queue.Result, len(s.Methods))}
	index, names := map[string]int{}, make([]string, len(s.Methods))
	for i, m := range s.Methods {
		index[m.Name], names[i] = i, m.Name
		o.Runs[i] = make([]*queue.Result, len(s.Cases))
	}
	cases := make([]experiment.Case, len(s.Cases))
	for i, c := range s.Cases {
		cases[i] = experiment.Case{Name: c.Name, Seed: c.Group}
	}
	comparison, all, err := experiment.Run(ctx, names, cases, experiment.Options{Engine: "queue", Title: s.Title, Metrics: s.metrics(), Against: s.Against,
		Notes: s.Notes, Workers: s.Workers, Progress: s.Progress},
		func(ctx context.Context, policy string, k int) (map[string]float64, kept, error) {
			c := s.Cases[k]
			m := s.Methods[index[policy]].Method
			m.Seed = c.Seed
			r, err := c.Workload.Run(ctx, m, c.Window)
			if err != nil {
				return nil, kept{}, err
			}
			summary := r.Summary()
			out := kept{Rejected: summary.Rejected}
			if s.Keep || k == 0 {
				out.Run = r.Result
			}
			return values(&summary), out, nil
		})
	rejected := make([]int, len(s.Methods))
	for k, of := range all {
		for i, one := range of {
			o.Runs[i][k] = one.Run
			rejected[i] += one.Rejected
		}
	}
	if o.Comparison = comparison; comparison != nil {
		for i := range names {
			if n := rejected[i]; n > 0 {
				o.Comparison.Notes = append(o.Comparison.Notes, fmt.Sprintf("%s: %d jobs of all cases %s", names[i], n, neverFits))
			}
		}
	}
	return o, err
}

// Spread returns evenly spaced windows of equal length over a workload with the given number of jobs; ok is false if
// they overlap.
func Spread(jobs, windows, length int) (out []Window, ok bool) {
	length = min(length, jobs)
	for k := range windows {
		start := 0
		if windows > 1 {
			start = k * (jobs - length) / (windows - 1)
		}
		out = append(out, Window{start, length})
	}
	return out, windows*length <= jobs
}
