package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// spotAnswer is the part of the JSON output of simulate spot that the tests read.
type spotAnswer struct {
	Schema   int
	Engine   string
	Policy   string
	Cost     float64  `json:"cost_usd"`
	Alone    float64  `json:"on_demand_cost_usd"`
	Optimum  *float64 `json:"optimum_cost_usd"`
	SpotS    float64  `json:"spot_s"`
	DemandS  float64  `json:"on_demand_s"`
	Dated    string   `json:"prices_dated"`
	Prices   string   `json:"prices"`
	Starts   int      `json:"starts"`
	Missed   bool     `json:"missed"`
	StartS   float64  `json:"start_s"`
	Zones    []string `json:"zones"`
	Warnings []string `json:"warnings"`
	Timeline []struct {
		Machine string `json:"machine"`
	} `json:"timeline"`
}

func (w *world) spot(args ...string) spotAnswer {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"simulate", "spot", "--json"}, args...)...)
	if code != run.CodeDone || errs != "" {
		w.t.Fatalf("%v: exit %d: %s", args, code, errs)
	}
	var a spotAnswer
	if err := json.Unmarshal([]byte(out), &a); err != nil {
		w.t.Fatal(err)
	}
	return a
}

// hourlyTrace returns a trace with ticks of one hour.
func hourlyTrace(bits string) string {
	return `{"metadata":{"gap_seconds":3600},"data":[` + strings.Join(strings.Split(bits, ""), ",") + `]}`
}

// TestSimulateSpotByHand checks a case computed by hand: 4 hours of work in 8, with capacity in hours 2, 3 and 4.
func TestSimulateSpotByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("one.json", hourlyTrace("00111000"))
	args := []string{"--trace", "one.json", "--work", "4h", "--deadline", "8h", "--changeover", "0", "--spot-usd-hour", "1", "--on-demand-usd-hour", "3"}
	a := w.spot(args...)
	// Behind schedule at 1 h: one hour on demand, then 3 hours of spot capacity complete the job.
	if a.Schema != 1 || a.Engine != "spot" || a.Policy != "uniform" || a.Cost != 6 || a.Alone != 12 || a.Optimum == nil || *a.Optimum != 6 || a.Missed || a.SpotS != 3*3600 || a.DemandS != 3600 {
		t.Errorf("%+v", a)
	}
	if a := w.spot(append(args, "--policy", "greedy")...); a.Cost != 6 || a.Starts != 2 {
		t.Errorf("%+v", a)
	}
	if a := w.spot(append(args, "--policy", "spot_only")...); !a.Missed || a.Cost != 4 || a.DemandS != 0 {
		t.Errorf("%+v", a)
	}
	if a := w.spot(append(args, "--start", "2h", "--policy", "optimum")...); a.StartS != 7200 || a.Cost != 6 || !strings.Contains(strings.Join(a.Warnings, " "), "ends 2 h before") {
		t.Errorf("%+v", a)
	}
	// The second zone has capacity where the first has none.
	w.write("two.json", hourlyTrace("11000000"))
	if a := w.spot(append(args, "--trace", "two.json")...); len(a.Zones) != 2 || a.Cost != 4 || a.Starts != 2 {
		t.Errorf("%+v", a)
	}
	// A missed deadline is a result.
	if a := w.spot("--trace", "one.json", "--work", "4h", "--deadline", "2h", "--changeover", "0"); !a.Missed || a.Optimum != nil || !strings.Contains(strings.Join(a.Warnings, " "), "no policy can meet the deadline") {
		t.Errorf("%+v", a)
	}
}

func TestSimulateSpotDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.spot("--seed", "3")
	if a.Dated != "2025-03-07" || !strings.Contains(a.Prices, "aws:p3.2xlarge") || a.Missed || a.Optimum == nil || a.Cost < *a.Optimum || a.Cost > 1.2*a.Alone ||
		math.Abs(a.Alone-48.2*3.06) > 1e-3 || !strings.Contains(strings.Join(a.Warnings, " "), "generated, not measured") {
		t.Errorf("%+v", a)
	}
	if b := w.spot("--seed", "3"); b.Cost != a.Cost {
		t.Errorf("the same seed costs %v and %v", a.Cost, b.Cost)
	}
	if b := w.spot("--seed", "3", "--zone-count", "3"); len(b.Zones) != 3 || b.SpotS <= a.SpotS {
		t.Errorf("three zones have %v s, one %v s", b.SpotS, a.SpotS)
	}
	for _, file := range []string{"page.html", "timeline.csv", "all.json"} {
		if code, out, errs := w.run("simulate", "spot", "--work", "5h", "--deadline", "7h", "--output", file); code != run.CodeDone || out+errs != "" {
			t.Errorf("%s: exit %d: %s%s", file, code, out, errs)
		}
	}
	for file, want := range map[string]string{"page.html": "<!DOCTYPE html>", "timeline.csv": "from_s,to_s,machine,zone,done_s\n", "all.json": `"engine": "spot"`} {
		if data, err := os.ReadFile(filepath.Join(w.dir, file)); err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s: %.200s, %v", file, data, err)
		}
	}
	code, out, _ := w.run("simulate", "spot", "--list-policies")
	if code != run.CodeDone || !strings.Contains(out, "uniform     Uniform Progress") {
		t.Errorf("exit %d: %s", code, out)
	}
}

func TestSimulateSpotRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("one.json", hourlyTrace("0011"))
	w.write("fast.json", `{"metadata":{"gap_seconds":60},"data":[1,0]}`)
	w.write("broken.json", `{"metadata":`)
	for line, want := range map[string]string{
		"--policy best":                              `"best": unknown, want one of adaptive`,
		"--trace nowhere.json":                       "nowhere.json",
		"--trace broken.json":                        "broken.json: read spot trace",
		"--trace one.json,fast.json":                 "ticks of 3600 s and fast of 60 s",
		"--trace one.json --zone-count 2":            "--zone-count cannot be combined with --trace",
		"--trace one.json --availability 1h:1h":      "--availability cannot be combined with --trace",
		"--trace one.json --start 4h":                "the trace ends after 4 h",
		"--availability 2h":                          "want UP:DOWN",
		"--availability 2h:0":                        "want UP:DOWN",
		"--availability 2m:1h":                       "--tick 5m0s",
		"--tick 1ms --availability 1h:1h":            "want a longer tick",
		"--zone-count 0":                             "--zone-count 0",
		"--work 0":                                   "--work 0",
		"--deadline 0":                               "--deadline 0",
		"--work soon":                                "--work",
		"--spot-usd-hour 1":                          "--spot-usd-hour requires --on-demand-usd-hour",
		"--spot-usd-hour 1 --on-demand-usd-hour NaN": "--on-demand-usd-hour NaN",
		"--spot-usd-hour -1 --on-demand-usd-hour 3":  "--spot-usd-hour -1",
		"--spot-usd-hour 1 --on-demand-usd-hour 3 --instance aws:p3.2xlarge": "--instance cannot be combined",
		"--instance aws:nothing":                    "--instance",
		"--instance aws:g4ad.xlarge":                "no price on spot capacity",
		"--format pdf":                              "want one of",
		"--policy optimum --deadline 2h --work 10h": "too late",
	} {
		code, out, errs := w.run(append([]string{"simulate", "spot"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}
