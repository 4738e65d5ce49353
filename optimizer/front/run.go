package front

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/chart"
	"trainopt/resources"
	"trainopt/sla"
)

// OfRun returns the candidates of the last decision of a run, finished or not. The error wraps ErrNoPoint when the
// run contains no prediction.
func OfRun(dir string) (Set, error) {
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		return Set{}, fmt.Errorf("front of run %s: %w", filepath.Base(dir), err)
	}
	if rec.Plan == nil || rec.Plan.Prediction == nil || len(rec.Plan.Candidates) == 0 {
		return Set{}, fmt.Errorf("front of run %s: nothing was predicted in it (state %s, %s): %w", rec.RunID, rec.State, planner(rec), ErrNoPoint)
	}
	set := Set{Subject: rec.RunID, Source: "run", Predicted: true, Preference: &rec.Preference, Share: "what the run was allowed"}
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

func ofCandidate(c plan.Candidate, taken bool) Point {
	return Point{Name: given(c.Allocation), Allocation: c.Allocation, Seconds: c.Seconds, CostUSD: c.CostUSD, Resource: c.Resource, Feasible: c.Feasible, Taken: taken}
}

// Described overrides properties of the recorded run for a new prediction. The zero value changes nothing.
type Described struct {
	// GPUs, CPUs, Memory and BatchSize are ranges "A:B"; empty means the machine of the run.
	GPUs, CPUs, Memory, BatchSize string
	Rates                         *cost.Rates // nil: those of the run
	Spec                          *sla.Spec   // nil: that of the run
	Seed                          uint64
}

// OfModel fits the performance model to all measurements of a run and predicts the whole job, from its start and
// without probes, at every allocation within d. The error wraps ErrNoPoint when the run has no measurements. An
// infeasible SLA is not an error: the points are then marked as infeasible.
func OfModel(dir string, d Described) (Set, error) {
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		return Set{}, fmt.Errorf("front of the model of run %s: %w", filepath.Base(dir), err)
	}
	fail := func(err error) (Set, error) {
		return Set{}, fmt.Errorf("front of the model of run %s: %w", rec.RunID, err)
	}
	obs := observations(rec)
	if len(obs) == 0 {
		return fail(fmt.Errorf("no unit of work was timed in it: %w", ErrNoPoint))
	}
	options := perf.FitOptions{Seed: d.Seed}
	if rec.Model != nil {
		if w, ok := rec.Model.Params["widen"]; ok && w.Known() {
			options.Widen = float64(w)
		}
	}
	model, err := perf.Fit(obs, options)
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
	set := Set{Subject: rec.RunID, Source: "model", Predicted: true, Preference: &rec.Preference, Share: "what is allowed here"}
	form, _, basis := model.Describe()
	set.Basis = fmt.Sprintf("predicted afresh for the whole job by the %s model fitted to what the run measured (%s)", form, basis)
	if s.Total == 0 {
		set.Notes = append(set.Notes, "the run does not say how long the job is: time and cost are of one unit of work")
	}
	outside := 0
	for _, c := range p.Candidates {
		set.Points = append(set.Points, ofCandidate(c, rec.Plan != nil && c.Allocation.SameShape(rec.Plan.Allocation)))
		if model.Extrapolates(c.Allocation) {
			outside++
		}
	}
	if outside > 0 {
		set.Notes = append(set.Notes, fmt.Sprintf("%d of %s lie outside of what was measured: see how wide their intervals are", outside, chart.Plural(len(p.Candidates), "allocation")))
	}
	return set, nil
}

