package trial

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"sync"

	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/simulator/experiment"
	"trainopt/simulator/training"
)

// Bench is the decision benchmark: every policy runs every job under every preference, with the same SLA and noise.
type Bench struct {
	Policies []string
	// Draw returns the jobs of a seed.
	Draw  func(seed uint64) ([]training.Scenario, error)
	Seeds []uint64
	// Prefer contains preferences in the user's notation ("time", "cost", "balanced", or weights).
	Prefer  []string
	Options Options
	// Agents returns policies that are neither an arm nor a planner; see Lookup. May be nil.
	Agents func(name string) (plan.Planner, error)
	// Evaluate contains the settings of the statistics; Engine and Metrics are filled in.
	Evaluate experiment.Options
}

// jobTrial is the run of one job under one policy.
type jobTrial struct {
	Policy   string
	Seed     uint64
	Job      int // index within the seed, from 0
	Prefer   string
	Scenario *training.Scenario `cells:"-"`
	Truth    *jobTruth
	Oracle   fixedRun
	Outcome  *outcome
	Regret   regret
	floor    float64 `cells:"-"` // contained in Values
	Values   map[string]float64
}

// benchCase is a job under a preference.
type benchCase struct {
	seed   uint64
	number int
	prefer string
	job    Job
	truth  func() *jobTruth
}

// Run runs the benchmark. Trials are ordered by policy, seed, job, preference; trials that were not run are omitted.
// Errors are those of experiment.run: when the context is cancelled, the complete part is returned with its error.
func (b *Bench) Run(ctx context.Context) (*experiment.Comparison, []*jobTrial, error) {
	arms := make(map[string]Arm)
	for _, name := range b.Policies {
		arm, err := Lookup(name, b.Agents)
		if err != nil {
			return nil, nil, err
		}
		arms[name] = arm
	}
	list, err := b.cases()
	if err != nil {
		return nil, nil, err
	}
	o := b.Evaluate
	o.Engine, o.Metrics = "training", metrics(b.Prefer)
	o.Notes = append(slices.Clone(o.Notes), notes...)
	comparison, done, err := experiment.Run(ctx, b.Policies, experimentCases(list), o, func(_ context.Context, policy string, k int) (map[string]float64, *jobTrial, error) {
		t, err := list[k].try(policy, arms[policy], b.Options)
		if err != nil {
			return nil, nil, err
		}
		return t.Values, t, nil
	})
	var trials []*jobTrial
	for i := range b.Policies {
		for k, of := range done {
			if of != nil {
				of[i].Scenario = list[k].job.Scenario
				trials = append(trials, of[i])
			}
		}
	}
	return comparison, trials, err
}

// experimentCases names the cases.
func experimentCases(list []benchCase) []experiment.Case {
	cases := make([]experiment.Case, len(list))
	for k, c := range list {
		cases[k] = experiment.Case{Name: fmt.Sprintf("%s, seed %d, prefer %s", c.job.Scenario.Name, c.seed, c.prefer), Seed: c.seed}
	}
	return cases
}

// cases returns all jobs under all preferences. The truth of a job is computed once, on first use.
func (b *Bench) cases() ([]benchCase, error) {
	var out []benchCase
	for _, seed := range b.Seeds {
		jobs, err := b.Draw(seed)
		if err != nil {
			return nil, fmt.Errorf("jobs of seed %d: %w", seed, err)
		}
		for n := range jobs {
			noise := seed*1_000_003 + uint64(n)
			truth := sync.OnceValue(func() *jobTruth { return search(&jobs[n], noise) })
			for _, text := range b.Prefer {
				p, err := plan.ParsePreference(text)
				if err != nil {
					return nil, err
				}
				out = append(out, benchCase{seed, n, text, Job{&jobs[n], noise, p}, truth})
			}
		}
	}
	return out, nil
}

