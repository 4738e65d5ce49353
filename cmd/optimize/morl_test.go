package main

import (
	"encoding/csv"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestMORLDecidesARun checks that the learning planner decides in a real run and that the decision log contains the
// agent's observation, preference, expected values of its critics and their uncertainty.
func TestMORLDecidesARun(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("count.py", counting)
	code, rec, errs := w.record("--train", script, "--planner", "morl", "--prefer", "cost", "--interval", "0.1", "--epoch-adjustment-frequency", "3")
	if code != run.CodeDone {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	if rec.Plan == nil || rec.Plan.Planner != "morl" || rec.CriticResets == nil {
		t.Fatalf("plan %+v, critic resets %v", rec.Plan, rec.CriticResets)
	}
	rows := rowsOf(t, w, rec.RunID, "rl_metrics.csv")
	if len(rows) == 0 {
		t.Fatal("no decision was logged")
	}
	asked := false
	for _, row := range rows {
		if len(strings.Fields(strings.NewReplacer(";", " ", ",", " ", "|", " ").Replace(row["state"]))) != 21 {
			t.Errorf("state %q has not 21 numbers", row["state"])
		}
		if row["fallback"] == "" && row["weight_cost"] == "" {
			t.Errorf("neither the agent's weights nor why it did not decide: %v", row)
		}
		if row["weight_cost"] == "" {
			continue
		}
		asked = true
		sum := 0.0
		for _, name := range []string{"time", "cost", "resource", "sla"} {
			v, err := strconv.ParseFloat(row["weight_"+name], 64)
			if _, bad := strconv.ParseFloat(row["value_"+name], 64); err != nil || bad != nil {
				t.Errorf("weight and value of %s: %q, %q", name, row["weight_"+name], row["value_"+name])
			}
			sum += v
		}
		if u, err := strconv.ParseFloat(row["uncertainty"], 64); err != nil || !(u >= 0) || sum < 0.999 || sum > 1.001 {
			t.Errorf("weights sum to %g, uncertainty %q", sum, row["uncertainty"])
		}
		if !strings.HasPrefix(row["policy"], "morl: conditioned") {
			t.Errorf("policy %q", row["policy"])
		}
	}
	if !asked {
		t.Errorf("the agent was never asked: %v", rows)
	}
}

// TestBrokenAgentFileFallsBackToTheModel checks that with a damaged agent file the model decides and the training is
// unaffected.
func TestBrokenAgentFileFallsBackToTheModel(t *testing.T) {
	t.Parallel()
	needPython(t)
	w := newWorld(t)
	script := w.write("short.py", `import os
open(os.environ.get("OPTIMIZER_LOG", "log.csv"), "w").write("epoch,total_epochs,epoch_time\n1,3,0.1\n2,3,0.1\n3,3,0.1\n")
`)
	code, rec, errs := w.record("--train", script, "--planner", "morl", "--agent", w.write("bad.bin", "optimize agent\nnot really"), "--interval", "0.1")
	if code != run.CodeDone {
		t.Fatalf("exit %d\n%s", code, errs)
	}
	if !strings.Contains(strings.Join(rec.Warnings, "\n"), "agent file") {
		t.Errorf("nothing was said: %v\n%s", rec.Warnings, errs)
	}
	if code, _, errs := w.run("--train", script, "--planner", "morl", "--agent", "nowhere.bin"); code != run.CodeUsage || !strings.Contains(errs, "nowhere.bin") {
		t.Errorf("a missing file: exit %d\n%s", code, errs)
	}
}

// rowsOf reads a CSV table of a run.
func rowsOf(t *testing.T, w *world, id, name string) []map[string]string {
	t.Helper()
	f, err := os.Open(filepath.Join(w.state(), "runs", id, name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, line := range lines[1:] {
		row := map[string]string{}
		for i, v := range line {
			row[lines[0][i]] = v
		}
		out = append(out, row)
	}
	return out
}
