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

func TestCompareRoundsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("compare", "rounds", "--policies", "fifo_perf,gandiva", "--static", "6,12", "--cluster", "v100=3,k80=3", "--seeds", "0:1", "--json", "--jobs-out", "jobs.csv")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var fields map[string]any
	if err := json.Unmarshal([]byte(out), &fields); err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"schema", "engine", "metrics", "rows", "paired", "wall_s"} {
		if fields[f] == nil {
			t.Errorf("no %q in the JSON", f)
		}
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	if c.Engine != "rounds" || len(c.Also) != 2 || c.Seeds != 2 {
		t.Fatalf("engine %s, %d loads, %d seeds", c.Engine, len(c.Also), c.Seeds)
	}
	for _, m := range []string{"mean_jct_s", "makespan_s", "utilization", "cost_usd", "fairness", "worse_off"} {
		if r, ok := c.Also[1].Row("gandiva", m); !ok || r.N != 2 || !r.Mean.Known() {
			t.Errorf("%s of gandiva: %+v", m, r)
		}
	}
	if r, _ := c.Also[0].Row("fifo_perf", "mean_jct_low_s"); r.N != 0 {
		t.Errorf("a mean of priorities without any: %+v", r)
	}
	f, err := os.Open(filepath.Join(w.dir, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) != 1+2*2*(6+12) || rows[0][0] != "scenario" {
		t.Errorf("%d rows of jobs, want a header and 2 policies × 2 seeds × 18: %v", len(rows), err)
	}
}

// TestCompareRoundsDeterministic checks that the output is identical on one core and on many.
func TestCompareRoundsDeterministic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.trace", tinyTrace)
	for name, load := range map[string][]string{
		"rates":  {"--arrival-rates", "0:0.4:3", "--window", "10:30", "--cluster", "v100=2,p100=2", "--cluster", "v100=3,k80=2", "--priorities"},
		"static": {"--static", "5,10", "--slos", "--duration", "2h"},
		"trace":  {"--trace", "jobs.trace", "--cluster", "v100=2,k80=2", "--compat"},
	} {
		for _, format := range []string{"text", "html"} {
			base := append([]string{"compare", "rounds", "--policies", "fifo,fifo_perf,gandiva", "--seeds", "0:2", "--format", format}, load...)
			_, one, errs := w.run(append(base, "--processes", "1")...)
			_, many, _ := w.run(append(base, "--processes", "7")...)
			if one == "" || errs != "" || realTime.ReplaceAllString(one, "") != realTime.ReplaceAllString(many, "") {
				t.Errorf("%s as %s: other bytes with more processes %s", name, format, errs)
			}
			if format == "text" {
				for _, line := range strings.Split(one, "\n") {
					if len([]rune(line)) > 100 {
						t.Errorf("%s: wider than 100: %s", name, line)
					}
				}
			}
		}
	}
}

// TestCompareRoundsNotStable checks that an unstable load has no figures but a reason, and that the other loads have
// figures.
func TestCompareRoundsNotStable(t *testing.T) {
	t.Parallel()
	code, out, errs := newWorld(t).run("compare", "rounds", "--policies", "fifo_perf", "--arrival-rates", "0.01,2,3", "--window", "300:400", "--cluster", "v100=1", "--backlog", "8", "--seeds", "0", "--json", "--fairness=false")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	for k, n := range []int{1, 0, 0} {
		if r, _ := c.Also[k].Row("fifo_perf", "mean_jct_s"); r.N != n {
			t.Errorf("load %d: figures of %d seeds, want %d", k, r.N, n)
		}
	}
	if notes := strings.Join(c.Notes, "\n"); !strings.Contains(notes, "fifo_perf, from 2 jobs/h, seed 0: not stable") {
		t.Errorf("notes: %s", notes)
	}
	if notes := strings.Join(c.Also[2].Notes, "\n"); !strings.Contains(notes, "not run: not stable at 2") {
		t.Errorf("notes of the third load: %s", notes)
	}
}

