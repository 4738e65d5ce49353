package analysis

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// FromRun returns the candidates of the last decision of a run, finished or not. The error wraps errNoPoint when the
// run contains no prediction.
func FromRun(dir string) (FrontPoints, error) {
	rec, err := journal.ReadVerified(dir)
	if err != nil {
		return FrontPoints{}, fmt.Errorf("front of run %s: %w", filepath.Base(dir), err)
	}
	if rec.Plan == nil || rec.Plan.Prediction == nil || len(rec.Plan.Candidates) == 0 {
		return FrontPoints{}, fmt.Errorf("front of run %s: nothing was predicted in it (state %s, %s): %w", rec.RunID, rec.State, planner(rec), errNoPoint)
	}
	set := FrontPoints{Subject: rec.RunID, Source: "run", Predicted: true, Preference: &rec.Preference, Share: "what the run was allowed"}
	set.Basis = fmt.Sprintf("predicted for the whole run, %s into it, when its %s planner last decided; what was spent until then is included", duration(max(0, float64(rec.Plan.AtS))), rec.Plan.Planner)
	for _, c := range rec.Plan.Candidates {
		set.Points = append(set.Points, ofCandidate(c, c.Allocation.Same(rec.Plan.Allocation)))
	}
	return set, nil
}

func planner(rec *journal.Record) string {
	if rec.Plan == nil {
		return "no plan"
	}
	return "planner " + rec.Plan.Planner
}

func ofCandidate(c plan.Candidate, taken bool) point {
	return point{Name: given(c.Allocation), Allocation: c.Allocation, Seconds: c.Seconds, CostUSD: c.CostUSD, Resource: c.Resource,
		Feasible: c.Feasible || c.Slower && len(c.Breaks) == 0, Taken: taken} // slower than the baseline, it still meets the SLA
}

// ModelOverrides replaces properties of the recorded run for a new prediction. The zero value changes nothing.
type ModelOverrides struct {
	resources.Ranges             // within the machine of the run
	Rates            *cost.Rates // nil: those of the run
	Spec             *sla.Spec   // nil: that of the run
	Seed             uint64
}

// FromModel fits the performance model to all measurements of a run and predicts the whole job, from its start and
// without probes, at every allocation within d. The error wraps errNoPoint when the run has no measurements. An
// infeasible SLA is not an error: the points are then marked as infeasible.
func FromModel(dir string, d ModelOverrides) (FrontPoints, error) {
	rec, err := journal.ReadVerified(dir)
	if err != nil {
		return FrontPoints{}, fmt.Errorf("front of the model of run %s: %w", filepath.Base(dir), err)
	}
	fail := func(err error) (FrontPoints, error) {
		return FrontPoints{}, fmt.Errorf("front of the model of run %s: %w", rec.RunID, err)
	}
	obs := rec.Observations()
	if len(obs) == 0 {
		return fail(fmt.Errorf("no unit of work was timed in it: %w", errNoPoint))
	}
	model, err := perf.Fit(obs, perf.FitOptions{Seed: d.Seed, Widen: rec.Model.Widen()})
	if err != nil {
		return fail(err)
	}
	s, err := snapshot(rec, model, d)
	if err != nil {
		return fail(err)
	}
	p, err := plan.Planners["model"].Decide(s)
	var no *plan.Infeasible
	if errors.As(err, &no) {
		p, err = no.Plan, nil
	}
	if err != nil {
		return fail(err)
	}
	set := FrontPoints{Subject: rec.RunID, Source: "model", Predicted: true, Preference: &rec.Preference, Share: "what is allowed here"}
	form, _, basis := model.Describe()
	set.Basis = fmt.Sprintf("predicted afresh for the whole job by the %s model fitted to what the run measured (%s)", form, basis)
	if s.Total == 0 {
		set.Notes = append(set.Notes, "the length of the job is unknown: time and cost are per unit of work")
	}
	outside := 0
	for _, c := range p.Candidates {
		set.Points = append(set.Points, ofCandidate(c, rec.Plan != nil && c.Allocation.SameShape(rec.Plan.Allocation)))
		if model.Extrapolates(c.Allocation) {
			outside++
		}
	}
	if outside > 0 {
		set.Notes = append(set.Notes, fmt.Sprintf("%d of %s lie outside of what was measured: see how wide their intervals are", outside, page.Plural(len(p.Candidates), "allocation")))
	}
	return set, nil
}

// snapshot returns the state before the start of the job, with all measurements of the run.
func snapshot(rec *journal.Record, model *perf.Model, d ModelOverrides) (plan.Snapshot, error) {
	s := plan.Snapshot{Host: rec.Host.Host, Preference: rec.Preference, Model: model, Spec: rec.SLA.Spec, Rates: rec.Prices.Rates,
		GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN()}
	usesGPU := false
	for _, m := range rec.Measured {
		usesGPU = usesGPU || m.Allocation.GPUs > 0
		if s.Baseline.CPUs == 0 {
			s.Baseline = m.Allocation
		}
	}
	if rec.Baseline != nil {
		s.Baseline = rec.Baseline.Allocation
	}
	s.Baseline.GPUIDs = nil
	if rec.Training.TotalUnits.Known() {
		s.Total = float64(rec.Training.TotalUnits)
	}
	if v := rec.Overheads.StartupSeconds; len(v) > 0 {
		var all []float64
		for _, n := range v {
			all = append(all, float64(n))
		}
		slices.Sort(all)
		s.Startup = sla.Interval{P5: all[0], P50: all[len(all)/2], P95: all[len(all)-1]}
	}
	if d.Spec != nil {
		s.Spec = *d.Spec
	}
	if d.Rates != nil {
		s.Rates = *d.Rates
	}
	s.Limits = s.Host.DefaultLimits(usesGPU)
	if err := restrict(&s.Limits, d); err != nil {
		return s, err
	}
	if math.IsNaN(float64(s.Rates.Hourly(s.Baseline))) {
		return s, fmt.Errorf("it does not record the prices of %s; give --rates, --instance or single prices: %w", s.Baseline, errNoPoint)
	}
	return s, nil
}

// maxDevices bounds the CPUs and the GPUs of the overrides.
const maxDevices = 4096

// restrict applies the overrides to the limits. Limits beyond the machine of the run are extrapolated by the model.
func restrict(l *resources.Limits, d ModelOverrides) error {
	errs := []error{l.Restrict(d.Ranges)}
	if l.CPUs.Max < 1 {
		errs = append(errs, errors.New("--cpus: a job needs at least 1 CPU"))
	}
	if l.CPUs.Max > maxDevices || l.GPUs.Max > maxDevices {
		errs = append(errs, fmt.Errorf("more than %d CPUs or GPUs for one job", maxDevices))
	}
	return errors.Join(errs...)
}
