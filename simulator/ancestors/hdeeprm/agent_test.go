package hdeeprm

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"trainopt/morl/network"
)

// learningWorld is HDeepRM's learning experiment: two jobs on four cores and five pairs, of which high_mem_bw reaches
// the optimum of 5.25 s.
func learningWorld(t testing.TB) *Environment {
	t.Helper()
	e, err := NewEnvironment(example(t, "learning"), learningJobs(), Limits{}, Settings{
		Actions: []Pair{{shortestJob, highGFLOPS}, {shortestJob, highMemBW}, {shortestJob, lowPower}, {firstJob, highGFLOPS}, {firstJob, highMemBW}},
		View:    Minimal, Objective: Makespan, QueueSensitivity: 0.05, Seed: 19021285,
	})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

var learningConfig = AgentConfig{Hidden: 16, Rate: 0.005, Gamma: 0.99}

// learned returns the number of training runs until 20 consecutive ones end at 5.25 s; 0 if this is not reached.
func learned(t testing.TB, method string, baseline int, seed uint64, most int) int {
	t.Helper()
	w, c := learningWorld(t), learningConfig
	c.Method, c.Baseline = method, baseline
	a, err := NewLearningAgent(w.ObservationSize(), w.Actions(), c, seed)
	if err != nil {
		t.Fatal(err)
	}
	streak := 0
	for run := 1; run <= most; run++ {
		r, err := a.Run(w, true)
		if err != nil {
			t.Fatal(err)
		}
		if streak++; math.Abs(r.Makespan-5.25) > 1e-9 {
			streak = 0
		}
		if streak == 20 {
			return run
		}
	}
	return 0
}

var seeds = flag.Bool("hdeeprm.seeds", false, "print how many runs every method needs in the learning experiment, from ten seeds")

func TestLearningExperiment(t *testing.T) {
	for name, c := range map[string]struct {
		method   string
		baseline int
		least    int // of ten seeds
	}{
		"reinforce":                 {"reinforce", 0, 7},
		"reinforce with a baseline": {"reinforce", 10, 9},
		"a2c":                       {"a2c", 0, 9},
	} {
		t.Run(name, func(t *testing.T) {
			var runs []int
			reached := 0
			for seed := range uint64(10) {
				n := learned(t, c.method, c.baseline, seed, 2000)
				runs = append(runs, n)
				if n > 0 {
					reached++
				}
			}
			slices.Sort(runs)
			if *seeds {
				t.Logf("runs until 20 in a row end at 5.25 s (0: not in 2,000), ten seeds: %v", runs)
			}
			if reached < c.least {
				t.Errorf("%d of 10 seeds learned it, want %d at least: %v", reached, c.least, runs)
			}
		})
	}
}

func TestLearningAgentFileAndLogs(t *testing.T) {
	w := learningWorld(t)
	a, err := NewLearningAgent(w.ObservationSize(), w.Actions(), learningConfig, 3)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for i := range 3 {
		r, err := a.Run(w, i < 2)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.First) != 5 || len(r.Actions) == 0 || r.Reward <= 0 || r.Makespan < 5.25 || (r.Loss == r.Loss) != (i < 2) {
			t.Errorf("run %d: %+v", i, r)
		}
		if err := r.AppendLogs(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, lines := range map[string]int{"rewards.log": 3, "losses.log": 2, "makespans.log": 3, "actions.log": 3, "probs.json": 1} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || bytes.Count(b, []byte("\n")) != lines {
			t.Errorf("%s: %q, %v; want %d lines", name, b, err, lines)
		}
	}
	var file bytes.Buffer
	if err := a.Write(&file, nil); err != nil {
		t.Fatal(err)
	}
	stored := file.Bytes()
	back, err := ReadLearningAgent(bytes.NewReader(stored), w.ObservationSize(), w.Actions())
	if err != nil {
		t.Fatal(err)
	}
	o, _ := w.Reset()
	if back.Greedy(o) != a.Greedy(o) {
		t.Error("it decides otherwise once stored")
	}
	if _, err := ReadLearningAgent(bytes.NewReader(stored), w.ObservationSize(), 7); !errors.Is(err, network.ErrForeign) {
		t.Errorf("an agent of other actions: %v", err)
	}
	if _, err := NewLearningAgent(3, 2, AgentConfig{Method: "ppo"}, 1); err == nil {
		t.Error("ppo is accepted")
	}
}

// TestLearningAgentResumes requires that a stored agent continues with its baseline and its runs.
func TestLearningAgentResumes(t *testing.T) {
	w, c := learningWorld(t), learningConfig
	c.Baseline = 2
	a, err := NewLearningAgent(w.ObservationSize(), w.Actions(), c, 3)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if _, err := a.Run(w, true); err != nil {
			t.Fatal(err)
		}
	}
	var file bytes.Buffer
	if err := a.Write(&file, nil); err != nil {
		t.Fatal(err)
	}
	back, err := ReadLearningAgent(&file, w.ObservationSize(), w.Actions())
	if err != nil {
		t.Fatal(err)
	}
	if back.baseline != 2 || back.runs != 3 || len(back.returns) != 2 || !slices.Equal(back.returns, a.returns) {
		t.Errorf("baseline %d, %d runs, returns %v; want 2, 3, %v", back.baseline, back.runs, back.returns, a.returns)
	}
	one, err := a.Run(w, false)
	if err != nil {
		t.Fatal(err)
	}
	two, err := back.Run(w, false)
	if err != nil || !slices.Equal(one.Actions, two.Actions) {
		t.Errorf("the next run: actions %v (%v), want %v", two.Actions, err, one.Actions)
	}
}

// TestDistributionsAreAppended requires that a run leaves the earlier distributions as they are, byte by byte, and
// refuses a file that is no list of lists.
func TestDistributionsAreAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "probs.json")
	for text, want := range map[string]string{
		"":                      "[[0.25,0.75]]\n",
		"[]\n":                  "[[0.25,0.75]]\n",
		"[ [0.50, 0.5],\n[] ]":  "[ [0.50, 0.5],\n[],[0.25,0.75]]\n",
		"[[0.5,0.5]]\n":         "[[0.5,0.5],[0.25,0.75]]\n",
		"[[0.5,0.5],[0.1,0.9]]": "[[0.5,0.5],[0.1,0.9],[0.25,0.75]]\n",
		"[1]":                   "",
		"{}":                    "",
		"[[0.5,":                "",
	} {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := appendDistribution(path, []float64{0.25, 0.75})
		if want == "" {
			want = text
		}
		if got, readErr := os.ReadFile(path); string(got) != want || (err != nil) != (want == text) {
			t.Errorf("%q becomes %q (%v, %v), want %q", text, got, err, readErr, want)
		}
	}
}