// try runs the case under one arm.
func (c *benchCase) try(policy string, arm Arm, o Options) (*jobTrial, error) {
	truth := c.truth()
	out, err := arm.Run(c.job, truth, o)
	if err != nil {
		return nil, err
	}
	oracle, _ := truth.Oracle(c.job.Prefer)
	t := &jobTrial{Policy: policy, Seed: c.seed, Job: c.number, Prefer: c.prefer, Scenario: c.job.Scenario, Truth: truth,
		Oracle: oracle, Outcome: out, Regret: truth.Regret(c.job.Prefer, out), floor: truth.MinRegret(c.job.Prefer)}
	t.Values = t.values()
	return t, nil
}

// metrics returns the metrics of the benchmark; with several preferences they include the regret of each.
func metrics(prefer []string) []experiment.Metric {
	list := []experiment.Metric{
		{Name: "regret", Unit: "share", Better: experiment.Lower, Means: "excess over the best fixed allocation in hindsight, in what is preferred; finished jobs, everything charged except interruptions"},
		{Name: "deadline_hit", Unit: "share", Better: experiment.Higher, Means: "finished in time, of the jobs with a deadline whose SLA some fixed allocation meets"},
		{Name: "agreement_kept", Title: "SLA met", Unit: "share", Better: experiment.Higher, Means: "finished in time and within the budget, of the jobs with an SLA that some fixed allocation meets"},
		{Name: "deadline_hit_in_reach", Unit: "share", Better: experiment.Higher, Detail: true, Means: "the same, of the jobs whose SLA leaves room for one unit of work at the baseline, a tenth of the run for measuring, and an orderly exit"},
		{Name: "agreement_kept_in_reach", Title: "SLA met in reach", Unit: "share", Better: experiment.Higher, Detail: true, Means: "likewise, within time and budget"},
		{Name: "budget_overrun", Unit: "share", Better: experiment.Lower, Means: "spent beyond the budget, of all jobs with one"},
		{Name: "time_vs_user", Unit: "share", Change: true, Better: experiment.Lower, Means: "time against the user's own configuration; finished jobs"},
		{Name: "cost_vs_user", Unit: "share", Change: true, Better: experiment.Lower, Means: "cost against the user's own configuration; finished jobs"},
		{Name: "energy_vs_user", Unit: "share", Change: true, Better: experiment.Lower, Means: "energy against the user's own configuration; finished jobs whose power is known"},
		{Name: "restarts", Better: experiment.Lower, Means: "restarts by choice a job, those for probes included"},
	}
	if len(prefer) > 1 {
		for _, p := range prefer {
			list = append(list, experiment.Metric{Name: "regret_" + p, Unit: "share", Better: experiment.Lower, Detail: true, Means: "regret where " + p + " is preferred"})
		}
	}
	detail := func(name, unit, means string) {
		list = append(list, experiment.Metric{Name: name, Unit: unit, Better: experiment.Lower, Means: means, Detail: true})
	}
	detail("regret_of_probes", "share", "part of the regret: work done elsewhere in order to measure")
	detail("regret_of_moves", "share", "part of the regret: restarts by choice")
	detail("regret_of_choice", "share", "part of the regret: work at other allocations than the oracle's")
	detail("regret_of_loss", "share", "interruptions, over those of the oracle: by chance, and not part of the regret")
	detail("regret_floor", "share", "regret of a policy that does one unit of work at the user's own configuration and then knows everything; the same for all policies")
	detail("seconds", "s", "finished jobs")
	detail("usd", "USD", "finished jobs")
	detail("joules", "J", "finished jobs whose power is known")
	list = append(list, experiment.Metric{Name: "finished", Unit: "share", Better: experiment.Higher, Detail: true, Means: "not stopped by the guard, of all jobs"})
	detail("probes", "", "allocations measured before the plan, the user's own included")
	detail("probe_share", "share", "part of the money spent that was spent while measuring, restarts for it not counted")
	detail("fallbacks", "", "times that the planner failed and the user's own configuration was taken")
	return list
}

// notes explain the numbers in the output.
var notes = []string{
	"the oracle is the best allocation kept from start to end, found by running all of them with the same noise; a run that moves may beat it where a limit binds",
	"what is preferred is the weighted sum of time, cost and share of the limits held, each relative to the least that a fixed allocation within the agreement reaches: one definition of balanced among several",
	"intervals and tests tell about other jobs drawn alike, not about other kinds of jobs",
}

