package trial

import (
	"context"
	"math"
	"strings"
	"testing"
	"time"

	"trainopt/simulator/training"
	"trainopt/sla"
)

// Harm is counted only where the baseline meets the SLA.
func TestAgainstNothing(t *testing.T) {
	fine := &jobTruth{Own: fixedRun{Seconds: 1000, USD: 10, Feasible: true}, Feasible: true, Best: [3]float64{500, 5, 0.5}}
	broken := &jobTruth{Own: fixedRun{Seconds: 1000, USD: 10}, Feasible: true, Best: [3]float64{500, 5, 0.5}}
	oracle := fixedRun{Seconds: 500, USD: 5}
	done := func(seconds, usd float64, restarts int) *outcome {
		return &outcome{Finished: true, DeadlineMet: true, BudgetMet: true, Seconds: seconds, USD: usd, Restarts: restarts}
	}
	rows := CompareWithBaseline([]*jobTrial{
		{Policy: "model", Prefer: "time", Truth: fine, Oracle: oracle, Outcome: done(800, 12, 1)},
		{Policy: "model", Prefer: "time", Truth: fine, Oracle: oracle, Outcome: done(1100, 10, 3)},
		{Policy: "model", Prefer: "time", Truth: fine, Oracle: oracle, Outcome: &outcome{Seconds: 5000, Restarts: 2}},
		{Policy: "model", Prefer: "time", Truth: broken, Oracle: oracle, Outcome: done(9000, 90, 9)},
		{Policy: "user", Prefer: "time", Truth: fine, Oracle: oracle, Outcome: done(1000, 10, 0)},
	})
	if len(rows) != 1 {
		t.Fatalf("%d rows, want one: %+v", len(rows), rows)
	}
	r := rows[0]
	for name, v := range map[string][2]float64{"goal": {r.Goal, -0.05}, "oracle": {r.Best, -0.5}, "time": {r.Time, -0.05}, "cost": {r.Cost, 0.1},
		"restarts": {r.Restarts, 2}, "most": {float64(r.MostRestarts), 3}, "jobs": {float64(r.Jobs), 3}, "broken": {float64(r.Broken), 1}, "slower": {float64(r.Slower), 1}} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s %g, want %g", name, v[0], v[1])
		}
	}
	var b strings.Builder
	if err := WriteBaselineComparison(&b, rows); err != nil || !strings.Contains(b.String(), "−5.0 %") {
		t.Errorf("%v, %s", err, b.String())
	}
}

// The SLA of the published experiment follows from the three static baselines, and on average no policy beats the
// oracle by more than moves during a run can gain.
func TestSLAMORL(t *testing.T) {
	static := with(func(s *training.Scenario) { s.Spec = sla.Spec{TimeMax: time.Second} })
	agreed, out := slamorlJob(*static)
	var seconds, usd float64
	for i, gpus := range [3]int{1, 5, 8} {
		a := static.Baseline
		a.GPUs = gpus
		if want := static.Outcome(a); out[i] != want {
			t.Errorf("baseline %d: %+v, want that of %d GPUs, %+v", i, out[i], gpus, want)
		}
		seconds, usd = seconds+out[i].Seconds/3, usd+out[i].USD/3
	}
	if math.Abs(agreed.Spec.TimeMax.Seconds()/seconds-1.1) > 1e-6 || math.Abs(agreed.Spec.CostMaxUSD/usd-1.1) > 1e-9 {
		t.Errorf("agreement %+v, want 1.1 × %g s and %g USD", agreed.Spec, seconds, usd)
	}
	draw := func(uint64) ([]training.Scenario, error) {
		return []training.Scenario{*job(), *with(func(s *training.Scenario) { s.Units = 500 })}, nil
	}
	steps := 0
	figure := SLAMORL{Draw: draw, Seeds: []uint64{1}, Policies: []string{"oracle", "model"}, Progress: func(int, int) { steps++ }}
	rows, err := figure.Run(context.Background())
	if err != nil || len(rows) != 3+2*3 || steps != 2 {
		t.Fatalf("%v, %d rows, %d steps", err, len(rows), steps)
	}
	by := map[string]slamorlRow{}
	mean := 0.0
	for _, r := range rows {
		by[r.Policy+r.Prefer] = r
		if r.Prefer == "" {
			mean += r.Time / 3
		}
	}
	if math.Abs(mean) > 1e-9 {
		t.Errorf("the baselines' changes against their own mean are %g on average", mean)
	}
	if o, m := by["oracletime"], by["modeltime"]; o.Time > m.Time+0.02 || o.Restarts != 0 || o.Kept != 1 || o.Jobs != 2 {
		t.Errorf("oracle %+v, model %+v", o, m)
	}
	// With two workloads, half the interval is t(0.975, 1) = 12.706 times half their difference.
	o := by["oracletime"]
	if half := halfWidth(o.times); math.Abs(half-12.706*math.Abs(o.times[0]-o.times[1])/2) > 1e-3*half || !(half > 0) || math.Abs(o.Time-(o.times[0]+o.times[1])/2) > 1e-12 {
		t.Errorf("time %v: mean %g ± %g", o.times, o.Time, half)
	}
	if half := halfWidth(o.times[:1]); !math.IsNaN(half) {
		t.Errorf("of one workload: ± %g", half)
	}
	if o, m := by["oraclecost"], by["modelcost"]; o.Cost > m.Cost+0.02 {
		t.Errorf("oracle %+v, model %+v", o, m)
	}
}
