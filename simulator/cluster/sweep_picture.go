package cluster

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
	"trainopt/simulator/workload"
)

// groups returns the groups of the scenarios in order.
func (o *Outcome) groups() []string {
	var out []string
	for i := range o.Scenarios {
		if !slices.Contains(out, o.Scenarios[i].Group) {
			out = append(out, o.Scenarios[i].Group)
		}
	}
	return out
}

// lineName returns the label of a policy in a group.
func (o *Outcome) lineName(policy, group string) string {
	if group == "" || len(o.groups()) == 1 {
		return policy
	}
	if len(o.Policies) == 1 {
		return group
	}
	return policy + ", " + group
}

// byLoad returns a table of a metric by policy and load; "–" where it is unknown for a seed.
func (o *Outcome) byLoad(m measure) experiment.Table {
	var xs []float64
	for i := range o.Scenarios {
		xs = append(xs, o.Scenarios[i].X)
	}
	slices.Sort(xs)
	xs = slices.Compact(xs)
	t := experiment.Table{Title: fmt.Sprintf("%s, mean over seeds, by %s; – where a seed has none", m.Label(), o.XName), Head: []string{o.XName}}
	for _, x := range xs {
		t.Head = append(t.Head, short(x))
	}
	for _, group := range o.groups() {
		for p, policy := range o.Policies {
			line := []string{o.lineName(policy, group)}
			for _, x := range xs {
				v := math.NaN()
				if k := o.find(group, x); k >= 0 {
					v = o.Mean(p, k, m.of) / 3600
				}
				line = append(line, hours(v, 2))
			}
			t.Lines = append(t.Lines, line)
		}
	}
	return t
}

// find returns the scenario of a group at x; −1: none.
func (o *Outcome) find(group string, x float64) int {
	return slices.IndexFunc(o.Scenarios, func(s Scenario) bool { return s.Group == group && s.X == x })
}