// observations returns the measurements of a run with at least one timed unit.
func observations(rec *journal.Record) []perf.Observation {
	var out []perf.Observation
	for _, m := range rec.Measured {
		o := perf.Observation{Allocation: m.Allocation, PeakMemoryGiB: float64(m.PeakMemoryGiB), LiveCut: m.LiveCut}
		for _, u := range m.UnitSeconds {
			if u.Known() && u > 0 {
				o.UnitSeconds = append(o.UnitSeconds, float64(u))
			}
		}
		if m.UnitSamples.Known() {
			o.UnitSamples = float64(m.UnitSamples)
		}
		if len(o.UnitSeconds) > 0 {
			out = append(out, o)
		}
	}
	return out
}

// snapshot returns the state before the start of the job, with all measurements of the run.
func snapshot(rec *journal.Record, model *perf.Model, d Described) (plan.Snapshot, error) {
	s := plan.Snapshot{Host: resources.Host{CPUs: rec.Host.CPUs, Memory: resources.GiB(rec.Host.MemoryGiB)}, Preference: rec.Preference, Model: model,
		Rates: RatesOf(rec.Prices), GPUUtil: math.NaN(), CPUUtil: math.NaN(), Throughput: math.NaN()}
	usesGPU := false
	for _, g := range rec.Host.GPUs {
		s.Host.GPUs = append(s.Host.GPUs, resources.GPU{UUID: g.UUID, Name: g.Name, Memory: resources.GiB(g.MemoryGiB)})
	}
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
	s.Spec = specOf(rec.SLA)
	if d.Spec != nil {
		s.Spec = *d.Spec
	}
	if d.Rates != nil {
		s.Rates = *d.Rates
	}
	s.Limits = resources.DefaultLimits(s.Host, usesGPU)
	return s, describe(&s, d)
}

// describe applies the overrides to the limits. Limits beyond the machine of the run are extrapolated by the model.
func describe(s *plan.Snapshot, d Described) error {
	var errs []error
	whole := func(flag, text string, into *resources.Range) {
		if text == "" {
			return
		}
		r, err := resources.ParseRange(text, *into)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", flag, err))
			return
		}
		*into = r
	}
	whole("gpus", d.GPUs, &s.Limits.GPUs)
	whole("cpus", d.CPUs, &s.Limits.CPUs)
	whole("batch-size", d.BatchSize, &s.Limits.BatchSize)
	if d.Memory != "" {
		lo, hi, err := resources.ParseMemoryRange(d.Memory, s.Limits.MemoryMin, s.Limits.MemoryMax)
		if err != nil {
			errs = append(errs, fmt.Errorf("--memory: %w", err))
		}
		s.Limits.MemoryMin, s.Limits.MemoryMax = lo, hi
	}
	if s.Limits.CPUs.Max < 1 {
		errs = append(errs, errors.New("--cpus: a job needs at least 1 CPU"))
	}
	const most = 4096
	if s.Limits.CPUs.Max > most || s.Limits.GPUs.Max > most {
		errs = append(errs, fmt.Errorf("more than %d CPUs or GPUs for one job", most))
	}
	return errors.Join(errs...)
}

// RatesOf returns the prices recorded by a run.
func RatesOf(p journal.Prices) cost.Rates {
	known := func(n journal.Number) cost.USD {
		if !n.Known() {
			return 0
		}
		return cost.USD(n)
	}
	return cost.Rates{GPUHour: known(p.GPUHour), CPUHour: known(p.CPUHour), GiBHour: known(p.GiBHour), Instance: known(p.InstanceHour), Source: p.Source, Dated: p.Dated}
}

// specOf returns the SLA recorded by a run.
func specOf(s journal.SLA) sla.Spec {
	known := func(n journal.Number) float64 {
		if !n.Known() {
			return 0
		}
		return float64(n)
	}
	return sla.Spec{TimeMax: time.Duration(known(s.DeadlineS) * float64(time.Second)), CostMaxUSD: known(s.BudgetUSD), ThroughputMin: known(s.MinThroughput),
		MemoryMaxGiB: known(s.MaxMemoryGiB), GPUUtilMinPct: known(s.MinGPUUtil), CPUUtilMinPct: known(s.MinCPUUtil)}
}
