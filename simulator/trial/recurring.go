package trial

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
)

// recurringArm is a policy of recurring jobs under its user-visible name.
type recurringArm struct {
	policy string // name in recurring.Policies
	learns bool   // has a table by job
}

// recurringArms by name. A new policy is one line here.
var recurringArms = map[string]recurringArm{
	"user":   {"default", false},
	"oracle": {"oracle", false},
	"grid":   {"grid", false},
	"random": {"random", false},
	"zeus":   {"zeus", true},
	"bandit": {"smooth", true},
}

// RecurringNames lists the policies of Recurring: user (the job's default), oracle (the exhaustive optimum), grid and
// random search, zeus (as published) and bandit (our policy).
func RecurringNames() []string { return slices.Sorted(maps.Keys(recurringArms)) }

// Recurring is the comparison on recurring jobs: every policy runs all recurrences of every job with every seed, and
// all its search is charged. The references are the user's default and the optimum by exhaustive search.
type Recurring struct {
	Policies []string // of RecurringNames
	Jobs     []*RecurringJob
	Seeds    []uint64
	// Eta weighs energy against time, 0 to 1; see recurring.RecurringJob.Cost.
	Eta float64
	// Recurrences is the number for each job; 0 means the number over which Zeus was evaluated,
	// recurring.RecurringJob.Published.
	Recurrences int
	// Evaluate contains the settings of the statistics; Engine, Metrics and Notes are filled in.
	Evaluate experiment.Options
}

// recurringResult is the result of one policy on one recurring job with one seed. Energies and costs are expected values of
// one run, except those of outcome.
type recurringResult struct {
	Policy  string
	Seed    uint64
	Job     *RecurringJob `cells:"-"`
	Optimum jobSetting
	Outcome recurringOutcome
	eta     float64 `cells:"-"`
	Values  map[string]float64
}

// CheckRecurring returns an error for an unknown policy.
func CheckRecurring(name string) error {
	if _, ok := recurringArms[name]; !ok {
		return fmt.Errorf("policy %q is unknown for recurring jobs, want one of %s", name, strings.Join(RecurringNames(), ", "))
	}
	return nil
}

// Run runs the comparison. Outcomes are ordered by policy, seed, job; those not run are omitted. Errors are those of
// experiment.run: when the context is cancelled, the complete part is returned with its error. O(policies × seeds ×
// jobs × recurrences).
func (r *Recurring) Run(ctx context.Context) (*experiment.Comparison, []*recurringResult, error) {
	for _, name := range r.Policies {
		if err := CheckRecurring(name); err != nil {
			return nil, nil, err
		}
	}
	o := r.Evaluate
	o.Engine, o.Metrics = "training", r.metrics()
	o.Notes = append(slices.Clone(o.Notes), recurringNotes...)
	var cases []experiment.Case
	for _, seed := range r.Seeds {
		for _, j := range r.Jobs {
			cases = append(cases, experiment.Case{Name: fmt.Sprintf("%s, seed %d", j.Name(), seed), Seed: seed})
		}
	}
	comparison, all, err := experiment.Run(ctx, r.Policies, cases, o, func(_ context.Context, policy string, k int) (map[string]float64, *recurringResult, error) {
		t, err := r.play(policy, r.Jobs[k%len(r.Jobs)], cases[k].Seed)
		if err != nil {
			return nil, nil, err
		}
		return t.Values, t, nil
	})
	var done []*recurringResult
	for i := range r.Policies {
		for k, of := range all {
			if of != nil {
				of[i].Job, of[i].eta = r.Jobs[k%len(r.Jobs)], r.Eta
				done = append(done, of[i])
			}
		}
	}
	if comparison != nil {
		comparison.Tables = r.tables(done)
	}
	return comparison, done, err
}

// play simulates one job under one policy with one seed.
func (r *Recurring) play(policy string, j *RecurringJob, seed uint64) (*recurringResult, error) {
	out, err := playJob(j, policies[recurringArms[policy].policy], recurringOptions{Eta: r.Eta, Recurrences: r.Recurrences, Seed: seed})
	if err != nil {
		return nil, err
	}
	t := &recurringResult{Policy: policy, Seed: seed, Job: j, Optimum: j.Optimum(r.Eta), Outcome: out, eta: r.Eta}
	t.Values = t.values()
	return t, nil
}

