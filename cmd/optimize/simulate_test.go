package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"trainopt/optimizer/run"
	"trainopt/optimizer/schedule/share"
)

// tinyTrace is a trace in Gavel's format: two jobs of about an hour, and one that arrives later.
const tinyTrace = "ResNet-18 (batch size 64)\tpython3 main.py\timage_classification/cifar10\t--num_steps\t1\t100000\t1\t1\t-1\t0\n" +
	"LM (batch size 20)\tpython3 main.py\tlanguage_modeling\t--steps\t1\t50000\t2\t1\t-1\t0\n" +
	"A3C\tpython3 main.py\trl\t--max-steps\t0\t20000\t1\t5\t-1\t4000\n"

func TestSimulateRoundsJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.trace", tinyTrace)
	code, out, errs := w.run("simulate", "rounds", "--trace", "jobs.trace", "--cluster", "v100=2,k80=2", "--policy", "fifo_perf", "--json", "--jobs", "jobs.csv")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"schema", "engine", "policy", "seed", "cluster", "jobs", "mean_jct_s", "p50_jct_s", "p99_jct_s", "makespan_s", "utilization", "cost_usd",
		"deadline_misses", "allocations", "policy_s", "events", "wall_s", "warnings", "workload", "interval_s"} {
		if _, ok := got[key]; !ok {
			t.Errorf("no %q in the JSON", key)
		}
	}
	jobs := got["jobs"].([]any)
	if got["schema"] != 1.0 || got["engine"] != "rounds" || got["policy"] != "fifo_perf" || len(jobs) != 3 {
		t.Errorf("%s", out)
	}
	for _, key := range []string{"id", "arrival_s", "jct_s", "deadline_s", "missed", "cost_usd"} {
		if v, ok := jobs[2].(map[string]any)[key]; !ok {
			t.Errorf("no %q in a job: %v", key, v)
		}
	}
	f, err := os.Open(filepath.Join(w.dir, "jobs.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) != 4 || rows[0][0] != "id" || rows[3][1] != "4000" {
		t.Errorf("jobs: %v, %v", rows, err)
	}
}

// TestSimulateRoundsAlone checks that the command works without files and that a published run reproduces the published
// result.
func TestSimulateRoundsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("simulate", "rounds", "--policy", "fifo_perf", "--compat")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"100 at once", "14.28 h", "123.86 h", "as Gavel's code does", "USD per device-hour: k80 0.135"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	for _, line := range strings.Split(out, "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("wider than 100: %s", line)
		}
	}
}

// realTime matches the values of a run that depend on the machine.
var realTime = regexp.MustCompile(`"(wall_s|policy_s)": [^,\n]*`)

func TestSimulateRoundsFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := []string{"simulate", "rounds", "--static", "8", "--generate", "multi", "--cluster", "v100=8,p100=8", "--policy", "gandiva", "--slos", "--seed", "3"}
	for file, want := range map[string]string{"r.html": "<!DOCTYPE html>", "r.csv": "id,arrival_s,jct_s", "r.json": `"schema": 1`, "r.txt": "deadlines missed"} {
		if code, out, errs := w.run(append(base, "--output", file)...); code != run.CodeDone || out != "" {
			t.Fatalf("%s: exit %d: %s%s", file, code, out, errs)
		}
		data, err := os.ReadFile(filepath.Join(w.dir, file))
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s lacks %q: %v\n%.300s", file, want, err, data)
		}
	}
	_, first, _ := w.run(append(base, "--json")...)
	_, second, _ := w.run(append(base, "--json")...)
	if first == "" || realTime.ReplaceAllString(first, "") != realTime.ReplaceAllString(second, "") {
		t.Error("the same seed gives other bytes")
	}
}

func TestSimulateRoundsRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.trace", tinyTrace)
	w.write("strange.trace", strings.Replace(tinyTrace, "A3C", "Nobody knows", 1))
	w.write("broken.trace", "a\tb\n")
	w.write("empty.trace", "")
	w.write("prices.csv", "nothing\n")
	for line, want := range map[string]string{
		"simulate":                                                           "name an engine: ",
		"simulate nothing":                                                   `"nothing": unknown, want `,
		"simulate rounds now":                                                "simulate rounds",
		"simulate rounds --policy fifo_pref":                                 `"fifo_pref": unknown, nearest known are fifo_perf`,
		"simulate rounds --policy allox_alpha=2":                             "want a number from 0 to 1",
		"simulate rounds --cluster v100":                                     `"v100": want a kind and its number`,
		"simulate rounds --cluster v100=0":                                   "v100=0",
		"simulate rounds --cluster v101=3":                                   "did you mean v100",
		"simulate rounds --gpus-per-server 0":                                "--gpus-per-server: servers of \"0\"",
		"simulate rounds --gpus-per-server t4=4":                             `the cluster has no "t4"`,
		"simulate rounds --static 5000001":                                   "at most 5000000 jobs",
		"simulate rounds --arrival-rate 1 --window 0:5000001":                "at most 5000000 jobs",
		"simulate rounds --global-queue":                                     "--global-queue requires --compat",
		"simulate rounds --skip-unknown":                                     "--skip-unknown requires --trace",
		"simulate rounds --trace jobs.trace --skip-unknown --draw-types 3":   "jobs are either left out",
		"simulate rounds --trace jobs.trace --cluster v100=1,k80=1":          "job 1 asks for 2 devices of one type: the cluster has at most 1",
		"simulate rounds --arrival-rate 1 --generate multi --cluster v100=4": "up to 8 devices",
		"simulate rounds --trace strange.trace":                              "Nobody knows",
		"simulate rounds --trace broken.trace":                               "broken.trace",
		"simulate rounds --trace empty.trace":                                "empty.trace",
		"simulate rounds --trace nowhere":                                    "nowhere",
		"simulate rounds --trace .":                                          "--trace",
		"simulate rounds --trace jobs.trace --trace-format strange":          "strange",
		"simulate rounds --trace-format gavel":                               "--trace-format requires --trace",
		"simulate rounds --trace jobs.trace --arrival-rate 3":                "--arrival-rate cannot be combined with --trace",
		"simulate rounds --trace jobs.trace --slos":                          "--slos cannot be combined with --trace",
		"simulate rounds --arrival-rate 0":                                   "--arrival-rate 0",
		"simulate rounds --arrival-rate NaN":                                 "--arrival-rate NaN",
		"simulate rounds --static 0":                                         "--static 0",
		"simulate rounds --static 3 --arrival-rate 3":                        "--static cannot be combined with --arrival-rate",
		"simulate rounds --static 3 --window 1:2":                            "--window requires --arrival-rate",
		"simulate rounds --arrival-rate 1 --window 3:3":                      "--window",
		"simulate rounds --arrival-rate 1 --window 3":                        "--window",
		"simulate rounds --generate triple":                                  "want single or multi",
		"simulate rounds --round 0":                                          "--round 0",
		"simulate rounds --round soon":                                       "--round",
		"simulate rounds --preemption-cost -3":                               "--preemption-cost",
		"simulate rounds --preemption-cost 30 --compat":                      "cannot be combined with --compat",
		"simulate rounds --preemption-steps NaN":                             "--preemption-steps",
		"simulate rounds --duration x":                                       "--duration",
		"simulate rounds --reference v200":                                   "v200",
		"simulate rounds --throughputs nowhere":                              "--throughputs",
		"simulate rounds --prices nowhere":                                   "--prices",
		"simulate rounds --prices prices.csv":                                "prices.csv",
		"simulate rounds --format pdf":                                       "want one of csv, html, json, text",
		"simulate rounds --polcy fifo":                                       "nearest known is --policy",
	} {
		code, out, errs := w.run(strings.Fields(line)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}

// TestSimulateRoundsNotStable checks that an overloaded cluster ends the run with the evidence and the partial results.
func TestSimulateRoundsNotStable(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("simulate", "rounds", "--arrival-rate", "2", "--cluster", "k80=1", "--policy", "fifo_perf", "--backlog", "5", "--compat")
	if code != run.CodeOurs || !strings.Contains(errs, "not stable") || strings.Count(errs, "\n") != 1 || !strings.Contains(out, "note: not stable") {
		t.Errorf("exit %d: %s\n%s", code, errs, out)
	}
}

func TestSimulateRoundsInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.signals <- os.Interrupt
	code, out, errs := w.run("simulate", "rounds", "--arrival-rate", "4", "--window", "400000:500000", "--policy", "fifo_perf", "--compat", "--json")
	if code != run.CodeInterrupt || !strings.Contains(errs, "stopped by Ctrl-C") || strings.Count(errs, "\n") != 1 {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got struct{ Stopped string }
	if err := json.Unmarshal([]byte(out), &got); err != nil || !strings.Contains(got.Stopped, "stopped by Ctrl-C") {
		t.Errorf("%v in %.300s", err, out)
	}
}

// TestSimulateRoundsPolicies checks that every policy is listed with a description of one or two lines.
func TestSimulateRoundsPolicies(t *testing.T) {
	t.Parallel()
	code, out, errs := newWorld(t).run("simulate", "rounds", "--policies")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	lines := strings.Split(out, "\n")
	for _, name := range share.Names() {
		found := false
		for i, l := range lines {
			found = found || l == name && strings.Contains(strings.Join(lines[i+2:i+4], ""), "must know")
		}
		if !found {
			t.Errorf("%s is not listed", name)
		}
	}
}

// TestSimulateTraceOfUnknownKinds checks that jobs of unmeasured types are refused, or run with drawn types and a note.
func TestSimulateTraceOfUnknownKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("jobs.csv", "id,type,arrival_s,gpus,steps,seconds\n0,Llama-7B,0,1,,3600\n1,Llama-7B,60,2,,7200\n")
	if code, _, errs := w.run("simulate", "rounds", "--trace", "jobs.csv", "--policy", "srtf"); code != run.CodeUsage || !strings.Contains(errs, "Llama-7B") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := w.run("simulate", "rounds", "--trace", "jobs.csv", "--skip-unknown"); code != run.CodeUsage || !strings.Contains(errs, "no rate for any of its 2 jobs") {
		t.Errorf("exit %d: %s", code, errs)
	}
	w.write("mixed.csv", "id,type,arrival_s,gpus,steps,seconds\n0,Llama-7B,0,1,,3600\n1,A3C,60,1,,7200\n")
	if code, out, errs := w.run("simulate", "rounds", "--trace", "mixed.csv", "--skip-unknown"); code != run.CodeDone || !strings.Contains(out, "1 of 2 jobs are left out") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs := w.run("simulate", "rounds", "--trace", "jobs.csv", "--policy", "srtf", "--draw-types", "1")
	if code != run.CodeDone || !strings.Contains(out, "drawn") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	for args, want := range map[string]string{"--draw-types 1": "--draw-types requires --trace", "--trace jobs.csv --filled": "--filled cannot be combined with --trace"} {
		if code, _, errs := w.run(append([]string{"simulate", "rounds"}, strings.Fields(args)...)...); code != run.CodeUsage || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
	}
	if code, out, errs := w.run("simulate", "rounds", "--arrival-rate", "4", "--window", "20:40", "--filled", "--policy", "srtf"); code != run.CodeDone || !strings.Contains(out, "all ended") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}