// TestCompareRoundsFigure checks that published and computed values are shown side by side.
func TestCompareRoundsFigure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("compare", "rounds", "--figure", "single-fifo", "--points", "1", "--seeds", "0", "--window", "0:3", "--timeout", "60")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"fifo_perf", "108.26", "ours / published", "published are jobs 4000 to 4999"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, out, errs = w.run("compare", "rounds", "--figure", "single-fifo", "--policies", "fifo_perf", "--points", "1", "--seeds", "0", "--window", "0:3")
	if code != run.CodeDone || !strings.Contains(out, "108.26") || strings.Contains(out, "fifo_packed") {
		t.Errorf("one line of the figure: exit %d: %s%s", code, out, errs)
	}
}

func TestCompareRoundsRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.trace", tinyTrace)
	for line, want := range map[string]string{
		"--policies fifo,fifo_pref":                 `"fifo_pref": unknown, nearest known are fifo_perf`,
		"--policies fifo,fifo":                      "named twice",
		"--policies fifo --against gandiva":         `--against "gandiva"`,
		"--seeds x":                                 "want A:B",
		"--arrival-rates 1:2":                       "want A:B:N",
		"--arrival-rates 2,1":                       "ascending",
		"--arrival-rates 0":                         "above 0",
		"--arrival-rates 1:2:x":                     "want A:B:N",
		"--arrival-rates 1:2:100000":                "at most",
		"--arrival-rates NaN":                       "above 0",
		"--static 2.5":                              "2.5 is not a number of jobs",
		"--static 3 --arrival-rates 1":              "--static cannot be combined with --arrival-rates",
		"--static 3 --window 1:2":                   "--window requires --arrival-rate",
		"--cluster v100=2 --cluster v100=2":         "named twice",
		"--cluster v101=2":                          "did you mean v100",
		"--trace jobs.trace --arrival-rates 3":      "--arrival-rates cannot be combined with --trace",
		"--trace jobs.trace --cluster v100=1,k80=1": "job 1 asks for 2 devices",
		"--trace nowhere":                           "--trace",
		"--processes 0":                             "--processes 0",
		"--timeout soon":                            "--timeout",
		"--timeout 0":                               "--timeout",
		"--points 3":                                "--points requires --figure",
		"--figure 7":                                "unknown, want one of 8, 9, 10",
		"--figure 11":                               "one run over time",
		"--figure 8 --points 0":                     "--points 0",
		"--figure 8 --policies srtf":                `figure 8 has no line of "srtf"`,
		"--figure runtime --policies fifo":          "--policies cannot be combined with --figure runtime",
		"--figure 8 --arrival-rates 1":              "--arrival-rates cannot be combined with --figure",
		"--figure runtime --window 1:2":             "--window cannot be combined with --figure runtime",
		"--format pdf":                              "want one of csv, html, json, markdown, text",
		"--window-start 4000 --window-end 5000":     "here it is --window A:B",
		"--generate_multi_gpu_jobs":                 "here it is --generate multi",
		"--simulate-steady-state":                   "here it is --filled",
		"--profiling_percentages 0.2 0.4":           "here it is --profiling-percentage P",
		"--solver ECOS":                             "has no meaning here",
		"--cluster-spec 36:36:36 --seeds 0 1 2":     "here it is --cluster",
		"--checkpoint-threshold 3":                  "has no meaning here",
		"everything":                                "everything",
	} {
		code, out, errs := w.run(append([]string{"compare", "rounds"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}

func TestCompareRoundsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signals <- os.Interrupt
	code, out, errs := w.run("compare", "rounds", "--policies", "fifo_perf,gandiva", "--arrival-rates", "4,5", "--window", "400000:500000", "--json")
	if code != run.CodeInterrupt || !strings.Contains(errs, "stopped by Ctrl-C") || strings.Count(errs, "\n") != 1 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil || !strings.Contains(strings.Join(c.Notes, ""), "interrupted") {
		t.Errorf("%v in %.300s", err, out)
	}
}
