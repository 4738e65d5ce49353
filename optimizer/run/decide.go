package run

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/logs"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

func plannerNames() string {
	var names []string
	for n := range plan.Planners {
		names = append(names, n)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// recall finds earlier runs of the same and of similar trainings, and offline logs; it derives priors, total,
// start-up times and memory from them and fits the model.
func (r *run) recall() {
	r.planner() // so that a damaged agent file is reported at the start
	key := history.Key{ScriptSHA256: r.ins.SHA256, Likeness: r.ins.Likeness, Script: r.ins.Path, Command: launch.Redact(r.argv), Epochs: r.Config.Epochs, Dataset: launch.RedactText(r.Config.Dataset), CPUs: r.host.CPUs, Described: r.host.Described}
	if r.dir != nil {
		key.ExcludeRun = r.dir.ID()
	}
	for _, g := range r.host.GPUs {
		key.GPUs = append(key.GPUs, g.Name)
	}
	found, notes := history.Recall(r.Config.StateDir, key)
	if len(found.Runs) == 0 && r.host.Described != "" {
		key.AnyMachine = true
		if found, notes = history.Recall(r.Config.StateDir, key); len(found.Runs) > 0 {
			r.event(Warning, "this training was measured on another machine than %s: the difference in speed is unknown and not part of the intervals", r.host.Described)
		}
	}
	for _, n := range notes {
		r.warn(n)
	}
	offline := logs.Recall(r.Config.Offline, logs.Options{Aliases: r.Config.Columns}, r.baseline)
	for _, n := range offline.Notes {
		r.event(Warning, "%s", n)
	}
	r.priors = []*prior{r.similarPrior(found), exactPrior(found, offline.Observations)}
	r.restartS, r.startupS, r.recurrences = found.RestartSeconds, found.StartupSeconds, found.Recurrences
	r.suggestLengths(func() {
		if len(found.Runs) > 0 {
			r.progress.Suggest(found.Unit, Hint{found.Total, "run " + found.Runs[0]})
		}
	})
	r.recalledUnit = cmp.Or(found.Unit, found.MeasuredUnit)
	if found.Total == 0 && len(offline.Observations) > 0 {
		r.progress.Suggest("epoch", Hint{offline.Epochs, "offline logs"})
		r.recalledUnit = cmp.Or(r.recalledUnit, "epoch")
	}
	for i := range found.Similar {
		r.recalledUnit = cmp.Or(r.recalledUnit, found.Similar[i].Unit)
	}
	if len(r.startupS) == 0 && len(found.Similar) > 0 {
		r.startupS = found.Similar[0].StartupSeconds
	}
	if len(found.Runs) > 0 {
		if r.progress.UnitSamples == 0 && len(found.Observations) > 0 {
			r.progress.UnitSamples = found.Observations[0].UnitSamples
		}
		r.event(Info, "recalled %d earlier run%s of this training (newest %s)", len(found.Runs), plural(len(found.Runs)), found.Runs[0])
	}
	if !math.IsNaN(found.PeakMemoryGiB) {
		r.learnMemory(found.PeakMemoryGiB)
	}
	if len(found.Baselines) > 0 && len(r.Config.SLA.Agreed()) == 0 {
		if spec, _, err := sla.Forecast(found.Baselines); err == nil {
			r.event(Info, "no SLA set; realistic limits by earlier runs: --deadline %s --budget %.4g", spec.TimeMax.Round(time.Second), spec.CostMaxUSD)
		}
	}
	r.learnCalibration(found.Newest)
	r.refit()
}

// learnCalibration sets the width of intervals from the coverage of earlier predictions for this family of models.
func (r *run) learnCalibration(entries []history.Entry) {
	if len(entries) == 0 {
		return // no run has ended here yet, or recall has reported why none is readable
	}
	scored := history.Calibrate(entries)
	family := r.ins.Model.Value
	r.widen = scored.Widen(family)
	if s := scored.All.ByQuantity[history.QuantitySeconds]; math.Abs(r.widen-1) >= 0.005 {
		r.event(Info, "intervals widened by a factor of %.2f: %d of %d earlier outcomes were inside their 90 %% interval", r.widen, s.Inside, s.N)
	}
}

func plural(n int) string {
	if n == 1 {
		return ""
	}
	return "s"
}

// learnMemory sets the memory requirement of the job: the measured peak with a margin.
func (r *run) learnMemory(peakGiB float64) {
	if !r.memoryCounts() {
		return
	}
	need := min(max(roundMemory(resources.GiB(peakGiB)*memoryMargin), r.limits.MemoryMin), r.limits.MemoryMax)
	r.needMemory = max(r.needMemory, need)
	r.baseline.Memory = r.needMemory
}

// refit fits the performance model to all measurements, of this run and of earlier ones.
func (r *run) refit() {
	r.weighPriors()
	r.fit(append(r.progress.Observations(), r.priorObservations()...))
}

// fit fits the performance model to observations. If all of them are live cuts, no model exists; a failed fit keeps the
// previous one.
func (r *run) fit(obs []perf.Observation) {
	if !slices.ContainsFunc(obs, func(o perf.Observation) bool { return !o.LiveCut }) {
		r.model = nil // measurements in another unit of work predict nothing
		return
	}
	m, err := perf.Fit(obs, perf.FitOptions{Seed: uint64(r.Config.Seed), Widen: r.widen})
	if err != nil {
		r.warn(fmt.Sprintf("performance model: %v", err))
		return
	}
	r.model, r.modelRows = m, r.progress.Rows
	if r.rec.Model == nil {
		r.rec.Model = modelRecord(m)
	}
}

// modelRecord converts a model, with its leave-one-out checks, to its form in run.json.
func modelRecord(m *perf.Model) *journal.Model {
	form, params, basis := m.Describe()
	out := &journal.Model{Form: form, Params: map[string]journal.Number{}, Basis: basis, Ignored: m.Ignored(), Checks: []journal.Check{}}
	for k, v := range params {
		out.Params[k] = journal.Number(v)
	}
	for _, c := range m.LeaveOneOut() {
		out.Checks = append(out.Checks, journal.Check{Allocation: c.Allocation, Predicted: c.Predicted, Measured: journal.Number(c.Measured)})
	}
	if out.Ignored == nil {
		out.Ignored = []string{}
	}
	return out
}

// snapshot returns the input of a planner: the current state of the run.
func (r *run) snapshot() plan.Snapshot {
	s := plan.Snapshot{Host: r.host, Limits: r.limits, Spec: r.Config.SLA, Rates: r.rates, Preference: r.Config.Preference,
		Model: r.model, Done: r.progress.Done, Total: r.progress.knownTotal(r.recalledUnit), Baseline: r.baseline, Resumable: r.resumable,
		HoldBaseline: r.holdsBaseline(), ThreadKnob: r.maySizeThreads(), LiveCPU: r.maySqueeze(), LiveWorkers: r.liveWorkers(), Workers: r.workerRange(), Trials: r.progress.Trials(), Memory: r.needMemory, Startup: r.startup(), Restart: r.restartCost(),
		GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN(), Weights: r.weights, Reserve: r.reserve(), Recurrences: r.recurrences}
	if r.job != nil || r.started > 0 && len(r.progress.Segments) > 0 {
		s.Elapsed, s.Spent = r.elapsed(), cost.USD(r.spent())
		current := r.current
		s.Current = &current
		if seg := r.progress.Current(); seg != nil {
			s.GPUUtil, s.CPUUtil = mean(seg.GPUSum, seg.GPUN), mean(seg.CPUSum, seg.CPUN)
			if len(seg.Blocks) > 0 && r.progress.UnitSamples > 0 {
				s.Throughput = r.progress.UnitSamples / median(seg.Blocks)
			}
		}
	}
	return s
}

// holdsBaseline reports whether no allocation slower than the baseline may be chosen: no preference was stated, and
// either no limit is set or the machine is paid for as a whole, so that slower is never cheaper.
func (r *run) holdsBaseline() bool {
	return !r.Config.PreferenceGiven && (len(r.Config.SLA.Agreed()) == 0 || r.rates.Instance > 0)
}

// maySizeThreads reports whether a launch may size the thread pools of the job: its libraries support it, it runs on
// CPUs in one process, and the user has not sized them.
func (r *run) maySizeThreads() bool {
	return slices.Contains(r.ins.Reads, "OMP_NUM_THREADS") && r.baseline.GPUs == 0 && r.ranks <= 1 && len(resources.UserThreads(r.Environ)) == 0
}

// maySqueeze reports whether CPUs may be taken from the running job: they are priced individually, and no process of
// the job has a thread pool. A pool keeps its size from the launch and spins on too few CPUs, up to a hundred times
// slower.
func (r *run) maySqueeze() bool {
	if r.job == nil || r.rates.Instance > 0 {
		return false
	}
	pids, err := r.job.PIDs()
	if err != nil || len(pids) == 0 {
		return false
	}
	for _, pid := range pids {
		tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil || len(tasks) > 1 {
			return false
		}
	}
	return true
}

func (r *run) startup() sla.Interval {
	return spread(append(append([]float64(nil), r.startupS...), r.progress.StartupSeconds()...))
}

// restartCost returns the seconds of one more restart from measured restarts; before the first, from the measured
// start-up, plus a checkpoint that takes up to the same time again.
func (r *run) restartCost() sla.Interval {
	if all := append(append([]float64(nil), r.restartS...), r.progress.RestartSeconds()...); len(all) > 0 {
		return spread(all)
	}
	s := r.startup()
	if s == (sla.Interval{}) {
		return s
	}
	return sla.Interval{P5: s.P5, P50: s.P50 * 1.5, P95: s.P95 * 3}
}

// spread returns an interval for a few measurements: their range, widened for a small number of them.
func spread(v []float64) sla.Interval {
	if len(v) == 0 {
		return sla.Interval{}
	}
	m := median(v)
	lo, hi := slices.Min(v), slices.Max(v)
	widen := 1 + 1/float64(len(v))
	return sla.Interval{P5: math.Max(0, m-(m-lo)*widen-0.1*m/float64(len(v))), P50: m, P95: m + (hi-m)*widen + 0.5*m/float64(len(v))}
}

// planner returns the requested planner. If its agent file cannot be read, the performance model decides.
func (r *run) planner() plan.Planner {
	if r.Config.Planner != "morl" || r.Config.Agent == "" && r.learner == nil {
		return plan.Planners[r.Config.Planner]
	}
	if r.learner == nil {
		r.learner = new(plan.MORL)
		f, err := os.Open(r.Config.Agent)
		if err == nil {
			r.learner.Agent, err = plan.LoadAgent(f)
			f.Close()
		}
		if err != nil {
			r.learner.Broken = fmt.Errorf("agent file %s: %w", r.Config.Agent, err)
			r.warn(fmt.Sprintf("%v: the model decides", r.learner.Broken))
		}
	}
	return *r.learner
}

// decide calls the planner. If no allocation is feasible, it returns an Infeasible error with the plan for the
// nearest allocation. Any other failure of the planner yields the baseline.
func (r *run) decide() (p plan.Plan, err error) {
	failed := func(why any) (plan.Plan, error) { // a failure of the optimizer must not stop the training
		r.once(Warning, "planner", "the %s planner failed (%v): the baseline is kept", r.Config.Planner, why)
		return r.ownSettings(), nil
	}
	defer func() {
		if x := recover(); x != nil {
			p, err = failed(x)
		}
	}()
	p, err = r.planner().Decide(r.snapshot())
	if p.Learned != nil && p.Learned.Agent != "" {
		r.weights = &p.Learned.Weights
		r.doubt.expect(p, r.progress.Total-r.progress.Done)
	}
	var no *plan.Infeasible
	switch {
	case errors.As(err, &no):
		p = no.Plan
	case err != nil:
		return failed(err)
	}
	if bad := r.limits.Check(p.Allocation, r.host); bad != nil {
		return failed(bad)
	}
	return p, err
}

func (r *run) ownSettings() plan.Plan {
	return plan.Plan{Allocation: r.baseline, Planner: "static", Reason: "the baseline, unchanged", Binding: "none"}
}

// firstAllocation returns the allocation and the label of the first launch: the plan if earlier runs suffice for one,
// otherwise the baseline, which is measured first.
func (r *run) firstAllocation() (resources.Allocation, string) {
	if r.Config.Planner == "static" || r.Config.Samples < 0 {
		r.adopt(r.ownPlan())
		return r.plan.Allocation, "run"
	}
	if r.model != nil && measuredAllocations(r.recalled()) >= 2 || r.Config.Planner == "bandit" && len(r.recurrences) > 0 {
		p, err := r.decide()
		if err != nil {
			r.event(Problem, "%v", err)
		}
		r.adopt(p)
		r.event(Info, "earlier runs suffice, no probes needed: %s", p.Reason)
		return p.Allocation, "run"
	}
	r.priorPlan()
	return r.baseline, "probe"
}

func (r *run) ownPlan() plan.Plan {
	p, err := r.decide()
	if err != nil {
		r.event(Problem, "%v", err)
	}
	return p
}

// measuredAllocations returns the number of different allocation shapes in obs, live cuts excluded.
func measuredAllocations(obs []perf.Observation) int {
	n := 0
	for i, o := range obs {
		if !o.LiveCut && !slices.ContainsFunc(obs[:i], func(x perf.Observation) bool { return !x.LiveCut && x.Allocation.SameShape(o.Allocation) }) {
			n++
		}
	}
	return n
}

// adopt makes p the plan of the run.
func (r *run) adopt(p plan.Plan) {
	r.plan, r.phase = p, working
	if r.model != nil {
		r.rec.Model = modelRecord(r.model)
	}
	r.adaptedAt = r.progress.Done
	at := 0.0
	if len(r.progress.Segments) > 0 {
		at = r.elapsed().Seconds()
	}
	r.rec.Plan = r.planRecord(p, at)
	r.writeFront(p)
}

// planRecord returns a plan made at the elapsed second at with its prediction of the whole run.
func (r *run) planRecord(p plan.Plan, at float64) *journal.Plan {
	out := &journal.Plan{Plan: p, AtS: journal.Number(at)}
	if r.progress.knownTotal(r.recalledUnit) == 0 { // without a total the planner compares single units of work, which predict nothing about the run
		out.Candidates, out.Options = nil, nil
	} else if p.Predicted {
		sec, usd := r.wholeRun(p.Chosen.Seconds, p.Chosen.CostUSD, at, float64(r.rates.Hourly(p.Allocation)))
		out.Prediction = &journal.Prediction{AtS: journal.Number(at), Seconds: sec, CostUSD: usd, Throughput: p.Chosen.Throughput}
	}
	return out
}
