package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestPretrainPlacement checks that a sub-scheduler is trained, described in the documented JSON, and places
// containers.
func TestPretrainPlacement(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("pretrain", "--env", "placement", "--algorithm", "improved", "--steps", "64", "--output", "m.model", "--curves", "c.csv", "--curves", "c.html", "--json")
	if code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	if got["env"] != "placement" || got["agent"] != "improved" || got["steps"] != 64.0 || got["file"] != "m.model" || got["hypervolume"] != nil || len(got["returns"].([]any)) == 0 {
		t.Errorf("%s", out)
	}
	for name, begins := range map[string]string{"c.csv": "step,wall_s,value\n64,", "c.html": "<!DOCTYPE html>"} {
		if data, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || !strings.HasPrefix(string(data), begins) {
			t.Errorf("%s: %v, %.40q", name, err, data)
		}
	}
	if code, out, errs := w.run("simulate", "placement", "--nodes", "27", "--counts", "5,5,5,5,5,5,5", "--method", "metis", "--model", "m.model", "--episodes", "50"); code != run.CodeDone || !strings.Contains(out, "mean RPS") {
		t.Errorf("placing with the model: exit %d: %s%s", code, out, errs)
	}
}

// TestPretrainPolicyRefuses checks that options of other environments are rejected before the training starts.
func TestPretrainPolicyRefuses(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--env placement --algorithm metis":                      "unknown, nearest known is",
		"--env placement --algorithm improved --gamma 0.5":       "--gamma cannot be combined with --env placement",
		"--env placement --algorithm improved --steps 0":         "--steps 0: want 1 or more",
		"--env placement --algorithm improved --output no/dir/m": "cannot write",
		"--env placement --algorithm improved --table none.csv":  "none.csv",
		"--env training --algorithm conditioned --table metis":   "--table requires --env placement",
		"--env place --algorithm improved":                       "nearest known is placement",
		"--env placement --algorithm improved --curves pict.png": "want a name that ends in .csv or .html",
	} {
		t.Run(args, func(t *testing.T) {
			w := newWorld(t)
			code, _, errs := w.run(append([]string{"pretrain"}, strings.Fields(args)...)...)
			if code == run.CodeDone || !strings.Contains(errs, want) || strings.Count(strings.TrimSpace(errs), "\n") > 0 {
				t.Errorf("exit %d: %q, want %q", code, errs, want)
			}
		})
	}
}

// TestPretrainPolicyInputs checks that unreadable input files are usage errors.
func TestPretrainPolicyInputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("empty", "")
	w.write("binary", "\x00\xff\x01\xfe\n\x80\x81\n")
	if err := os.Mkdir(filepath.Join(w.dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"absent", "empty", "binary", "folder"} {
		for _, args := range []string{"--env placement --algorithm original --table ", "--env queue --algorithm ppo --trace ", "--env queue --algorithm ppo --resume "} {
			code, _, errs := w.run(strings.Fields("pretrain --steps 1 --output x " + args + file)...)
			if code != run.CodeUsage || !strings.Contains(errs, file) || strings.Count(errs, "\n") != 1 {
				t.Errorf("%s%s: exit %d, %q: want 2 and a line that names the file", args, file, code, errs)
			}
		}
	}
}

// TestPretrainQueue checks that an agent for queues is trained, resumed and used in a simulation.
func TestPretrainQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("pretrain", "--env", "queue", "--algorithm", "evolution", "--backfill", "rlscheduler", "--steps", "1", "--procs", "64", "--output", "q.policy")
	if code != run.CodeDone || !strings.Contains(out, "generated for 64 processors") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, out, errs := w.run("simulate", "queue", "--policy", "q.policy", "--backfill", "rlscheduler", "--jobs-count", "100"); code != run.CodeDone || !strings.Contains(out, "q.policy on") {
		t.Errorf("simulate: exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := w.run("pretrain", "--env", "queue", "--algorithm", "evolution", "--steps", "1", "--resume", "q.policy", "--output", "r.policy"); code != run.CodeDone {
		t.Errorf("resume: exit %d: %s", code, errs)
	}
	w.write("broken.policy", "no policy")
	for args, want := range map[string]string{
		"--backfill easy":                       "want none or rlscheduler",
		"--resume broken.policy":                "broken.policy",
		"--trace none.swf":                      "none.swf",
		"--table metis":                         "--table cannot be combined with --env queue",
		"--procs 0":                             "--procs 0: want at least 1",
		"--algorithm metis --output queue.file": "unknown, nearest known is",
	} {
		if code, _, errs := w.run(append([]string{"pretrain", "--env", "queue", "--algorithm", "evolution", "--steps", "1", "--output", "x.policy"}, strings.Fields(args)...)...); code == run.CodeDone || !strings.Contains(errs, want) {
			t.Errorf("%s: exit %d: %s", args, code, errs)
		}
	}
}
