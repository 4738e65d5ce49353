package morl_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/morl"
	"trainopt/morl/problems"
)

const playAs = "PLAY_ENVIRONMENT"

func TestMain(m *testing.M) {
	if part := os.Getenv(playAs); part != "" {
		play(part)
		return
	}
	os.Exit(m.Run())
}

// play answers requests: "treasure" with deep-sea-treasure, any other part with itself after the spaces.
func play(part string) {
	p := problems.DeepSeaTreasure(problems.Convex)
	out := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		var r struct {
			Op     string
			Seed   uint64
			Action int
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			panic(err)
		}
		switch {
		case strings.HasPrefix(part, "{") && r.Op == "spaces" && !strings.Contains(part, `"actions"`):
			fmt.Println(`{"state": 2, "actions": 2, "objectives": ["a"]}`)
		case part == "exit" && r.Op == "spaces":
			fmt.Fprintln(os.Stderr, "first\nImportError: no module")
			os.Exit(1)
		case part != "treasure":
			fmt.Println(part)
		case r.Op == "spaces":
			_ = out.Encode(map[string]any{"state": p.Shape().State, "actions": p.Shape().Actions, "objectives": p.Shape().Objectives, "limit": p.Limit(), "reference": p.Reference()})
		case r.Op == "reset":
			_ = out.Encode(map[string]any{"state": p.Reset(rand.New(rand.NewPCG(r.Seed, 0))).State})
		default:
			o := p.Step(r.Action)
			_ = out.Encode(map[string]any{"state": o.State, "reward": o.Reward, "done": o.Done, "cut": o.Cut, "work": o.Work})
		}
	}
}

func start(t *testing.T, part string) (*morl.ProcessEnvironment, error) {
	t.Helper()
	env, err := morl.Start([]string{os.Args[0]}, morl.Options{Env: append(os.Environ(), playAs+"="+part)})
	if err == nil {
		t.Cleanup(env.Close)
	}
	return env, err
}

// TestSameAsWithin: an agent learns the same in another process as within this one.
func TestSameAsWithin(t *testing.T) {
	env, err := start(t, "treasure")
	if err != nil {
		t.Fatal(err)
	}
	within := problems.DeepSeaTreasure(problems.Convex)
	if got, want := env.Shape(), within.Shape(); got.State != want.State || got.Actions != want.Actions || !slices.Equal(got.Objectives, want.Objectives) ||
		!slices.Equal(env.Reference(), within.Reference()) {
		t.Fatalf("shape %+v, reference %v; want %+v, %v", got, env.Reference(), want, within.Reference())
	}
	learn := func(e morl.Environment) []byte {
		a, err := morl.New("envelope", e.Shape(), morl.Config{Hidden: []int{16}, Gamma: 0.99, Every: 4, Warmup: 100, ExploreSteps: 500, Anneal: 1000}, 3)
		if err != nil {
			t.Fatal(err)
		}
		if err := morl.Train(context.Background(), a, e, morl.TrainOptions{Steps: 1000, Seed: 3}); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		if err := a.Save(&b); err != nil {
			t.Fatal(err)
		}
		return []byte(b.String())
	}
	if !slices.Equal(learn(env), learn(within)) {
		t.Error("the agents differ")
	}
	down := func([]float32, []bool) int { return problems.Down }
	if got, want := env.Return(down, 0.9), within.Return(down, 0.9); math.Abs(got[0]-want[0]) > 1e-6 || got[1] != want[1] {
		t.Errorf("going down returns %v, want %v", got, want)
	}
}

func TestStartRefuses(t *testing.T) {
	for part, want := range map[string]string{
		"exit":                                   "the program has ended: ImportError: no module",
		"hello":                                  `it answered "hello"`,
		`{"error": "no such map", "actions": 1}`: "no such map",
		`{"state": 0, "actions": 1, "objectives": ["a"]}`:                  "state 0: want a number from 1",
		`{"state": 1, "actions": 0, "objectives": ["a"]}`:                  "0 actions",
		`{"state": 1, "actions": 2, "objectives": []}`:                     "0 objectives",
		`{"state": 1, "actions": 2, "objectives": ["a"], "reference": []}`: "a reference of 0 numbers",
	} {
		if _, err := start(t, part); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", part, err, want)
		}
	}
	if _, err := morl.Start([]string{"/does/not/exist"}, morl.Options{}); err == nil {
		t.Error("a program that does not exist was started")
	}
}

// TestFailureEndsTraining: an invalid answer ends the training with its reason instead of a wrong agent.
func TestFailureEndsTraining(t *testing.T) {
	for part, want := range map[string]string{
		`{"state": [1]}`:                            "reset: state [1]: want a list of 2 numbers",
		`{"error": "KeyError: 'x'"}`:                "reset: KeyError: 'x'",
		`{"state": [0, 1], "reward": [1]}`:          "step: done is missing",
		`{"state": [0, 1], "done": false}`:          "step: a reward of 0 numbers: want 1",
		`{"state": [0, 1], "mask": [false]}`:        "reset: a mask of 1 actions: want 2",
		`{"state": [0, 1], "mask": [false, false]}`: "reset: the mask allows no action",
	} {
		env, err := start(t, part)
		if err != nil {
			t.Fatal(part, err)
		}
		a, err := morl.New("envelope", env.Shape(), morl.Config{Hidden: []int{8}}, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := morl.Train(context.Background(), a, env, morl.TrainOptions{Steps: 100}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", part, err, want)
		}
	}
}

// TestAdapter runs the Python adapter on a user's environment.
func TestAdapter(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("environment.py", morl.Adapter)
	write("mine.py", `import environment

class Line:
    "Walk right for a reward of the distance; each step costs one."
    def reset(self, seed=None):
        print("prints do not disturb")
        self.at = 0
        return [0.0], {}
    def step(self, action):
        self.at += 1
        end = action == 1 or self.at == 5
        return [self.at / 5], [float(self.at) if end else 0.0, -1.0], end, False, {}

environment.serve(Line(), state=1, actions=2, objectives=["gain", "time"], limit=10, reference=[0, -10])
`)
	env, err := morl.Start([]string{python, "mine.py"}, morl.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer env.Close()
	if got := env.Return(func(state []float32, _ []bool) int {
		if state[0] > 0.5 {
			return 1
		}
		return 0
	}, 1); env.Err() != nil || got[0] != 4 || got[1] != -4 {
		t.Errorf("return %v, %v; want 4 and -4", got, env.Err())
	}
	if got := env.Worst(50, 1); math.Abs(got[0]-0.6) > 1e-9 || math.Abs(got[1]+5.4) > 1e-9 { // 1 to 5 and −5 to −1
		t.Errorf("the reference is %v, want 0.6 and -5.4", got)
	}
}
