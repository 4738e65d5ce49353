package run

import (
	"math"
	"strings"
	"testing"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// A renewal requires both: a severe projected violation at several consecutive checks, and critics that predicted the
// pace worse than the model alone.
func TestDoubtNeedsAllItsEvidence(t *testing.T) {
	severity := func(x float64) []sla.Verdict { return []sla.Verdict{{Objective: sla.Time, Severity: &x}} }
	for name, c := range map[string]struct {
		shift    float64 // of the critics, where the model is right
		severity float64
		looks    int
		want     bool
	}{
		"missed, critics wrong":          {1.3, 0.5, 3, true},
		"missed, critics right":          {1.0, 0.5, 9, false},
		"missed, critics a little wrong": {1.02, 0.5, 9, false},
		"kept, critics wrong":            {1.3, 0, 9, false},
		"a little missed, critics wrong": {1.3, 0.2, 9, false},
		"missed at two looks only":       {1.3, 0.5, 2, false},
	} {
		var d criticEvidence
		got := false
		for range c.looks {
			d.expect(plan.Plan{Learned: &plan.Learned{Agent: "conditioned", UnitSeconds: 10, Shift: c.shift}}, 50)
			got = d.look(10, severity(c.severity)) != "" || got
		}
		if got != c.want {
			t.Errorf("%s: triggered %v, want %v", name, got, c.want)
		}
	}
	var d criticEvidence // violations with a good check between them are not consecutive
	for k := range 9 {
		d.expect(plan.Plan{Learned: &plan.Learned{Agent: "conditioned", UnitSeconds: 10, Shift: 2}}, 50)
		if why := d.look(10, severity(float64(k%3)/2)); why != "" {
			t.Errorf("look %d: %s", k, why)
		}
	}
	d = criticEvidence{rest: 6} // a recent attempt
	for k := range 9 {
		d.expect(plan.Plan{Learned: &plan.Learned{Agent: "conditioned", UnitSeconds: 10, Shift: 2}}, 50)
		if got := d.look(10, severity(1)) != ""; got != (k >= 6) {
			t.Errorf("look %d after an attempt: triggered %v", k, got)
		}
	}
	d = criticEvidence{}
	d.expect(plan.Plan{}, 50) // the model decided: no prediction of the critics to check
	for range 9 {
		if why := d.look(math.NaN(), severity(1)); why != "" {
			t.Error(why)
		}
	}
}

// A renewal runs beside the agent's loop: the check that starts it returns immediately, a later one takes the result,
// and no second renewal is started meanwhile.
func TestRenewalDoesNotHoldTheLoop(t *testing.T) {
	s := newStage(t, nil)
	s.cfg.Planner = "morl"
	r := newRun(s.agent(), s.cfg)
	r.rec, r.meter = &journal.Record{}, new(cost.Meter)
	r.Baseline = resources.Allocation{CPUs: 4, Memory: 1}
	r.Limits = resources.Limits{CPUs: resources.Range{Min: 1, Max: 4}, MemoryMin: 1, MemoryMax: 1}
	r.Rates = *s.cfg.Rates
	var err error
	if r.model, err = perf.Fit([]perf.Observation{{Allocation: r.Baseline, UnitSeconds: []float64{1, 1, 1}, PeakMemoryGiB: math.NaN()}}, perf.FitOptions{}); err != nil {
		t.Fatal(err)
	}
	r.Progress.Total = 100
	severe := 1.0
	r.verdicts = []sla.Verdict{{Objective: sla.Time, Severity: &severe}}
	r.critics.evidence = criticEvidence{missing: missingLooks, looks: 1, worse: 1}
	r.checkAgent(t.Context())
	if r.critics.renewal == nil || len(r.rec.CriticResets) != 0 {
		t.Fatalf("after the look that triggers: under way %v, %d on record", r.critics.renewal != nil, len(r.rec.CriticResets))
	}
	first := r.critics.renewal
	r.checkAgent(t.Context())
	if r.critics.renewal != nil && r.critics.renewal != first {
		t.Error("another renewal was started while one is under way")
	}
	if r.critics.renewal != nil { // not taken yet: wait for it, and leave it to the next check
		first.done <- <-first.done
		r.checkAgent(t.Context())
	}
	if len(r.rec.CriticResets) != 1 || r.rec.CriticResets[0].Policy != "morl" || !strings.Contains(r.rec.CriticResets[0].Trigger, "fresh critics") {
		t.Errorf("on record: %+v, warnings %v", r.rec.CriticResets, r.rec.Warnings)
	}
	if r.critics.evidence.rest == 0 {
		t.Error("no rest before the next attempt")
	}
}
