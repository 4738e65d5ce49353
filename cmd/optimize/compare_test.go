package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

func TestCompareTrainingJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("compare", "training", "--policies", "user,oracle,model", "--seeds", "3:4", "--job-count", "2", "--prefer", "cost", "--json", "--jobs-out", "jobs.csv")
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
	if c.Schema != 1 || c.Engine != "training" || c.Seeds != 2 || c.Cases != 4 || !slices.Equal(c.Against, []string{"model", "user"}) {
		t.Errorf("schema %d, engine %s, %d seeds, %d cases against %v", c.Schema, c.Engine, c.Seeds, c.Cases, c.Against)
	}
	for _, m := range []string{"regret", "deadline_hit", "budget_overrun", "seconds", "usd", "joules", "restarts"} {
		if _, ok := c.Row("model", m); !ok {
			t.Errorf("model has no row of %s", m)
		}
	}
	if r, _ := c.Row("oracle", "regret"); float64(r.Mean) > 1e-9 || r.N == 0 {
		t.Errorf("the oracle's regret is %+v", r)
	}
	f, err := os.Open(filepath.Join(w.dir, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+3*4 {
		t.Errorf("%d rows of jobs, want a header and 3 policies × 4: %v", len(rows), err)
	}
}

func TestCompareAblation(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run(strings.Fields("compare training --figure ablation --steps 100 --seeds 0 --job-count 1 --prefer cost --json")...)
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); code != run.CodeDone || errs != "" || err != nil {
		t.Fatalf("exit %d: %s, %v", code, errs, err)
	}
	if len(c.Policies) != 13 || !slices.Equal(c.Against, []string{"model", "all on"}) || c.Cases != 1 {
		t.Errorf("policies %q against %q in %d cases", c.Policies, c.Against, c.Cases)
	}
	if r, ok := c.Row("resets off", "resets"); !ok || r.N != 1 || float64(r.Mean) != 0 {
		t.Errorf("critics replaced without resets: %+v", r)
	}
}

func TestCompareTrainingFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := []string{"compare", "training", "--policies", "user,oracle", "--seeds", "0:1", "--job-count", "2"}
	for file, want := range map[string]string{"c.html": "<!DOCTYPE html>", "c.csv": "kind,table,metric", "c.md": "# Decisions", "c.json": `"schema": 1`, "c.txt": "95 % interval"} {
		if code, out, errs := w.run(append(base, "--output", file)...); code != run.CodeDone || out != "" {
			t.Fatalf("%s: exit %d: %s%s", file, code, out, errs)
		}
		data, err := os.ReadFile(filepath.Join(w.dir, file))
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q: %v\n%.300s", file, want, err, data)
		}
	}
	_, first, _ := w.run(append(base, "--format", "csv")...)
	_, second, _ := w.run(append(base, "--format", "csv")...)
	if first == "" || first != second {
		t.Error("the same seeds give other bytes")
	}
}

func TestCompareRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for line, want := range map[string]string{
		"compare":                                          "name an engine: ",
		"compare nothing":                                  `"nothing": unknown, want `,
		"compare training model":                           "compare training",
		"compare training --seeds x":                       "want A:B",
		"compare training --seeds 9:0":                     "want A:B",
		"compare training --seeds 1,1":                     "different whole numbers",
		"compare training --policies user,best":            `"best" is unknown, want one of`,
		"compare training --policies user,user":            "named twice",
		"compare training --policies user --against model": `--against "model"`,
		"compare training --prefer speed":                  "--prefer",
		"compare training --job-count 0":                   "--job-count 0",
		"compare training --kinds other":                   "want train, held-out, sia, all or zeus",
		"compare training --kinds sia":                     "--profiles DIR",
		"compare training --profiles nowhere":              "--profiles",
		"compare training --steps 500":                     "--steps requires --figure ablation",
		"compare training --figure ablation --steps 5":     "at least 100",
		"compare training --figure other":                  "want slamorl or ablation",
		"compare training --eta 0.5":                       "--eta requires --kinds zeus",
		"compare training --recurrences 3":                 "--recurrences requires --kinds zeus",
		"compare training --kinds zeus --job-count 3":      "--job-count cannot be combined with --kinds zeus",
		"compare training --kinds zeus --prefer cost":      "--prefer cannot be combined with --kinds zeus",
		"compare training --kinds zeus --agent a=b":        "--agent cannot be combined with --kinds zeus",
		"compare training --kinds zeus --policies model":   `"model" is unknown for recurring jobs, want one of bandit, grid`,
		"compare training --kinds zeus --eta 1.5":          "--eta 1.5: want 0",
		"compare training --kinds zeus --eta NaN":          "--eta NaN",
		"compare training --kinds zeus --recurrences 0":    "--recurrences 0: want 1",
		"compare training --kinds zeus --profiles nowhere": "--profiles",
		"compare training --format pdf":                    "want one of csv, html, json, markdown, text",
	} {
		code, out, errs := w.run(strings.Fields(line)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}

// TestCompareAgents checks that an agent from a file is a separate policy and that the embedded agent, loaded from a
// file, decides as morl does.
func TestCompareAgents(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	data, err := os.ReadFile("../../optimizer/plan/agent.bin")
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(w.dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("a.bin", data)
	code, out, errs := w.run("compare", "training", "--agent", "mine=a.bin", "--policies", "morl,mine", "--seeds", "0", "--job-count", "2", "--prefer", "cost", "--json")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	for _, m := range c.Metrics {
		a, _ := c.Row("morl", m)
		if b, ok := c.Row("mine", m); !ok || b.N != a.N || b.N > 0 && b.Mean != a.Mean {
			t.Errorf("%s: %+v, want %+v", m, b, a)
		}
	}
	if !slices.ContainsFunc(c.Notes, func(n string) bool { return strings.Contains(n, "mine is the planner morl with the agent of a.bin") }) {
		t.Errorf("nothing says what mine is: %q", c.Notes)
	}

	write("corrupt.bin", append(slices.Clone(data[:len(data)-1]), data[len(data)-1]^1))
	write("short.bin", data[:100])
	if code, _, errs := w.run(learn("--steps", "20", "--measure", "20", "--output", "foreign.bin")...); code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for line, want := range map[string]string{
		"--agent mine=none.bin":                            "no such file",
		"--agent mine=.":                                   "directory",
		"--agent mine=corrupt.bin":                         "--agent mine=corrupt.bin: ",
		"--agent mine=short.bin":                           "--agent mine=short.bin: ",
		"--agent mine=foreign.bin":                         "not an agent for training jobs",
		"--agent morl=a.bin":                               "a policy morl exists",
		"--agent user=a.bin":                               "a policy user exists",
		"--agent mine=a.bin --agent mine=a.bin":            "mine is given twice",
		"--agent mine":                                     "want NAME=FILE",
		"--agent mine=":                                    "want NAME=FILE",
		"--agent =a.bin":                                   "want NAME=FILE",
		"--agent a,b=a.bin":                                "want NAME=FILE",
		"--agent mine=a.bin --policies model":              `"mine" is not among --policies`,
		"--agent mine=a.bin --policies model,mine,theirs":  `"theirs" is unknown`,
		"--agent mine=a.bin --policies mine --against you": `--against "you"`,
	} {
		code, out, errs := w.run(append([]string{"compare", "training"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}

// TestCompareRecurring checks the comparison on recurring jobs as JSON, as text and as rows.
func TestCompareRecurring(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := []string{"compare", "training", "--kinds", "zeus", "--seeds", "0:4", "--recurrences", "40"}
	code, out, errs := w.run(append(base, "--json", "--jobs-out", "rows.csv")...)
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	if c.Schema != 1 || c.Engine != "training" || c.Seeds != 5 || c.Cases != 5*14 || !slices.Equal(c.Policies, []string{"user", "oracle", "grid", "random", "zeus", "bandit"}) ||
		!slices.Equal(c.Against, []string{"zeus", "user"}) {
		t.Errorf("schema %d, engine %s, %d seeds, %d cases, %v against %v", c.Schema, c.Engine, c.Seeds, c.Cases, c.Policies, c.Against)
	}
	if p, ok := c.Pair("bandit", "user", "energy_vs_user"); !ok || !(p.Hi < -0.2) {
		t.Errorf("the bandit saves %+v of the user's energy, want more than a fifth", p)
	}
	f, err := os.Open(filepath.Join(w.dir, "rows.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil || len(rows) != 1+6*5*14 {
		t.Errorf("%d rows, want a header and 6 policies × 5 seeds × 14 jobs: %v", len(rows), err)
	}
	_, text, _ := w.run(append(base, "--policies", "user,bandit")...)
	for _, want := range []string{"bandit, job by job", "imagenet v100", "256/250", "eta 1"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q:\n%.3000s", want, text)
		}
	}
}

// TestCompareRecurringTables checks that measured tables are read from the folder or from one below it.
func TestCompareRecurringTables(t *testing.T) {
	t.Parallel()
	const shared = "../../../shared/data"
	dir, err := filepath.Abs(shared)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "zeus-nsdi23")); err != nil {
		t.Skip("the measured tables are not here")
	}
	w := newWorld(t)
	var first string
	for _, d := range []string{dir, filepath.Join(dir, "zeus-nsdi23")} {
		code, out, errs := w.run("compare", "training", "--kinds", "zeus", "--profiles", d, "--policies", "bandit", "--seeds", "0:1", "--recurrences", "20")
		if code != run.CodeDone || !strings.Contains(out, "tables of the Zeus traces") {
			t.Fatalf("%s: exit %d: %s%.200s", d, code, errs, out)
		}
		if first == "" {
			first = out
		} else if out != first {
			t.Error("the same tables give other bytes")
		}
	}
}

func TestCompareInterrupted(t *testing.T) {
	t.Parallel()
	for signal, want := range map[os.Signal]run.Code{syscall.SIGINT: run.CodeInterrupt, syscall.SIGTERM: run.CodeTerminated} {
		w := newWorld(t)
		w.signals <- signal
		code, _, errs := w.run("compare", "training", "--policies", "model", "--seeds", "0:200", "--job-count", "5")
		if code != want || !strings.Contains(errs, "stopped by ") {
			t.Errorf("%v: exit %d, want %d: %s", signal, code, want, errs)
		}
	}
}