// values returns the numbers of the trial by metric; NaN where a metric does not apply.
func (t *jobTrial) values() map[string]float64 {
	out, spec, own, nan := t.Outcome, t.Scenario.Spec, &t.Truth.Own, math.NaN()
	where := func(applies bool, v float64) float64 {
		if !applies {
			return nan
		}
		return v
	}
	yes := func(b bool) float64 { return map[bool]float64{true: 1}[b] }
	agreed := spec.TimeMax > 0 || spec.CostMaxUSD > 0
	r := t.Regret
	v := map[string]float64{
		"regret":           r.Total,
		"regret_of_probes": r.Probe, "regret_of_moves": r.Move, "regret_of_choice": r.Choice, "regret_of_loss": r.Lost,
		"deadline_hit":            where(spec.TimeMax > 0 && t.Truth.Feasible, yes(out.Finished && out.DeadlineMet)),
		"deadline_hit_in_reach":   where(spec.TimeMax > 0 && t.Truth.Reachable, yes(out.Finished && out.DeadlineMet)),
		"agreement_kept_in_reach": where(agreed && t.Truth.Reachable, yes(out.MetSLA())),
		"agreement_kept":          where(agreed && t.Truth.Feasible, yes(out.MetSLA())),
		"budget_overrun":          where(spec.CostMaxUSD > 0, out.BudgetOverrun),
		"seconds":                 where(out.Finished, out.Seconds),
		"usd":                     where(out.Finished, out.USD),
		"joules":                  where(out.Finished, out.Joules),
		"time_vs_user":            where(out.Finished, out.Seconds/own.Seconds-1),
		"cost_vs_user":            where(out.Finished && own.USD > 0, out.USD/own.USD-1),
		"energy_vs_user":          where(out.Finished && own.Joules > 0, out.Joules/own.Joules-1),
		"restarts":                float64(out.Restarts),
		"finished":                yes(out.Finished),
		"probes":                  float64(out.Probes),
		"probe_share":             where(out.USD > 0, out.ProbeUSD/out.USD),
		"fallbacks":               float64(len(out.Fallbacks)),
	}
	v["regret_"+t.Prefer] = r.Total
	v["regret_floor"] = t.floor
	return v
}

// WriteTrials writes one CSV row per trial; unknown numbers are empty.
func WriteTrials(w io.Writer, trials []*jobTrial) error {
	number := func(v float64) string { return page.CSVCell(v, 6) }
	limit := func(v float64) string {
		if v <= 0 {
			return ""
		}
		return number(v)
	}
	lines := [][]string{{"policy", "seed", "job", "name", "prefer", "deadline_s", "budget_usd", "feasible", "reachable", "finished", "stopped_by", "seconds", "usd", "joules",
		"regret", "regret_of_probes", "regret_of_moves", "regret_of_choice", "regret_of_loss", "restarts", "interruptions", "probes", "probe_usd",
		"allocation", "oracle", "oracle_seconds", "oracle_usd", "fallbacks"}}
	for _, t := range trials {
		o, r, s := t.Outcome, t.Regret, t.Scenario
		last := ""
		for _, p := range o.Pieces {
			if p.Units > 0 {
				last = p.Allocation.String()
			}
		}
		lines = append(lines, []string{t.Policy, strconv.FormatUint(t.Seed, 10), strconv.Itoa(t.Job), s.Name, t.Prefer, limit(s.Spec.TimeMax.Seconds()), limit(s.Spec.CostMaxUSD),
			strconv.FormatBool(t.Truth.Feasible), strconv.FormatBool(t.Truth.Reachable), strconv.FormatBool(o.Finished), string(o.Stopped), number(o.Seconds), number(o.USD), number(o.Joules),
			number(r.Total), number(r.Probe), number(r.Move), number(r.Choice), number(r.Lost), strconv.Itoa(o.Restarts), strconv.Itoa(o.Interruptions),
			strconv.Itoa(o.Probes), number(o.ProbeUSD), last, t.Oracle.Allocation.String(), number(t.Oracle.Seconds), number(t.Oracle.USD), strconv.Itoa(len(o.Fallbacks))})
	}
	return page.CSV(w, lines)
}
