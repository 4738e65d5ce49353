package conformance

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestReadTruth(t *testing.T) {
	tr, err := readTruth(strings.NewReader("1.0 7 10 0.5 640\n2.0 7 20 1.0 1280\n3.0 8 16 0.8 1024\n4.0 8 3"))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr) != 3 || tr.last() != (mark{2, 7, 20, 1, 1280}) || len(tr.lives()) != 2 {
		t.Errorf("%+v: want three records of two lives, the furthest at step 20", tr)
	}
	if got := tr.lost(); got != 5 { // steps 16 to 20 were repeated
		t.Errorf("lost %g steps, want 5", got)
	}
	if _, err := readTruth(strings.NewReader("1.0 7 ten\n2.0 7 20 1.0 1280\n")); err == nil {
		t.Error("a broken line in the middle was accepted")
	}
}

func TestRates(t *testing.T) {
	var tr truth
	at := 0.0
	for step := range 100 {
		at += 0.1
		if step == 50 {
			at += 10 // an evaluation
		}
		tr = append(tr, mark{at: at, pid: 1, steps: float64(step + 1), samples: 32 * float64(step+1)})
	}
	tr = append(tr, mark{at: 100, pid: 2, steps: 101}, mark{at: 101, pid: 2, steps: 111}, mark{at: 102, pid: 2, steps: 121}) // resumed
	if rate, ok := tr.rate(countSteps); !ok || math.Abs(rate-119/21.9) > 1e-9 {
		t.Errorf("rate %g, want %g: 119 steps in two stretches of 19.9 and 2 s", rate, 119/21.9)
	}
	if _, ok := tr.rate(countEpochs); ok {
		t.Error("a rate of epochs for a training without epochs")
	}
}

func TestEnoughHeld(t *testing.T) {
	for _, c := range []struct {
		held, n int
		want    bool
	}{{0, 0, true}, {20, 20, true}, {14, 20, true}, {13, 20, false}, {18, 27, false}, {21, 27, true}, {0, 2, true}, {0, 3, false}} {
		if got := enoughHeld(c.held, c.n); got != c.want {
			t.Errorf("%d of %d: %v, want %v", c.held, c.n, got, c.want)
		}
	}
}

func TestGeometric(t *testing.T) {
	s := series{name: "a", pairs: []pair{{bare: 10, wrapped: 11}, {bare: 11, wrapped: 10}, {bare: 4, wrapped: 4}}}
	mean, lo, hi := s.ratio()
	if math.Abs(mean-1) > 1e-12 || lo < 1/1.1 || lo >= 1 || hi <= 1 || hi > 1.1 {
		t.Errorf("ratio %g (%g–%g), want 1 inside an interval within 1/1.1–1.1", mean, lo, hi)
	}
	if m := s.median(func(p pair) float64 { return p.bare }); m != 10 {
		t.Errorf("median %g, want 10", m)
	}
	both, _, _ := overall([]series{s, {name: "b", pairs: []pair{{bare: 1, wrapped: 1.21}}}})
	if math.Abs(both-1.1) > 1e-12 {
		t.Errorf("overall %g, want 1.1: each training weighs the same", both)
	}
}

func TestReplaceBlock(t *testing.T) {
	got, err := replaceBlock("a\n<!-- x -->\nold\n<!-- /x -->\nb\n", "x", "new\n")
	if err != nil || got != "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := replaceBlock("a", "x", "new"); err == nil {
		t.Error("a document without the block was accepted")
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, path string
		want          bool
	}{
		{"out/checkpoint-*", "/d/out/checkpoint-20", true},
		{"out/checkpoint-*", "/d/out/checkpoint-20/model.safetensors", true},
		{"out/ckpt.pt", "/d/out/ckpt.pt", true},
		{"out/ckpt.pt", "/d/other/ckpt.pt", false},
		{"{model.keras,backup/*}", "/d/backup/latest.json", true},
		{"{model.keras,backup/*}", "model.keras", true},
		{"metrics.csv", "/d/other_run.csv", false},
	} {
		if got := matches(c.pattern, c.path); got != c.want {
			t.Errorf("%s, %s: %v, want %v", c.pattern, c.path, got, c.want)
		}
	}
}

