package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/sla"
)

// recordPredictedRuns records n finished runs, of which the first kept lie inside their predicted interval.
func recordPredictedRuns(t *testing.T, w *world, n, kept int) {
	t.Helper()
	for k := range n {
		family := "resnet"
		if k%3 == 2 {
			family = "bert"
		}
		seconds := 100.0
		if k >= kept {
			seconds = 150
		}
		rec := journal.NewRecord()
		rec.State, rec.Script.Model = journal.Done, &family
		rec.Outcome.Seconds, rec.Outcome.CostUSD = journal.Number(seconds), journal.Number(seconds/3600)
		rec.Training.TotalUnits = 40
		rec.Plan = &journal.Plan{Plan: plan.Plan{Planner: "model"}, Prediction: &journal.Prediction{
			Seconds: sla.Interval{P5: 90, P50: 102, P95: 120}, CostUSD: sla.Interval{P5: 90. / 3600, P50: 102. / 3600, P95: 120. / 3600}}}
		run, err := journal.Create(w.state(), journal.NewRunID(time.Date(2026, 3, 1, 12, k, 0, 0, time.UTC), "train"))
		if err != nil {
			t.Fatal(err)
		}
		rec.RunID = run.ID()
		if err := run.WriteRecord(rec); err != nil {
			t.Fatal(err)
		}
	}
}

// TestReportCalibration checks the scores of the runs of a state directory in every format.
func TestReportCalibration(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	recordPredictedRuns(t, w, 12, 9)
	unsized := journal.NewRecord() // an earlier version predicted one unit of work; such predictions are not scored
	unsized.State, unsized.Outcome.Seconds, unsized.Training.Unit = journal.Done, 240, "step"
	unsized.Plan = &journal.Plan{Plan: plan.Plan{Planner: "model"}, Prediction: &journal.Prediction{Seconds: sla.Interval{P5: 1, P50: 1.14, P95: 1.3}}}
	past, err := journal.Create(w.state(), journal.NewRunID(time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), "train"))
	if err != nil {
		t.Fatal(err)
	}
	unsized.RunID = past.ID()
	if err := past.WriteRecord(unsized); err != nil {
		t.Fatal(err)
	}
	code, out, stderr := w.run("report", "--calibration")
	if code != 0 || stderr != "" {
		t.Fatalf("exit %d, stderr %q", code, stderr)
	}
	for _, want := range []string{"9 of 12 predictions", "75 %", "resnet", "bert", "BY MODEL FAMILY", "widened 1."} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("%d columns: %s", len([]rune(line)), line)
		}
	}
	_, out, _ = w.run("report", "--calibration", "--json")
	var table struct {
		Schema int
		All    struct {
			Scored int
			Widen  float64
			Of     map[string]struct{ N, Inside, Above int }
		}
		Families []struct{ Family string }
		Scores   []struct{ Run, Quantity string }
	}
	if err := json.Unmarshal([]byte(out), &table); err != nil {
		t.Fatal(err)
	}
	if s := table.All.Of["seconds"]; table.Schema != 1 || table.All.Scored != 12 || s.Inside != 9 || s.Above != 3 || !(table.All.Widen > 1) ||
		len(table.Families) != 2 || len(table.Scores) != 24 {
		t.Errorf("JSON %+v", table)
	}
	if code, _, stderr := w.run("report", "--calibration", "--format", "html", "-o", "held.html"); code != 0 {
		t.Fatalf("exit %d: %s", code, stderr)
	}
	page, err := os.ReadFile(filepath.Join(w.dir, "held.html"))
	if err != nil || !strings.Contains(string(page), "<svg") || strings.Contains(string(page), "http://") && !strings.Contains(string(page), "www.w3.org") {
		t.Errorf("the page has no picture or asks the network: %v", err)
	}
	for _, format := range []string{"csv", "markdown"} {
		if code, out, _ := w.run("report", "--calibration", "--format", format); code != 0 || !strings.Contains(out, "seconds") && !strings.Contains(out, "time") {
			t.Errorf("%s: exit %d\n%s", format, code, out)
		}
	}
}

// TestReportCalibrationRefusals checks that every refusal is one line and that having nothing to score is not an error.
func TestReportCalibrationRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if code, out, _ := w.run("report", "--calibration"); code != 0 || !strings.Contains(out, "nothing to score") {
		t.Errorf("without runs: exit %d\n%s", code, out)
	}
	recordPredictedRuns(t, w, 2, 2)
	if code, out, _ := w.run("report", "--calibration"); code != 0 || !strings.Contains(strings.Join(strings.Fields(out), " "), "too few to judge") {
		t.Errorf("two runs: exit %d\n%s", code, out)
	}
	for name, args := range map[string][]string{
		"a run named": {"report", "--calibration", "latest"},
		"a format":    {"report", "--calibration", "--format", "pdf"},
	} {
		if code, _, stderr := w.run(args...); code != 2 || strings.Count(strings.TrimSpace(stderr), "\n") != 0 {
			t.Errorf("%s: exit %d, stderr %q", name, code, stderr)
		}
	}
}

// TestCalibrationWidensTheNextPrediction checks that after missed predictions a run reports wider intervals and records
// the factor in its model, and that after accurate ones it does not.
func TestCalibrationWidensTheNextPrediction(t *testing.T) {
	t.Parallel()
	needPython(t)
	for name, c := range map[string]struct {
		kept int
		want bool
	}{"held": {12, false}, "did not hold": {4, true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			script := w.write("count.py", counting)
			recordPredictedRuns(t, w, 12, c.kept)
			if code, _, stderr := w.run("report", "--calibration"); code != 0 { // updates the database, as the end of a run does
				t.Fatal(stderr)
			}
			code, rec, stderr := w.record("--train", script, "--epochs", "20", "--cpus", "1")
			if code != 0 || rec == nil {
				t.Fatalf("exit %d: %s", code, stderr)
			}
			if said := strings.Contains(stderr, "intervals widened by a factor of"); said != c.want {
				t.Errorf("said %t, want %t:\n%s", said, c.want, stderr)
			}
			if rec.Model == nil {
				t.Fatal("no model was recorded")
			}
			if widen := float64(rec.Model.Params["widen"]); (widen > 1.2) != c.want {
				t.Errorf("the model's factor is %g", widen)
			}
		})
	}
}
