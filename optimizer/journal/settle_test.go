package journal

import (
	"testing"

	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

func cpuProbe(n int) Probe {
	p := Blank[Probe]()
	p.Allocation, p.UnitSeconds = resources.Allocation{CPUs: n, Memory: 1}, []Number{1, 1}
	return p
}

// ended returns the unsettled record of a run with a deadline, a baseline of 2 CPUs, and a comparison.
func ended(state State, reason string, measured ...Probe) *Record {
	r := NewRecord()
	r.State, r.Exit = state, &Exit{Reason: reason}
	value := 5.7
	r.SLA.Verdicts = []sla.Verdict{
		{Objective: sla.Time, Limit: 6, Value: &value, Status: sla.Met},
		{Objective: sla.Cost, Limit: 1, Value: &value, Status: sla.AtRisk},
	}
	r.SLA.Compliance = 1
	r.Measured = measured
	r.Baseline = &Baseline{Allocation: resources.Allocation{CPUs: 2, Memory: 4}}
	r.Comparison.SecondsChangePct = -48.9
	r.Training.TotalUnits = 10
	r.Plan = &Plan{Plan: plan.Plan{Candidates: []plan.Candidate{{}}, Options: []plan.Option{{}}}, Prediction: &Prediction{}}
	return r
}

// TestSettleVerdicts: verdicts supported by each end of a run.
func TestSettleVerdicts(t *testing.T) {
	for name, c := range map[string]struct {
		state  State
		reason string
		time   sla.Status
		cost   sla.Status
		share  Number
	}{
		"finished":             {Done, "exited", sla.Met, sla.AtRisk, 1},
		"running":              {Running, "", sla.Met, sla.AtRisk, 1},
		"stopped by deadline":  {Stopped, "deadline", sla.Violated, sla.Unknown, 0},
		"stopped by budget":    {Stopped, "budget", sla.Unknown, sla.Violated, 0},
		"stopped by the user":  {Stopped, "user", sla.Unknown, sla.Unknown, Unknown()},
		"killed from outside":  {Failed, "killed", sla.Unknown, sla.Unknown, Unknown()},
		"out of memory":        {Failed, "oom", sla.Unknown, sla.Unknown, Unknown()},
		"failed by itself":     {Failed, "exited", sla.Unknown, sla.Unknown, Unknown()},
		"failed to start":      {Failed, "start-failed", sla.Unknown, sla.Unknown, Unknown()},
		"lost":                 {Failed, "lost", sla.Unknown, sla.Unknown, Unknown()},
		"failed at a deadline": {Failed, "deadline", sla.Unknown, sla.Unknown, Unknown()},
	} {
		t.Run(name, func(t *testing.T) {
			r := ended(c.state, c.reason, cpuProbe(2), cpuProbe(1))
			for range 2 { // settling is idempotent
				r.Settle()
				if got := r.SLA.Verdicts; got[0].Status != c.time || got[1].Status != c.cost {
					t.Errorf("time %s, cost %s; want %s, %s", got[0].Status, got[1].Status, c.time, c.cost)
				}
				if got := r.SLA.Compliance; got.Known() != c.share.Known() || got.Known() && got != c.share {
					t.Errorf("compliance %v, want %v", got, c.share)
				}
				if finished := c.state == Done; r.Comparison.SecondsChangePct.Known() != finished {
					t.Errorf("comparison %v of a run that is %s", r.Comparison.SecondsChangePct, c.state)
				}
			}
		})
	}
}

// TestSettleComparison: a saving requires a different allocation and two measurements in the run.
func TestSettleComparison(t *testing.T) {
	for name, c := range map[string]struct {
		measured []Probe
		basis    string
		want     string
		numbers  bool
	}{
		"baseline, then another": {[]Probe{cpuProbe(2), cpuProbe(1)}, "", BasisThisRun, true},
		"baseline only":          {[]Probe{cpuProbe(2), cpuProbe(2)}, "", BasisSame, false},
		"baseline recalled":      {[]Probe{cpuProbe(1)}, "", BasisEarlier, false},
		"disturbed":              {[]Probe{cpuProbe(2), cpuProbe(1)}, BasisDisturbed, BasisDisturbed, false},
		"unsteady":               {[]Probe{cpuProbe(2), cpuProbe(1)}, BasisUnsteady, BasisUnsteady, false},
		"nothing timed":          {nil, "", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := ended(Done, "exited", c.measured...)
			r.Comparison.Basis = c.basis
			r.Settle()
			r.Settle()
			if r.Comparison.Basis != c.want || r.Comparison.SecondsChangePct.Known() != c.numbers {
				t.Errorf("basis %q, change %v; want %q, numbers %t", r.Comparison.Basis, r.Comparison.SecondsChangePct, c.want, c.numbers)
			}
		})
	}
}

