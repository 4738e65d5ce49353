package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

func TestCompareSpotDrawn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	args := []string{"compare", "spot", "--work", "10h", "--slack", "1.2,2", "--starts", "2", "--seeds", "0:5", "--policies", "all", "--json", "--jobs-out", "all.csv"}
	code, out, errs := w.run(args...)
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	if c.Schema != 1 || c.Engine != "spot" || len(c.Also) != 2 || c.Seeds != 6 || !c.WallS.Known() {
		t.Fatalf("engine %s, %d deadlines, %d seeds", c.Engine, len(c.Also), c.Seeds)
	}
	for _, one := range c.Also {
		if r, ok := one.Row("uniform", "cost_share"); !ok || r.N != 12 || !r.Lo.Known() || r.Mean > 1.2 {
			t.Errorf("%+v", r)
		}
		if r, ok := one.Row("uniform", "missed"); !ok || r.Mean != 0 {
			t.Errorf("%+v", r)
		}
		if p, ok := one.Pair("uniform", "greedy", "cost_share"); !ok || !p.P.Known() || p.Seeds != 6 {
			t.Errorf("%+v", p)
		}
		if p, ok := one.Pair("optimum", "greedy", "above_optimum"); !ok || p.Difference > 0 {
			t.Errorf("%+v", p)
		}
	}
	f, err := os.Open(filepath.Join(w.dir, "all.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) != 1+2*12*9 {
		t.Errorf("%d jobs, %v", len(rows), err)
	}
}

func TestCompareSpotTraces(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if err := os.MkdirAll(filepath.Join(w.dir, "traces/a"), 0o755); err != nil {
		t.Fatal(err)
	}
	w.write("traces/a/one.json", hourlyTrace("0011100110011100"))
	w.write("traces/a/two.json", hourlyTrace("1100000000110011"))
	w.write("traces/three.json", hourlyTrace("1110001110001100"))
	args := []string{"compare", "spot", "--trace", "traces", "--work", "4h", "--slack", "1.5", "--starts", "4", "--policies", "greedy,uniform_progress,optimum"}
	code, out, errs := w.run(args...)
	for _, want := range []string{"12 cases from 3 seeds", "uniform", "share of the gap from greedy", "3 traces, 4 starting times in each", "aws:p3.2xlarge: 0.92 USD/h", "3 of 12 jobs may continue beyond"} {
		if code != run.CodeDone || errs != "" || !strings.Contains(out, want) {
			t.Errorf("exit %d, no %q in\n%s%s", code, want, out, errs)
		}
	}
	if code, out, errs := w.run(append(args, "--together", "--format", "csv")...); code != run.CodeDone || errs != "" || !strings.Contains(out, "cost_share") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	if code, _, errs := w.run(append(args, "--together", "--output", "page.html", "--slack", "1.3,2")...); code != run.CodeDone || errs != "" {
		t.Errorf("exit %d\n%s", code, errs)
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "page.html")); err != nil || !strings.Contains(string(data), "Cost by deadline") {
		t.Errorf("%.100s, %v", data, err)
	}
}

func TestCompareSpotRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("one.json", hourlyTrace("0011"))
	for line, want := range map[string]string{
		"--policies best":                     `"best": unknown, want one of adaptive`,
		"--policies greedy,greedy":            "named twice",
		"--against sliced --policies uniform": "not among --policies",
		"--slack 1":                           "--slack 1: no deadline can be met",
		"--slack tight":                       "--slack",
		"--slack 1.5,1.5":                     "--slack",
		"--starts 0":                          "--starts 0",
		"--processes 0":                       "--processes 0",
		"--seeds 5:1":                         "--seeds",
		"--together":                          "--together requires --trace",
		"--trace nowhere":                     "--trace nowhere",
		"--trace one.json --seeds 0:3":        "no policy is random",
		"--trace one.json --tick 1m":          "--tick cannot be combined with --trace",
		"--availability 1:2:3":                "want UP:DOWN",
		"--spot-usd-hour 1":                   "--spot-usd-hour requires --on-demand-usd-hour",
		"--format pdf":                        "want one of",
	} {
		code, out, errs := w.run(append([]string{"compare", "spot"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}
