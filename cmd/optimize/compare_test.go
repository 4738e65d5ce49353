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

	"trainopt/optimizer"
	"trainopt/simulator/evaluate"
)

func TestCompareTrainingJSON(t *testing.T) {
	w := newWorld(t)
	code, out, errs := w.run("compare", "training", "--policies", "user,oracle,model", "--seeds", "3:4", "--jobs", "2", "--prefer", "cost", "--json", "--jobs-out", "jobs.csv")
	if code != optimizer.CodeDone || errs != "" {
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
	var c evaluate.Comparison
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

func TestCompareTrainingFormats(t *testing.T) {
	w := newWorld(t)
	base := []string{"compare", "training", "--policies", "user,oracle", "--seeds", "0:1", "--jobs", "2"}
	for file, want := range map[string]string{"c.html": "<!DOCTYPE html>", "c.csv": "kind,table,metric", "c.md": "# Decisions", "c.json": `"schema": 1`, "c.txt": "95 % interval"} {
		if code, out, errs := w.run(append(base, "--out", file)...); code != optimizer.CodeDone || out != "" {
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
	w := newWorld(t)
	for line, want := range map[string]string{
		"compare":                                          "name what to simulate: training",
		"compare nothing":                                  `"nothing": unknown, want training`,
		"compare training model":                           "compare training",
		"compare training --seeds x":                       "want A:B",
		"compare training --seeds 9:0":                     "want A:B",
		"compare training --seeds 1,1":                     "different whole numbers",
		"compare training --policies user,best":            `"best" is unknown, want one of`,
		"compare training --policies user,user":            "named twice",
		"compare training --policies user --against model": `--against "model"`,
		"compare training --prefer speed":                  "--prefer",
		"compare training --jobs 0":                        "--jobs 0",
		"compare training --kinds other":                   "want train, held-out, sia or all",
		"compare training --kinds sia":                     "--profiles DIR",
		"compare training --profiles nowhere":              "--profiles",
		"compare training --format pdf":                    "want one of csv, html, json, markdown, text",
	} {
		code, out, errs := w.run(strings.Fields(line)...)
		if code != optimizer.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}

func TestCompareInterrupted(t *testing.T) {
	for signal, want := range map[os.Signal]optimizer.Code{syscall.SIGINT: optimizer.CodeInterrupt, syscall.SIGTERM: optimizer.CodeTerminated} {
		w := newWorld(t)
		w.signals <- signal
		code, _, errs := w.run("compare", "training", "--policies", "model", "--seeds", "0:200", "--jobs", "50")
		if code != want || !strings.Contains(errs, "interrupted by") {
			t.Errorf("%v: exit %d, want %d: %s", signal, code, want, errs)
		}
	}
}

func TestParseSeeds(t *testing.T) {
	for text, want := range map[string][]uint64{"0:2": {0, 1, 2}, "7": {7}, "5:5": {5}, "3, 1": {3, 1}, "18446744073709551614:18446744073709551615": {1<<64 - 2, 1<<64 - 1}} {
		if got, err := parseSeeds(text); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %v %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"", ":", "1:", "-1", "1.5", "2:1", "0:10000", "1,,2"} {
		if got, err := parseSeeds(text); err == nil {
			t.Errorf("%q: %v, want an error", text, got)
		}
	}
}