// metrics returns the metrics of the comparison. The cost is a main metric only if it is neither energy nor time
// alone.
func (r *Recurring) metrics() []experiment.Metric {
	mixed := r.Eta > 0 && r.Eta < 1
	return []experiment.Metric{
		{Name: "energy_vs_user", Unit: "share", Better: experiment.Lower, Means: "energy of all recurrences, search charged, against what the user's default is expected to take"},
		{Name: "settled_energy", Unit: "share", Better: experiment.Lower, Means: "expected energy of a run at the setting it settles on, against the default; settings that always reach the target"},
		{Name: "gap_points", Unit: "points", Better: experiment.Lower, Means: "expected cost of the setting it settles on above that of the exhaustive optimum, the default's being 100"},
		{Name: "near_optimum", Unit: "share", Better: experiment.Higher, Means: "jobs that end within 3 points of the exhaustive optimum"},
		{Name: "recurrences", Better: experiment.Lower, Means: "recurrences after which the setting it would settle on stayed within 3 points; where it never did, one more than there were"},
		{Name: "time_vs_user", Unit: "share", Better: experiment.Lower, Means: "time of all recurrences, against the default"},
		{Name: "cost_vs_user", Unit: "share", Better: experiment.Lower, Detail: !mixed, Means: fmt.Sprintf("cost of all recurrences, %g · energy + %g · greatest power limit · time, against the default", r.Eta, 1-r.Eta)},
		{Name: "regret", Unit: "share", Better: experiment.Lower, Detail: true, Means: "excess of the cost of all recurrences over that of the exhaustive optimum from the start"},
		{Name: "first_quarter_energy_vs_user", Unit: "share", Better: experiment.Lower, Detail: true, Means: "energy of the first quarter of the recurrences, against the default"},
		{Name: "needed_share", Unit: "share", Better: experiment.Lower, Detail: true, Means: "recurrences needed, of the number over which Zeus was evaluated"},
		{Name: "settled_time_vs_user", Unit: "share", Better: experiment.Lower, Detail: true, Means: "expected time of a run at the setting it settles on, against the default"},
		{Name: "optimum_energy_vs_user", Unit: "share", Better: experiment.Lower, Detail: true, Means: "expected energy at the exhaustive optimum, against the default; the same for all policies"},
		{Name: "runs_per_recurrence", Better: experiment.Lower, Detail: true, Means: "runs made until one reached the target"},
	}
}

var recurringNotes = []string{
	"the optimum is the setting with the least expected cost among all batch sizes and power limits, found by exhaustive search that costs nothing",
	"bandit is ours, zeus the published algorithm, user the batch size of the model's authors at the greatest power limit",
	"the jobs are those of the tables: seeds draw how many epochs each run takes and what policies try, not other jobs",
}

// values returns the numbers by metric; NaN where a setting may never reach the target.
func (t *recurringResult) values() map[string]float64 {
	j, out := t.Job, &t.Outcome
	n := len(out.JoulesAfter)
	quarter := max(1, n/4)
	seconds, joules := j.Expected(j.Default)
	settledSeconds, settledJoules := j.Expected(out.Settled)
	_, leastJoules := j.Expected(t.Optimum)
	own, least := j.ExpectedCost(t.eta, j.Default), j.ExpectedCost(t.eta, t.Optimum)
	cost := j.Cost(t.eta, out.Seconds, out.Joules)
	needed, near := float64(n+1), 0.0
	if out.Needed > 0 {
		needed, near = float64(out.Needed), 1
	}
	all := float64(n)
	return map[string]float64{
		"energy_vs_user":               out.Joules/(all*joules) - 1,
		"settled_energy":               settledJoules/joules - 1,
		"gap_points":                   100 * (j.ExpectedCost(t.eta, out.Settled) - least) / own,
		"near_optimum":                 near,
		"recurrences":                  needed,
		"needed_share":                 needed / float64(j.PublishedRecurrences()),
		"time_vs_user":                 out.Seconds/(all*seconds) - 1,
		"cost_vs_user":                 cost/(all*own) - 1,
		"regret":                       cost/(all*least) - 1,
		"first_quarter_energy_vs_user": out.JoulesAfter[quarter-1]/(float64(quarter)*joules) - 1,
		"settled_time_vs_user":         settledSeconds/seconds - 1,
		"optimum_energy_vs_user":       leastJoules/joules - 1,
		"runs_per_recurrence":          float64(out.Runs) / all,
	}
}