// TestJudge changes one field of a correct record at a time and checks which judgement becomes wrong.
func TestJudge(t *testing.T) {
	tr := training{name: "x", stepsPer: 10, every: 1, checkpoint: "out/ckpt.pt", resumes: true}
	var counted truth
	for step := 1; step <= 40; step++ {
		counted = append(counted, mark{at: float64(step), pid: 1, steps: float64(step), epochs: float64(step) / 10, samples: 64 * float64(step)})
	}
	const good = `{"run_id": "r", "state": "done", "exit": {"code": 0, "reason": "exited"},
		"sla": {"verdicts": [{"objective": "time", "status": "met"}]},
		"plan": {"allocation": {"cpus": 2}, "prediction": {"seconds": {"P5": 38, "P50": 40, "P95": 44}}},
		"outcome": {"seconds": 41, "epochs": 4, "throughput": 64.5, "throughput_unit": "samples/s"},
		"checkpoint": {"path": "/d/out/ckpt.pt"},
		"training": {"total_units": 4, "unit": "epoch"}, "log": {"path": "/s/runs/r/observed.jsonl", "format": "observer"}}`
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"right":                  {"", "", nil},
		"failed":                 {`"state": "done"`, `"state": "failed"`, []string{"end"}},
		"another exit":           {`"code": 0`, `"code": 3`, []string{"end"}},
		"verdict unknown":        {`"met"`, `"unknown"`, []string{"end"}},
		"an epoch lost":          {`"epochs": 4`, `"epochs": 3`, []string{"progress"}},
		"no progress":            {`"epochs": 4`, `"epochs": null`, []string{"progress"}},
		"total of another bar":   {`"total_units": 4`, `"total_units": 800`, []string{"total"}},
		"predicted of nothing":   {`"total_units": 4`, `"total_units": null`, []string{"total", "predicted"}},
		"steps as samples":       {`64.5`, `1.0`, []string{"rate"}},
		"5 % off":                {`64.5`, `67.2`, []string{"rate"}},
		"rate in another unit":   {`"samples/s"`, `"steps/s"`, []string{"rate"}},
		"log of another program": {`/s/runs/r/observed.jsonl`, `/d/other_run.csv`, []string{"log"}},
		"no checkpoint":          {`{"path": "/d/out/ckpt.pt"}`, `null`, []string{"checkpoint"}},
		"not a checkpoint":       {`/d/out/ckpt.pt`, `/d/data.pt`, []string{"checkpoint"}},
	} {
		t.Run(name, func(t *testing.T) {
			if c.old != "" && !strings.Contains(good, c.old) {
				t.Fatalf("%q is not in the record", c.old)
			}
			r := &record{dir: "/s/runs/r"}
			if err := json.Unmarshal([]byte(strings.Replace(good, c.old, c.new, 1)), r); err != nil {
				t.Fatal(err)
			}
			j := judge(tr, 4, 0, r, counted)
			var got []string
			for _, c := range j.cells() {
				if c.wrong {
					got = append(got, c.name)
				}
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("wrong: %q, want %q: %+v", got, c.want, j)
			}
			if !j.predictionShown || !j.predictionHeld {
				t.Error("the interval 38–44 s holds 41 s")
			}
		})
	}
}

func TestJudgeResume(t *testing.T) {
	tr := training{stepsPer: 10, every: 1, resumes: true}
	life := func(pid, from, to int) (out truth) {
		for s := from; s <= to; s++ {
			out = append(out, mark{at: float64(100*pid + s), pid: pid, steps: float64(s), epochs: float64(s) / 10})
		}
		return out
	}
	whole := 4.0
	r := &record{State: "done"}
	r.Training.Unit, r.Outcome.Epochs = "epoch", &whole
	for name, c := range map[string]struct {
		truth truth
		wrong bool
	}{
		"from the checkpoint":      {append(life(1, 1, 27), life(2, 21, 40)...), false},
		"saved at the stop":        {append(life(1, 1, 27), life(2, 28, 40)...), false},
		"from an older checkpoint": {append(life(1, 1, 27), life(2, 11, 40)...), true},
		"from the beginning":       {append(life(1, 1, 27), life(2, 1, 40)...), true},
		"never trained again":      {life(1, 1, 40), true},
		"ended early":              {append(life(1, 1, 27), life(2, 21, 39)...), true},
	} {
		if got := judgeResume(tr, 4, 0, r, c.truth); got.wrong != c.wrong {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// TestTrainingsAreUnaware checks that no training mentions the optimizer and that every file used by a command exists
// in the folder.
func TestTrainingsAreUnaware(t *testing.T) {
	files, err := filepath.Glob("trainings/[a-z]*") // without __pycache__
	if err != nil || len(files) < 15 {
		t.Fatalf("%d files in trainings: %v", len(files), err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if text := strings.ToLower(string(data)); strings.Contains(text, "optimizer_") || strings.Contains(text, "optimize_") || strings.Contains(text, "sigusr1") {
			t.Errorf("%s names a part of the program's protocol", path)
		}
	}
	seen := map[string]bool{}
	for _, tr := range trainings {
		if seen[tr.name] {
			t.Errorf("two trainings %s", tr.name)
		}
		seen[tr.name] = true
		for _, word := range tr.argv(1) {
			if ext := filepath.Ext(word); (ext == ".py" || ext == ".sh") && !fileExists(filepath.Join("trainings", word)) {
				t.Errorf("%s: no file %s", tr.name, word)
			}
		}
		if tr.short >= tr.full || tr.resumes && (tr.every == 0 || tr.checkpoint == "") {
			t.Errorf("%s: lengths %d and %d, checkpoint %q each %d", tr.name, tr.short, tr.full, tr.checkpoint, tr.every)
		}
	}
	for _, name := range append(slices.Clone(paired), calibrated...) {
		if !seen[name] {
			t.Errorf("no training %s", name)
		}
	}
}