// TestSettlePrediction: the prediction of a run of unknown length is for one unit of work, and is removed.
func TestSettlePrediction(t *testing.T) {
	for name, c := range map[string]struct {
		total  Number
		epochs int
		kept   bool
	}{
		"total in the log": {10, 0, true},
		"total given":      {Unknown(), 5, true},
		"total unknown":    {Unknown(), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := ended(Done, "exited", cpuProbe(2))
			r.Training.TotalUnits, r.Handed.Epochs = c.total, c.epochs
			r.Settle()
			if kept := r.Plan.Prediction != nil; kept != c.kept || len(r.Plan.Candidates) > 0 != c.kept || len(r.Plan.Options) > 0 != c.kept {
				t.Errorf("prediction %v, %d candidates, %d options; want kept: %t", r.Plan.Prediction, len(r.Plan.Candidates), len(r.Plan.Options), c.kept)
			}
		})
	}
}

// TestEndedEarly: a finished run may have done less than its total.
func TestEndedEarly(t *testing.T) {
	for _, c := range []struct {
		name        string
		state       State
		unit        string
		done, total Number
		want        bool
	}{
		{"early stopping", Done, "epoch", 9, 100, true},
		{"whole", Done, "epoch", 100, 100, false},
		{"last batch dropped", Done, "epoch", 99.9, 100, false},
		{"stopped", Stopped, "epoch", 9, 100, false},
		{"steps", Done, "step", 9, 100, true},
		{"total unknown", Done, "epoch", 9, Unknown(), false},
		{"work unknown", Done, "epoch", Unknown(), 100, false},
	} {
		r := &Record{State: c.state, Training: Training{Unit: c.unit, TotalUnits: c.total}, Outcome: Outcome{Epochs: c.done, Steps: Unknown()}}
		if c.unit == "step" {
			r.Outcome.Epochs, r.Outcome.Steps = Unknown(), c.done
		}
		if got := r.EndedEarly(); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// TestSettleRestarts: the time and money of restarts are removed if a restart that was not timed counts as nothing.
func TestSettleRestarts(t *testing.T) {
	for name, c := range map[string]struct {
		restarts int
		timed    []Number
		overhead Number
		known    bool
	}{
		"none":            {0, nil, 0, true},
		"timed":           {1, []Number{2}, 2, true},
		"not timed":       {1, nil, 0, false},
		"one of two only": {2, []Number{2}, 2, false},
		"after a failure": {2, []Number{2}, 5, true},
	} {
		for _, state := range []State{Running, Done, Stopped} {
			r := ended(state, "exited", cpuProbe(2))
			r.Outcome.Restarts, r.Overheads.RestartSeconds = c.restarts, c.timed
			r.Outcome.OverheadSeconds, r.Waste.Restarts = c.overhead, c.overhead
			r.Settle()
			if r.Outcome.OverheadSeconds.Known() != c.known || r.Waste.Restarts.Known() != c.known {
				t.Errorf("%s, %s: %v s, $%v; want known: %t", name, state, r.Outcome.OverheadSeconds, r.Waste.Restarts, c.known)
			}
		}
	}
}
