package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/internal/stat"
	"trainopt/internal/wording"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// planning is the performance model and the plan of a run.
type planning struct {
	model     *perf.Model   // nil without a measurement
	modelRows int           // log rows included in the last fit
	modelAt   time.Duration // of the last fit for a projection, monotonic
	plan      plan.Plan
	learner   *plan.MORL  // planner with the user's agent file
	weights   *[4]float64 // weights of the agent's last decision
	critics   critics
	budget    planningBudget
}

// refuseIfHopeless refuses the run before its start if earlier runs of the same training show that no allowed
// allocation can meet the SLA.
func (r *run) refuseIfHopeless() (Result, bool) {
	all := r.model
	r.fit(r.recalled()) // similar runs are not evidence enough for a refusal
	_, err := r.decide()
	r.model = all
	var no *plan.Infeasible
	if !errors.As(err, &no) || no.Nearest.Chance > 0 {
		return Result{}, false
	}
	if r.Confirm != nil && r.Confirm("No allocation meets the SLA: "+no.Why+"\nStart anyway and stop at the limit?") {
		r.Config.Anyway = true
		r.warn("started although earlier runs predict that no allocation meets the SLA: " + no.Why)
		return Result{}, false
	}
	r.rec.Plan = r.planRecord(no.Plan, 0)
	way := "; --yes starts it all the same and stops it at the limit"
	if r.Lease != nil { // of a cluster, which has no such option
		way = ""
	}
	return Result{Code: CodeInfeasible, Err: fmt.Errorf("%s (known from %s)%s", no.Why, r.rec.Model.Basis, way), Record: r.rec}, true
}

// firstAllocation returns the allocation and the label of the first launch: the plan if earlier runs suffice for one,
// otherwise the baseline, which is measured first.
func (r *run) firstAllocation() (resources.Allocation, string) {
	if r.Config.Planner == "static" || r.Config.Samples < 0 {
		r.planWithoutProbes()
		return r.plan.Allocation, "run"
	}
	if r.model != nil && measuredAllocations(r.recalled()) >= 2 || r.Config.Planner == "bandit" && len(r.recurrences) > 0 {
		r.planWithoutProbes()
		r.event(Info, "earlier runs suffice, no probes needed: %s", r.plan.Reason)
		return r.plan.Allocation, "run"
	}
	r.priorPlan()
	return r.Baseline, "probe"
}