const tableLegend = "Settings are batch size/power limit in W; settled: what most seeds settle on. Energy in percent, against the default's: " +
	"best: at the optimum; got: at what is settled on; all in: of all recurrences, search charged. off: cost above the optimum, in points, of the worst seed. " +
	"after, last: recurrences until it stays within 3 points, of the median and of the worst seed, of as many as the last column says; >: it does not."

// tables returns the results of each learning policy by job, over all seeds.
func (r *Recurring) tables(all []*recurringResult) []experiment.Table {
	var out []experiment.Table
	for _, policy := range r.Policies {
		if !recurringArms[policy].learns {
			continue
		}
		t := experiment.Table{Title: policy + ", job by job",
			Head: []string{"job", "default", "optimum", "settled", "best", "got", "all in", "off", "after", "last", "of"}}
		if len(out) == 0 {
			t.Title += ". " + tableLegend
		}
		for _, j := range r.Jobs {
			var of []*recurringResult
			for _, v := range all {
				if v.Policy == policy && v.Job == j {
					of = append(of, v)
				}
			}
			if len(of) > 0 {
				t.Lines = append(t.Lines, jobLine(of))
			}
		}
		out = append(out, t)
	}
	return out
}

// jobLine returns the table row of one job over its seeds, at least one.
func jobLine(of []*recurringResult) []string {
	j := of[0].Job
	setting := func(s jobSetting) string { return fmt.Sprintf("%d/%g", s.Batch, s.Watts) }
	percent := func(v float64) string {
		if math.IsNaN(v) {
			return "–"
		}
		return strings.Replace(page.Fixed(100*v, 1), "-", "−", 1)
	}
	mean := func(metric string) float64 {
		sum := 0.0
		for _, t := range of {
			sum += t.Values[metric]
		}
		return sum / float64(len(of))
	}
	count := map[jobSetting]int{}
	var needed []float64
	off := math.Inf(-1)
	for _, t := range of {
		count[t.Outcome.Settled]++
		needed = append(needed, t.Values["recurrences"])
		off = max(off, t.Values["gap_points"]) // max keeps NaN
	}
	slices.Sort(needed)
	most := j.Default
	for _, s := range j.Settings() { // in a fixed order: ties go to the first
		if count[s] > count[most] {
			most = s
		}
	}
	n := len(of[0].Outcome.JoulesAfter)
	after := func(v float64) string {
		if v > float64(n) {
			return ">" + strconv.Itoa(n)
		}
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return []string{j.Dataset + " " + j.GPU, setting(j.Default), setting(of[0].Optimum), setting(most), percent(mean("optimum_energy_vs_user")),
		percent(mean("settled_energy")), percent(mean("energy_vs_user")), percent(off / 100), after(needed[len(needed)/2]), after(needed[len(needed)-1]), strconv.Itoa(n)}
}

// WriteRecurred writes one CSV row per policy, seed and job; unknown numbers are empty. Energies are in joules: those
// of settings as expected for one run, joules and seconds of all recurrences.
func WriteRecurred(w io.Writer, all []*recurringResult) error {
	number := func(v float64) string { return page.CSVCell(v, 6) }
	lines := [][]string{{"policy", "seed", "job", "gpu", "eta", "recurrences", "default_batch", "default_watts", "default_joules", "optimum_batch", "optimum_watts", "optimum_joules",
		"settled_batch", "settled_watts", "settled_joules", "joules", "seconds", "runs", "energy_vs_user", "time_vs_user", "cost_vs_user", "settled_energy_vs_user", "gap_points", "needed"}}
	for _, t := range all {
		j, o := t.Job, &t.Outcome
		line := []string{t.Policy, strconv.FormatUint(t.Seed, 10), j.Dataset + "/" + j.Network, j.GPU, number(t.eta), strconv.Itoa(len(o.JoulesAfter))}
		for _, s := range []jobSetting{j.Default, t.Optimum, o.Settled} {
			_, joules := j.Expected(s)
			line = append(line, strconv.Itoa(s.Batch), number(s.Watts), number(joules))
		}
		needed := ""
		if o.Needed > 0 {
			needed = strconv.Itoa(o.Needed)
		}
		lines = append(lines, append(line, number(o.Joules), number(o.Seconds), strconv.Itoa(o.Runs), number(t.Values["energy_vs_user"]), number(t.Values["time_vs_user"]),
			number(t.Values["cost_vs_user"]), number(t.Values["settled_energy"]), number(t.Values["gap_points"]), needed))
	}
	return page.CSV(w, lines)
}
