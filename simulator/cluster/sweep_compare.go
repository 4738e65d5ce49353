package cluster

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/optimizer/schedule"
	"trainopt/simulator/experiment"
	"trainopt/simulator/workload"
)

// measure is a metric and its accessor.
type measure struct {
	experiment.Metric
	of func(r *Result) float64
}

// measures are the metrics of every run. A new metric is one line here.
var measures = []measure{
	{experiment.Metric{Name: "mean_jct_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "mean time from arrival to completion"}, func(r *Result) float64 { return float64(r.MeanJCTS) }},
	{experiment.Metric{Name: "p50_jct_s", Unit: "s", Hours: true, Better: experiment.Lower, Detail: true, Means: "median of that time"}, func(r *Result) float64 { return float64(r.P50JCTS) }},
	{experiment.Metric{Name: "p99_jct_s", Unit: "s", Hours: true, Better: experiment.Lower, Detail: true, Means: "what 99 % of the jobs stay below"}, func(r *Result) float64 { return float64(r.P99JCTS) }},
	{experiment.Metric{Name: "makespan_s", Unit: "s", Hours: true, Better: experiment.Lower, Detail: true, Means: "when the last job ended"}, func(r *Result) float64 { return float64(r.MakespanS) }},
	{experiment.Metric{Name: "utilization", Unit: "share", Better: experiment.Neither, Detail: true, Means: "of devices, mean over the run"}, func(r *Result) float64 { return float64(r.Utilization) }},
	{experiment.Metric{Name: "cost_usd", Unit: "USD", Better: experiment.Lower, Detail: true, Means: "of all jobs that ran, for the time that they had devices"}, func(r *Result) float64 { return float64(r.CostUSD) }},
	{experiment.Metric{Name: "energy_joules", Unit: "J", Better: experiment.Lower, Detail: true, Means: "at most, by the power limits of the devices"}, func(r *Result) float64 { return float64(r.EnergyJoules) }},
	{experiment.Metric{Name: "deadlines_missed", Unit: "share", Better: experiment.Lower, Means: "of the jobs that have a deadline"}, missed},
	{experiment.Metric{Name: "devices_kept", Unit: "share", Better: experiment.Higher, Detail: true, Means: "of the times that a job ran on: with the same devices"}, func(r *Result) float64 { return float64(r.LeaseExtensions) }},
	{experiment.Metric{Name: "pauses", Better: experiment.Lower, Detail: true, Means: "times that a job continued after a pause or on other devices"}, func(r *Result) float64 { return float64(r.Pauses) }},
	{experiment.Metric{Name: "decisions", Better: experiment.Neither, Detail: true, Means: "of the policy"}, func(r *Result) float64 { return float64(r.Allocations) }},
}

// Metrics of fairness and of priorities, which require more than the run.
var (
	fairness = experiment.Metric{Name: "fairness", Better: experiment.Lower,
		Means: "finish-time fairness: completion time by that of the same job under isolated, mean over jobs; below 1 a job is better off than with its own part of the cluster"}
	unfair = experiment.Metric{Name: "worse_off", Unit: "share", Better: experiment.Lower, Detail: true, Means: "of jobs with a finish-time fairness above 1"}
	low    = experiment.Metric{Name: "mean_jct_low_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "mean completion time of jobs of normal priority"}
	high   = experiment.Metric{Name: "mean_jct_high_s", Unit: "s", Hours: true, Better: experiment.Lower, Means: "mean completion time of jobs of higher priority"}
)

func missed(r *Result) float64 {
	n, of := 0.0, 0.0
	for i := range r.Jobs {
		if m := r.Jobs[i].Missed; m != nil {
			of++
			if *m {
				n++
			}
		}
	}
	return n / of // 0/0 is NaN: no job has a deadline
}

// compare computes Comparison from the cells.
func (o *Outcome) compare() {
	each := make([]*experiment.Comparison, len(o.Scenarios))
	for k := range o.Scenarios {
		each[k] = o.scenario(k)
	}
	if len(each) == 1 {
		o.Comparison = each[0]
		o.Comparison.Title = joined(o.Title, o.Scenarios[0].Name)
		o.Comparison.Notes = append(slices.Clone(o.Notes), o.Comparison.Notes...)
		return
	}
	c := &experiment.Comparison{Schema: 1, Engine: "rounds", Title: o.Title, Metrics: []string{}, Rows: []experiment.Row{}, Paired: []experiment.Pair{},
		Policies: o.Policies, Against: each[0].Against, Definitions: []experiment.Metric{}, Seeds: len(o.Seeds), Cases: len(o.Seeds) * len(o.Scenarios),
		WallS: experiment.Number(math.NaN()), Notes: o.Notes, Also: each, Fold: len(each) > 3}
	for _, m := range o.headlines() {
		c.Tables = append(c.Tables, o.byLoad(m))
		c.Charts = append(c.Charts, o.loadChart(m))
	}
	c.Notes = append(slices.Clone(c.Notes), o.ends()...)
	o.Comparison = c
}

func joined(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), ": ")
}

// headlines returns the metrics shown by load: mean completion times, and the makespan if all jobs arrive
// simultaneously.
func (o *Outcome) headlines() []measure {
	var out []measure
	for _, m := range measures {
		if m.Name == "mean_jct_s" || m.Name == "makespan_s" && o.static() {
			out = append(out, m)
		}
	}
	return out
}

// ends describes where lines end: for each policy and group, the first load at which a seed has no figures.
func (o *Outcome) ends() []string {
	var out []string
	for _, group := range o.groups() {
		for p, policy := range o.Policies {
			k := slices.IndexFunc(o.Scenarios, func(s Scenario) bool { return s.Group == group })
			for ; k < len(o.Scenarios) && o.Scenarios[k].Group == group; k++ {
				i := slices.IndexFunc(o.Cells[p][k], func(c sweepCell) bool { return !c.known() })
				if i < 0 {
					continue
				}
				if reason := o.Cells[p][k][i].Reason; reason != "" {
					out = append(out, fmt.Sprintf("%s, from %s %s, seed %d: %s", o.lineName(policy, group), short(o.Scenarios[k].X), o.XName, o.Seeds[i], reason))
				}
				break
			}
		}
	}
	return out
}

// static reports whether all jobs of all scenarios arrive simultaneously.
func (o *Outcome) static() bool {
	return !slices.ContainsFunc(o.Scenarios, func(s Scenario) bool { return s.Config.Generate == nil || s.Config.Generate.Lambda > 0 })
}

// scenario compares the policies in one scenario.
func (o *Outcome) scenario(k int) *experiment.Comparison {
	opt := experiment.Options{Engine: "rounds", Title: o.Scenarios[k].Name, Against: o.Against}
	shown := []string{"mean_jct_s", "deadlines_missed"}
	if o.Scenarios[k].Config.Generate == nil || o.Scenarios[k].Config.Generate.Lambda == 0 {
		shown = append(shown, "makespan_s")
	}
	if priced(o.Scenarios[k].Config.Devices) {
		shown = append(shown, "cost_usd")
	}
	for _, m := range measures {
		m.Detail = !slices.Contains(shown, m.Name)
		opt.Metrics = append(opt.Metrics, m.Metric)
	}
	// Metrics that require other runs or the workload.
	opt.Metrics = append(opt.Metrics, fairness, unfair, low, high)
	for _, p := range o.Preferences {
		opt.Metrics = append(opt.Metrics, p.metric())
	}
	if o.Preferences != nil {
		opt.Metrics = append(opt.Metrics, relative[:]...)
	}
	cases := make([]experiment.Case, len(o.Seeds))
	values := make([][]map[string]float64, len(o.Policies))
	for p := range o.Policies {
		values[p] = make([]map[string]float64, len(o.Seeds))
		for i, seed := range o.Seeds {
			cases[i] = experiment.Case{Name: fmt.Sprintf("seed %d", seed), Seed: seed}
			values[p][i] = o.values(&o.Cells[p][k][i], k, i)
		}
	}
	c := experiment.Assemble(o.Policies, cases, opt, values)
	c.Notes = o.reasons(k)
	c.Charts = o.distributions(k)
	o.addFront(c)
	return c
}

func priced(devices []schedule.DeviceType) bool {
	return !slices.ContainsFunc(devices, func(d schedule.DeviceType) bool { return math.IsNaN(d.USDHour) })
}

// values returns the metrics of a run; empty if it has no figures.
func (o *Outcome) values(c *sweepCell, scenario, seed int) map[string]float64 {
	out := map[string]float64{}
	if !c.known() {
		return out
	}
	for _, m := range measures {
		out[m.Name] = m.of(c.Result)
	}
	if f := o.fairness(c, scenario, seed); f != nil {
		out[fairness.Name] = mean(f)
		worse, n := 0.0, 0.0
		for _, v := range f {
			if !math.IsNaN(v) {
				n++
				if v > 1 {
					worse++
				}
			}
		}
		out[unfair.Name] = worse / n
	}
	if o.Preferences != nil {
		o.relative(out, c, scenario, seed)
	}
	if low10, high10, ok := o.priorities(c.Result, scenario, o.Seeds[seed]); ok {
		out[low.Name], out[high.Name] = low10, high10
	}
	return out
}

// fairness returns the finish-time fairness of the jobs of a run; nil if unknown.
func (o *Outcome) fairness(c *sweepCell, scenario, seed int) []float64 {
	if o.isolated == nil || !o.isolated[scenario][seed].known() || !c.known() {
		return nil
	}
	return finishTimeFairness(c.Result, o.isolated[scenario][seed].Result)
}

// priorities returns the mean completion times by priority; ok is false unless jobs have several priorities.
func (o *Outcome) priorities(r *Result, scenario int, seed uint64) (low, high float64, ok bool) {
	c := o.Scenarios[scenario].Config
	if c.Generate == nil || !c.Generate.MultiPriority {
		return 0, 0, false
	}
	opt := *c.Generate
	opt.Seed = int64(seed)
	g, err := workload.NewGenerator(opt, cmp.Or(c.Throughputs, workload.GavelTable()))
	if err != nil || len(r.Jobs) == 0 {
		return 0, 0, false
	}
	weights := g.Take(r.Jobs[len(r.Jobs)-1].ID + 1)
	var jcts [2][]float64
	for i := range r.Jobs {
		class := 0
		if weights[r.Jobs[i].ID].Weight > 1 {
			class = 1
		}
		jcts[class] = append(jcts[class], float64(r.Jobs[i].JCTS))
	}
	return mean(jcts[0]), mean(jcts[1]), true
}

// mean returns the mean of the values that are not NaN; NaN without such values.
func mean(v []float64) float64 {
	s, n := 0.0, 0.0
	for _, x := range v {
		if !math.IsNaN(x) {
			s, n = s+x, n+1
		}
	}
	return s / n
}

// reasons lists, by policy, the reasons for missing figures and the warnings of a scenario.
func (o *Outcome) reasons(scenario int) []string {
	var out []string
	for p, policy := range o.Policies {
		seeds := map[string][]string{}
		var order []string
		for i, seed := range o.Seeds {
			c := &o.Cells[p][scenario][i]
			about := []string{}
			if c.Result != nil {
				about = append(about, c.Result.Warnings...)
			}
			if c.Err != nil {
				about = append(about, c.Err.Error())
			} else if c.Reason != "" {
				about = append(about, c.Reason)
			}
			for _, a := range about {
				if seeds[a] == nil {
					order = append(order, a)
				}
				seeds[a] = append(seeds[a], fmt.Sprint(seed))
			}
		}
		for _, a := range order {
			word := "seeds "
			if len(seeds[a]) == 1 {
				word = "seed "
			}
			out = append(out, policy+", "+word+strings.Join(seeds[a], ", ")+": "+a)
		}
	}
	return out
}

// At returns the comparison of a scenario.
func (o *Outcome) At(scenario int) *experiment.Comparison {
	if len(o.Scenarios) == 1 {
		return o.Comparison
	}
	return o.Comparison.Also[scenario]
}