func (r *run) planWithoutProbes() {
	p, err := r.decide()
	if err != nil {
		r.event(Problem, "%v", err)
	}
	r.setPlan(p)
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

// priorPlan records the prediction for a run that begins with the measurement of the baseline.
func (r *run) priorPlan() {
	if r.model == nil {
		return
	}
	p, _ := plan.Static{}.Decide(r.snapshot()) // the run begins there even if it is infeasible
	if !p.Predicted || !p.Allocation.SameShape(r.Baseline) {
		return
	}
	p.Reason = "the baseline is measured first"
	r.rec.Plan = r.planRecord(p, 0)
	r.explain()
}

// explain shows the evidence for the plan if the user asked for it.
func (r *run) explain() {
	if r.Config.Explain {
		r.View.Planned(r.rec)
	}
}

// settle makes the plan and moves the job to its allocation.
func (r *run) settle() {
	p, err := r.decide()
	var no *plan.Infeasible
	if errors.As(err, &no) {
		r.event(Problem, "%s", no.Why)
	}
	p = plan.StayUnlessWorth(r.snapshot(), p)
	r.setPlan(p)
	r.event(Info, "plan: %s — %s", p.Allocation, p.Reason)
	r.explain()
	r.moveTo(p)
}

// setPlan makes p the plan of the run.
func (r *run) setPlan(p plan.Plan) {
	r.plan, r.Phase = p, working
	if r.model != nil {
		r.rec.Model = modelRecord(r.model)
	}
	r.AdaptedAt = r.Progress.Done
	at := 0.0
	if len(r.Progress.Segments) > 0 {
		at = r.elapsed().Seconds()
	}
	r.rec.Plan = r.planRecord(p, at)
	r.writeFront(p)
	r.tellPlan(r.rec.Plan)
}

// planRecord returns a plan made at the elapsed second at with its prediction of the whole run.
func (r *run) planRecord(p plan.Plan, at float64) *journal.Plan {
	out := &journal.Plan{Plan: p, AtS: journal.Number(at)}
	if r.total() == 0 { // without a total the planner compares single units of work, which predict nothing about the run
		out.Candidates, out.Options = nil, nil
	} else if p.Predicted {
		out.Prediction = &journal.Prediction{AtS: journal.Number(at), Seconds: p.Chosen.Seconds, CostUSD: p.Chosen.CostUSD, Throughput: r.overall(p.Chosen.Throughput)}
		if at > 0 {
			out.Prediction.QueueSeconds = r.queuedSoFar()
		}
	}
	return out
}

// queuedSoFar returns the time of waiting for places until now, which a prediction from the elapsed time includes.
func (r *run) queuedSoFar() *float64 {
	s := r.QueuedS
	return &s
}

// overall returns the throughput of the whole run if the rest of its work has the given one.
func (r *run) overall(rest sla.Interval) sla.Interval {
	rate, _ := r.Progress.throughput()
	done := math.Min(r.Progress.Done/r.total(), 1)
	if !(rate > 0 && done > 0) {
		return rest
	}
	mean := func(rest float64) float64 { return 1 / (done/rate + (1-done)/rest) }
	return sla.Interval{P5: mean(rest.P5), P50: mean(rest.P50), P95: mean(rest.P95)}
}

// refit fits the performance model to all measurements, of this run and of earlier ones.
func (r *run) refit() {
	r.weighPriors()
	r.fit(append(r.Progress.Observations(), r.priorObservations()...))
}

// fit fits the performance model to observations. If all of them are live cuts, no model exists; a failed fit keeps the
// previous one.
func (r *run) fit(obs []perf.Observation) {
	if !slices.ContainsFunc(obs, func(o perf.Observation) bool { return !o.LiveCut }) {
		r.model = nil // measurements in another unit of work predict nothing
		return
	}
	m, err := perf.Fit(obs, perf.FitOptions{Seed: uint64(r.Config.Seed), Widen: r.widen, Unsettled: r.ended == nil && r.Progress.unsettled() && len(r.recalled()) == 0})
	if err != nil {
		r.warn(fmt.Sprintf("performance model: %v", err))
		return
	}
	r.model, r.modelRows = m, r.Progress.Rows
	if r.rec.Model == nil {
		r.rec.Model = modelRecord(m)
	}
}

// modelRecord converts a model, with its leave-one-out checks, to its form in run.json.
func modelRecord(m *perf.Model) *journal.Model {
	form, params, basis := m.Describe()
	out := &journal.Model{Form: form, Params: map[string]journal.Number{}, Basis: basis, Ignored: m.IgnoredKnobs(), Checks: []journal.Check{}}
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
	s := plan.Snapshot{Host: r.Host, Limits: r.Limits, Spec: r.Config.SLA, Rates: r.Rates, Preference: r.Config.Preference,
		Model: r.model, Done: r.Progress.Done, Total: r.total(), Baseline: r.Baseline, Resumable: r.Resumable && !r.inputUsed(),
		HoldBaseline: r.holdsBaseline(), ThreadKnob: r.maySizeThreads(), LiveCPU: r.mayReduceCPUs(), LiveWorkers: r.liveWorkers(), Workers: r.workerRange(), Trials: r.Progress.Trials(), Memory: r.NeedMemory, Startup: r.startup(), Restart: r.restartCost(), Ending: r.ending(),
		GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN(), Weights: r.weights, Reserve: r.reserve(), Recurrences: r.recurrences, ProbeTime: r.probeTime()}
	switch {
	case r.Resumable && r.inputUsed():
		s.Stays = "the job has read its standard input, which a restarted one could not read again"
	case !r.Resumable && r.canResume():
		s.Stays = "the job resumes from its own checkpoints only, by " + r.resumptionWords()
	}
	if r.memoryFollows() {
		s.Charged = r.charged
	}
	if r.Config.SpotNotice != "" { // the machine may be reclaimed
		s.Interruptions = cost.AssumedSpot(0, 0, r.Resumable)
	}
	if at, allocation := r.deadline(); allocation && !r.beyond {
		s.Spec.TimeMax = at
	}
	if r.job != nil || r.started > 0 && len(r.Progress.Segments) > 0 {
		s.Elapsed, s.Spent = r.elapsed(), cost.USD(r.spent())
		current := r.Current
		s.Current = &current
		if seg := r.Progress.Current(); seg != nil {
			s.GPUUtil, s.CPUUtil = mean(seg.GPUSum, seg.GPUN), mean(seg.CPUSum, seg.CPUN)
			if len(seg.Blocks) > 0 && r.Progress.UnitSamples > 0 {
				s.Throughput = r.Progress.UnitSamples / stat.Median(seg.Blocks)
			}
		}
	}
	return s
}

// holdsBaseline reports whether no allocation slower than the baseline may be chosen: no preference was stated, and
// either no limit is set or the machine is paid for as a whole, so that slower is never cheaper.
func (f *facts) holdsBaseline() bool {
	return !f.Config.PreferenceGiven && (len(f.Config.SLA.Agreed()) == 0 || f.Rates.Instance > 0)
}

// maySizeThreads reports whether a launch may size the thread pools of the job: its libraries support it, it runs on
// CPUs in one process, and the user has not sized them.
func (r *run) maySizeThreads() bool {
	return slices.Contains(r.ins.Reads, "OMP_NUM_THREADS") && r.Baseline.GPUs == 0 && r.ranks <= 1 && len(resources.UserThreads(r.Environ)) == 0
}

// mayReduceCPUs reports whether CPUs may be taken from the running job: they are priced individually, and no process of
// the job has a thread pool. A pool keeps its size from the launch and spins on too few CPUs, up to a hundred times
// slower.
func (r *run) mayReduceCPUs() bool {
	if r.tree == nil || r.Rates.Instance > 0 {
		return false
	}
	pids, err := r.tree.PIDs()
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

// decideBeyondAllocation completes a decision whose deadline is the end of the allocation. If no plan ends within it,
// the decision is made for the user's limits alone: a training that exceeds its allocation is stopped with a
// checkpoint, not refused.
func (r *run) decideBeyondAllocation(p plan.Plan, err error) (plan.Plan, error) {
	var no *plan.Infeasible
	if !errors.As(err, &no) {
		p.Reason += "; the deadline is " + r.deadlineSource()
		return p, err
	}
	r.beyond = true
	p, err = r.planner().Decide(r.snapshot())
	then := "it will be stopped then, and resumes from its checkpoint"
	if !r.keepsWork() {
		then = "it keeps no checkpoint: its work will be lost then; request more time from Slurm (--time)"
	}
	r.eventOnce(Warning, "allocation", "the training is not predicted to end before %s: %s", r.deadlineSource(), then)
	return p, err
}

// decide calls the planner. If no allocation is feasible, it returns an Infeasible error with the plan for the
// nearest allocation. Any other failure of the planner yields the baseline.
func (r *run) decide() (p plan.Plan, err error) {
	failed := func(why any) (plan.Plan, error) { // a failure of the optimizer must not stop the training
		r.eventOnce(Warning, "planner", "the %s planner failed (%v): the baseline is kept", r.Config.Planner, why)
		return r.ownSettings(), nil
	}
	defer func() {
		if x := recover(); x != nil {
			p, err = failed(x)
		}
	}()
	r.beyond = false
	if r.Resumable && r.inputUsed() {
		r.eventOnce(Info, "input", "the job stays where it is: its standard input is a pipe, which a restarted job could not read again (</dev/null gives it none)")
	}
	p, err = r.planner().Decide(r.snapshot())
	if _, allocation := r.deadline(); allocation {
		p, err = r.decideBeyondAllocation(p, err)
	}
	if p.Learned != nil && p.Learned.Agent != "" {
		r.weights = &p.Learned.Weights
		r.critics.evidence.expect(p, r.Progress.Total-r.Progress.Done)
	}
	var no *plan.Infeasible
	switch {
	case errors.As(err, &no):
		p = no.Plan
	case err != nil:
		return failed(err)
	}
	if bad := r.Limits.Check(p.Allocation, r.Host); bad != nil {
		return failed(bad)
	}
	return p, err
}

// Fitting and planning while the job runs may use planningShare of one CPU: after a computation of duration d, the next
// one waits for d divided by it. A long run has less and less to learn: all computations together may use
// freePlanningTime plus longRunPlanningShare of the supervised time, which is the tighter bound after about two and a
// half minutes.
const (
	planningShare        = 0.005
	longRunPlanningShare = 0.002
	freePlanningTime     = 300 * time.Millisecond
)

// planningBudget bounds the CPU time that the agent spends on fitting and planning while the job runs.
type planningBudget struct {
	next  time.Duration // monotonic clock before which the agent neither fits nor plans
	spent time.Duration
}

// charge records a computation; supervised is the time since this agent began or took over the run, at the end of it.
func (b *planningBudget) charge(from, to, supervised time.Duration) {
	b.spent += to - from
	b.next = to + planningCooldown(to-from, b.spent, supervised)
}

// planningCooldown returns the minimum delay before the next computation, after one of duration d that brings the
// total of a run to spent.
func planningCooldown(d, spent, supervised time.Duration) time.Duration {
	share := time.Duration(float64(d) / planningShare)
	long := time.Duration(float64(spent-freePlanningTime)/longRunPlanningShare) - supervised
	return max(share, long)
}

// mayPlan reports whether the agent may fit and plan again, so that short units of work do not keep it busy.
func (r *run) mayPlan() bool { return r.Clock.Monotonic() >= r.budget.next }

// runPlanning runs a computation and charges its duration.
func (r *run) runPlanning(work func()) {
	from := r.Clock.Monotonic()
	work()
	now := r.Clock.Monotonic()
	r.budget.charge(from, now, now-r.started)
}

// dryRun plans without starting anything. Without an earlier run, or without a known total, it reports what a run
// would measure: a plan compares whole runs, and the pace of a single unit of work does not determine a deadline or a
// budget.
func (r *run) dryRun(ctx context.Context) Result {
	if r.model == nil {
		r.event(Warning, "no prediction: no earlier run of this training on this machine, and a dry run measures nothing")
		r.event(Info, "%s", r.wouldMeasure())
		r.showPlan(ctx)
		return Result{Code: CodeDone, Record: r.rec}
	}
	if r.total() == 0 {
		r.event(Warning, "no prediction: the total amount of work is unknown (--epochs N or --steps N sets it)")
		r.rateEvents()
		r.event(Info, "%s", r.wouldMeasure())
		r.rec.Plan = nil
		r.showPlan(ctx)
		return Result{Code: CodeDone, Record: r.rec}
	}
	p, err := r.decide()
	r.rec.Plan = r.planRecord(p, 0)
	var no *plan.Infeasible
	if errors.As(err, &no) && len(r.recalled()) == 0 {
		level := Warning
		if r.priors[0].samples != 0 {
			level = Info
		}
		r.event(level, "%s; that is known of similar runs only, and refuses nothing", no.Why)
	} else if errors.As(err, &no) {
		return Result{Code: CodeInfeasible, Record: r.rec, Err: no}
	}
	if len(r.recalled()) == 0 {
		r.event(Info, "%s", r.wouldMeasure())
	}
	r.showPlan(ctx)
	return Result{Code: CodeDone, Record: r.rec}
}

// otherPlaces is the number of places of an engine that a dry run compares with its own.
const otherPlaces = 3

// showPlan shows the plan of a dry run, with the predicted start on an engine.
func (r *run) showPlan(ctx context.Context) {
	a, seconds, costs := r.Baseline, (*sla.Interval)(nil), (*sla.Interval)(nil)
	if p := r.rec.Plan; p != nil {
		a = p.Allocation
		if p.Prediction != nil {
			seconds, costs = &p.Prediction.Seconds, &p.Prediction.CostUSD
		}
	}
	r.forecast(ctx, a, otherPlaces, seconds, costs)
	r.View.Planned(r.rec)
}

// rateEvents shows the pace of each allocation that earlier runs measured.
func (r *run) rateEvents() {
	unit := cmp.Or(r.Progress.Unit, r.recalledUnit)
	for _, a := range r.model.Measured() {
		t := r.model.UnitSeconds(a)
		r.event(Info, "measured earlier at %s: %s (90 %% interval %s to %s)", a, perUnit(t.P50, unit), wording.Duration(t.P5), wording.Duration(t.P95))
	}
}

// wouldMeasure describes the measurements of a run before its plan.
func (r *run) wouldMeasure() string {
	if r.Config.Samples < 0 || r.Config.Planner == "static" {
		return fmt.Sprintf("a run would start at %s and stay there: probes are off", r.Baseline)
	}
	text := fmt.Sprintf("a run would first measure the baseline, %s", r.Baseline)
	n := len(plan.Allocations(r.snapshot()))
	if n <= 1 {
		return text + ", the only allowed allocation"
	}
	if r.total() == 0 {
		return text + fmt.Sprintf("; up to %d of the other %d allowed allocations follow once the total amount of work is known, for at most %.0f %% of the predicted cost",
			min(n-1, r.Config.Samples-1), n-1, 100*r.Config.Ratio)
	}
	return text + fmt.Sprintf(", then up to %d of the other %d allowed allocations, for at most %.0f %% of the predicted cost",
		min(n-1, r.Config.Samples-1), n-1, 100*r.Config.Ratio)
}
