package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"trainopt/optimizer/run"
)

// learn returns a command line with a very short training.
func learn(more ...string) []string {
	return append([]string{"pretrain", "--env", "problem:deep-sea-treasure", "--algorithm", "conditioned", "--steps", "1200", "--evaluate-every", "400", "--hidden", "24", "--minibatch", "32"}, more...)
}

// TestPretrain checks the agent file, the documented JSON and the curves.
func TestPretrain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run(learn("--seed", "4", "--output", "a.bin", "--curves", "c.csv", "--curves", "c.html", "--json")...)
	if code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	for _, key := range []string{"schema", "env", "agent", "seed", "steps", "front", "hypervolume", "reference", "expected_utility", "returns", "wall_s", "file"} {
		if got[key] == nil {
			t.Errorf("no %s in %s", key, out)
		}
	}
	if got["seed"] != 4.0 || got["steps"] != 1200.0 || got["file"] != "a.bin" {
		t.Errorf("%s", out)
	}
	for name, begins := range map[string]string{"a.bin": "optimize agent\n", "c.csv": "steps,episodes,wall_s,loss,return_treasure", "c.html": "<!DOCTYPE html>"} {
		if data, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || !strings.HasPrefix(string(data), begins) {
			t.Errorf("%s: %v, %.40q", name, err, data)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	// The same seed gives an identical file.
	if code, _, errs := w.run(learn("--seed", "4", "--output", "b.bin", "--quiet")...); code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	a, _ := os.ReadFile(filepath.Join(w.dir, "a.bin"))
	if b, err := os.ReadFile(filepath.Join(w.dir, "b.bin")); err != nil || string(a) != string(b) {
		t.Errorf("an other file for the same seed: %v", err)
	}
}

// TestPretrainProcess trains in an environment of the user through the Python adapter, and reports its failure.
func TestPretrainProcess(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	w := newWorld(t)
	code, adapter, errs := w.run("pretrain", "adapter")
	if code != run.CodeDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	w.write("environment.py", adapter)
	w.write("mine.py", `import sys, environment
class Line:
    def reset(self, seed=None):
        self.at = 0
        return [0.0], {}
    def step(self, action):
        if len(sys.argv) > 1:
            raise ValueError("broken")
        self.at += 1
        end = action == 1 or self.at == 5
        return [self.at / 5], [float(self.at) if end else 0.0, -1.0], end, False, {}
environment.serve(Line(), state=1, actions=2, objectives=["gain", "time"])
`)
	args := []string{"pretrain", "--env", "process:python3 mine.py", "--algorithm", "conditioned", "--steps", "600", "--evaluate-every", "300", "--hidden", "16", "--minibatch", "32", "--json"}
	code, out, errs := w.run(args...)
	var got struct {
		Objectives []string
		Front      [][]float64
		File       string
	}
	if err := json.Unmarshal([]byte(out), &got); code != run.CodeDone || err != nil || len(got.Front) == 0 || len(got.Front[0]) != 2 || got.File != "process-conditioned.agent" {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	args[2] = "process:python3 mine.py broken"
	args = append(args, "--output", "b.agent")
	if code, _, errs := w.run(args...); code == run.CodeDone || !strings.Contains(errs, "ValueError: broken") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestPretrainInterrupted checks that an interrupt saves and prints the command that continues, and that this command
// works.
func TestPretrainInterrupted(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		signal os.Signal
		code   run.Code
		words  string
	}{"interrupt": {os.Interrupt, run.CodeInterrupt, "stopped by Ctrl-C after "}, "terminated": {syscall.SIGTERM, run.CodeTerminated, "stopped by SIGTERM after "}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.signals <- s.signal
			code, out, errs := w.run("pretrain", "--env", "problem:deep-sea-treasure", "--algorithm", "envelope", "--steps", "500000", "--hidden", "24", "--output", "my agent")
			if code != s.code || !strings.Contains(errs, s.words) || !strings.Contains(errs, "continue with: optimize pretrain --resume 'my agent'") {
				t.Fatalf("exit %d, %s\n%s", code, errs, out)
			}
			for _, file := range []string{"my agent", "my agent.checkpoint"} {
				if _, err := os.Stat(filepath.Join(w.dir, file)); err != nil {
					t.Error(err)
				}
			}
			for len(w.signals) > 0 {
				<-w.signals
			}
			code, out, errs = w.run("pretrain", "--resume", "my agent", "--steps", "5000", "--json")
			if code != run.CodeDone || !strings.Contains(out, `"steps": 5000`) || !strings.Contains(out, `"agent": "envelope"`) {
				t.Fatalf("exit %d, %s\n%s", code, errs, out)
			}
			if _, err := os.Stat(filepath.Join(w.dir, "my agent.checkpoint")); err == nil {
				t.Error("the checkpoint is still there")
			}
		})
	}
}

func TestPretrainBadInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("text.agent", "not an agent")
	w.write("deep-sea-treasure-envelope.agent", "keep me")
	for says, args := range map[string]string{
		"nearest known is problem:deep-sea-treasure":   "--env problem:deep-sea --algorithm envelope",
		"nearest known is training":                    "--env trainin --algorithm envelope",
		"nearest known is envelope":                    "--env training --algorithm enveloppe",
		"--steps 0":                                    "--env training --algorithm envelope --steps 0",
		"--steps -7":                                   "--env training --algorithm envelope --steps -7",
		"--gamma 1.5":                                  "--env training --algorithm envelope --gamma 1.5",
		"cannot write into its directory":              "--env training --algorithm envelope --output no/where.agent",
		"ends in .csv or .html":                        "--env training --algorithm envelope --curves c.png",
		"no agent file":                                "--resume text.agent",
		"no such file":                                 "--resume nothing.agent",
		"a problem has its own":                        "--env problem:fruit-tree-5 --algorithm envelope --actions 9",
		"--resets sometimes":                           "--env training --algorithm envelope --resets sometimes",
		"agent exists":                                 "--env problem:deep-sea-treasure --algorithm envelope",
		"--profiles":                                   "--env training --algorithm envelope --profiles nowhere",
		"nearest known is --steps":                     "--env training --algorithm envelope --step 5",
		"go build -tags gorgonia":                      "--env problem:fruit-tree-5 --algorithm envelope --backend gorgonia",
		"choose backend gorgonia":                      "--env problem:fruit-tree-5 --algorithm envelope --activation silu",
		"want a history of 2":                          "--env problem:fruit-tree-5 --algorithm envelope --recurrent 8",
		"it learns a table":                            "--env problem:fruit-tree-5 --algorithm pareto --activation tanh",
		"with --env queue":                             "--env queue --algorithm ppo --backend gorgonia",
		"--env is required":                            "--algorithm envelope",
		"unknown command \"x\" of `optimize pretrain`": "x",
	} {
		code, out, errs := w.run(append([]string{"pretrain"}, strings.Fields(args)...)...)
		if code != run.CodeUsage || !strings.Contains(errs, says) || strings.Count(errs, "\n") != 1 || out != "" {
			t.Errorf("%s: exit %d, %q, want %q", args, code, errs, says)
		}
	}
	if data, _ := os.ReadFile(filepath.Join(w.dir, "deep-sea-treasure-envelope.agent")); string(data) != "keep me" {
		t.Error("a file of the user's was overwritten")
	}
}