// short formats a number with at most four significant digits.
func short(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// loadChart returns a chart of a metric by load, with a line for each policy and group.
func (o *Outcome) loadChart(m measure) page.Chart {
	title := map[string]string{"mean_jct_s": "Mean completion time by load", "makespan_s": "Makespan by load"}[m.Name]
	c := page.Chart{Title: title, Note: "mean over seeds; a line ends where a run is not stable",
		X: page.Axis{Name: o.XName}, Y: page.Axis{Name: "hours", Zero: true}}
	for _, group := range o.groups() {
		for p, policy := range o.Policies {
			l := page.Series{Name: o.lineName(policy, group)}
			for k := range o.Scenarios {
				if s := &o.Scenarios[k]; s.Group == group {
					l.Points = append(l.Points, page.Point{X: s.X, Y: o.Mean(p, k, m.of) / 3600})
				}
			}
			c.Series = append(c.Series, l)
		}
	}
	return c
}

// distributions returns charts of the distributions of completion times and fairness in a scenario over all seeds.
func (o *Outcome) distributions(scenario int) []page.Chart {
	share := page.Axis{Name: "share of jobs", Zero: true, Share: true}
	jct := page.Chart{Title: "Completion times", Note: "cumulative share of the jobs; all seeds", X: page.Axis{Name: "hours", Log: true}, Y: share}
	ftf := page.Chart{Title: "Finish-time fairness", Note: "share of the jobs with completion time of at most x times that under isolated; all seeds",
		X: page.Axis{Name: "times that of isolated", Log: true}, Y: share}
	for p, policy := range o.Policies {
		var times, ratios []float64
		for i := range o.Seeds {
			c := &o.Cells[p][scenario][i]
			if c.known() {
				times = append(times, hoursText(c.Result)...)
				ratios = append(ratios, o.fairness(c, scenario, i)...)
			}
		}
		jct.Series = append(jct.Series, page.Distribution(policy, times))
		if policy != baseline {
			l := page.Distribution(policy, ratios)
			l.Class = page.Class(p)
			ftf.Series = append(ftf.Series, l)
		}
	}
	charts := []page.Chart{jct}
	if o.isolated != nil && len(ftf.Series) > 0 {
		charts = append(charts, ftf)
	}
	return append(charts, o.utilization(scenario))
}

// utilization returns a chart of the utilization over time in a scenario with the first seed.
func (o *Outcome) utilization(scenario int) page.Chart {
	var lines []page.Series
	for p, policy := range o.Policies {
		if c := &o.Cells[p][scenario][0]; c.known() {
			l := utilizationLine(policy, c.Result)
			l.Class = page.Class(p)
			lines = append(lines, l)
		}
	}
	return utilizationChart(fmt.Sprintf("share of all devices that are taken; seed %d", o.Seeds[0]), lines)
}

// WriteJobs writes all jobs of all runs as CSV.
func (o *Outcome) WriteJobs(w io.Writer) error {
	lines := [][]string{append([]string{"scenario", "policy", "seed", "fairness"}, jobColumns...)}
	for k := range o.Scenarios {
		for p, policy := range o.Policies {
			for i, seed := range o.Seeds {
				c := &o.Cells[p][k][i]
				if c.Result == nil {
					continue
				}
				ratios := o.fairness(c, k, i)
				for n := range c.Result.Jobs {
					ratio := ""
					if ratios != nil && !math.IsNaN(ratios[n]) {
						ratio = strconv.FormatFloat(ratios[n], 'g', 6, 64)
					}
					lines = append(lines, append([]string{o.Scenarios[k].Name, policy, strconv.FormatUint(seed, 10), ratio}, jobCells(&c.Result.Jobs[n])...))
				}
			}
		}
	}
	return page.CSV(w, lines)
}

// shownSteps is the approximate number of points of a line over time.
const shownSteps = 120

// utilizationChart returns a chart of utilization over time.
func utilizationChart(note string, lines []page.Series) page.Chart {
	return page.Chart{Title: "Utilization over time", Note: note, X: page.Axis{Name: "hours", Zero: true},
		Y: page.Axis{Name: "share of devices", Zero: true, Share: true}, Series: lines}
}

// deviceLines returns a line for each device type.
func deviceLines(r *Result) []page.Series {
	var out []page.Series
	for _, name := range slices.Sorted(maps.Keys(r.Cluster)) {
		out = append(out, utilizationLine(name, r, name))
	}
	return out
}

// utilizationLine returns the share of the devices of some types that were in use, by hour; without types, of all
// devices. Each of its at most 120 points is the mean over an interval and is placed at its centre.
func utilizationLine(name string, r *Result, types ...string) page.Series {
	line := page.Series{Name: name, Dense: true}
	if r.Timeline == nil {
		return line
	}
	if len(types) == 0 {
		types = slices.Sorted(maps.Keys(r.Cluster))
	}
	steps := r.Timeline.Steps()
	together := max(1, (steps+shownSteps-1)/shownSteps)
	for k := 0; k < steps; k += together {
		from := float64(k) * float64(r.Timeline.StepS)
		to := math.Min(float64(k+together)*float64(r.Timeline.StepS), float64(r.MakespanS))
		used, devices := 0.0, 0
		for _, t := range types {
			devices += r.Cluster[t]
			for _, v := range r.Timeline.UsedS[t][k:min(k+together, steps)] {
				used += float64(v)
			}
		}
		line.Points = append(line.Points, page.Point{X: (from + to) / 2 / 3600, Y: used / (float64(devices) * (to - from))})
	}
	return line
}

// CheckSizes returns an error that names the first job that is larger than every device type of a cluster; a job runs on
// devices of a single type. An unlimited generator with multi-device jobs may request up to eight devices.
func (c *Config) CheckSizes() error {
	most, name := 0, ""
	for _, d := range c.Devices {
		if d.Count > most {
			most, name = d.Count, d.Name
		}
	}
	jobs := c.Jobs
	if c.Generate != nil {
		if !c.Generate.MultiGPU || most >= largestDrawn {
			return nil
		}
		if c.Total == 0 {
			return fmt.Errorf("jobs on up to %d devices of one type are drawn: the cluster has at most %d (%s)", largestDrawn, most, name)
		}
		g, err := workload.NewGenerator(*c.Generate, cmp.Or(c.Throughputs, workload.GavelTable()))
		if err != nil {
			return err
		}
		jobs = g.Take(c.Total)
	}
	for i := range jobs {
		if jobs[i].GPUs > most {
			return fmt.Errorf("job %d asks for %d devices of one type: the cluster has at most %d (%s)", jobs[i].ID, jobs[i].GPUs, most, name)
		}
	}
	return nil
}

// largestDrawn is the maximum number of devices of a generated job.
const largestDrawn = 8
