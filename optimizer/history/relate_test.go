package history

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
)

const trainText = `import torch
parser.add_argument("--epochs", default=4)
model = torch.nn.Linear(10, 10)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(args.epochs):
    for x, y in loader:
        loss = model(x).sum()
        loss.backward()
        optimizer.step()
    scheduler.step()
torch.save(model.state_dict(), "model.pt")
for x, y in test_loader:
    accuracy += (model(x).argmax(1) == y).sum()
report(accuracy)
`

// inspected returns the hash and the likeness that an inspection computes from the text of a script.
func inspected(t *testing.T, text string) (sha, likeness string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "train.py")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ins, err := inspect.Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	return ins.SHA256, ins.Likeness
}

// TestRecallByLikeness requires that runs of an edited script, or with other arguments, are recalled as the same or
// as similar work.
func TestRecallByLikeness(t *testing.T) {
	for name, c := range map[string]struct {
		text    string   // of the current script
		args    []string // of the current command; nil: unchanged
		path    string
		epochs  int
		want    string // "same", "length" (same work, another length), "similar", "none"
		differs string
	}{
		"nothing changed":          {trainText, nil, "/jobs/train.py", 0, "same", ""},
		"a comment":                {"# second try\n" + trainText, nil, "/jobs/train.py", 0, "same", ""},
		"a learning rate":          {strings.Replace(trainText, "lr=0.1", "lr=0.5", 1), []string{"--lr", "0.5", "--batch-size", "32", "--seed=2"}, "/jobs/train.py", 0, "same", ""},
		"a copy elsewhere":         {"# copied\n" + trainText, nil, "/home/train.py", 0, "same", ""},
		"other epochs":             {trainText, []string{"--lr", "0.1", "--batch-size", "32", "--epochs", "9"}, "/jobs/train.py", 0, "length", ""},
		"other epochs, handed":     {trainText, nil, "/jobs/train.py", 7, "length", ""},
		"another batch size":       {trainText, []string{"--lr", "0.1", "--batch-size", "64"}, "/jobs/train.py", 0, "similar", "batch_size 32, now 64"},
		"an edited model":          {strings.Replace(trainText, "10, 10", "10, 99", 1), nil, "/jobs/train.py", 0, "similar", "text"},
		"another script, its name": {"import numpy\nnumpy.random.rand(3)\n", nil, "/jobs/train.py", 0, "none", ""},
		"another script":           {"# x\n" + trainText, nil, "/jobs/other.py", 0, "none", ""},
	} {
		t.Run(name, func(t *testing.T) {
			sha, likeness := inspected(t, trainText)
			state, ids := keep(t, past(func(r *journal.Record) {
				r.Script = journal.Script{Path: "/jobs/train.py", SHA256: sha, Likeness: likeness}
				r.Command = []string{"/usr/bin/python3", "/jobs/train.py", "--lr", "0.1", "--batch-size", "32"}
				r.Exit = &journal.Exit{Reason: "exited"}
			}))
			args := c.args
			if args == nil {
				args = []string{"--lr", "0.1", "--batch-size", "32"}
			}
			now, nowLikeness := inspected(t, c.text)
			got, notes := Recall(state, asks(func(k *Key) {
				k.ScriptSHA256, k.Likeness, k.Script, k.Handed.Epochs = now, nowLikeness, c.path, c.epochs
				k.Command = append([]string{"/usr/bin/python3", c.path}, args...)
			}))
			have := "none"
			switch {
			case slices.Equal(got.Runs, ids) && got.Total == 40 && len(got.Recurrences) == 1:
				have = "same"
			case slices.Equal(got.Runs, ids) && got.Total == 0 && len(got.Recurrences) == 0 && len(got.Observations) == 1:
				have = "length"
			case len(got.Similar) == 1 && got.Similar[0].Run == ids[0] && len(got.Observations) == 0 && len(got.Similar[0].Observations) == 1:
				have = "similar"
			}
			if have != c.want || len(notes) > 0 {
				t.Errorf("have %s, want %s: %+v, notes %q", have, c.want, got, notes)
			}
			if c.differs != "" && !strings.Contains(words(got.Similar[0].Changes), c.differs) {
				t.Errorf("differs in %q, want %q", words(got.Similar[0].Changes), c.differs)
			}
			if have == "similar" && !(got.Similar[0].Distance > 0) {
				t.Errorf("%+v", got.Similar[0])
			}
		})
	}
}

// TestRecallByFiles: a run whose modules or configuration files were others is a similar one; where either hash is unknown, as in
// records of earlier versions, only the script counts.
func TestRecallByFiles(t *testing.T) {
	for _, was := range []string{"", "a1", "b2"} {
		for _, is := range []string{"", "a1", "b2"} {
			state, ids := keep(t, past(func(r *journal.Record) { r.Script.FilesDigest = was }))
			got, _ := Recall(state, asks(func(k *Key) { k.FilesDigest = is }))
			if was != "" && is != "" && was != is {
				if len(got.Runs) > 0 || got.Total > 0 || len(got.Similar) != 1 || got.Similar[0].Distance != unknownText || words(got.Similar[0].Changes) != ScriptText {
					t.Errorf("%q, now %q: %+v", was, is, got)
				}
			} else if !slices.Equal(got.Runs, ids) || got.Total != 40 || len(got.Similar) > 0 {
				t.Errorf("%q, now %q: %+v", was, is, got)
			}
		}
	}
	state, _ := keep(t, past(func(r *journal.Record) { r.Script.FilesDigest = "a1" }))
	got, _ := Recall(state, asks(func(k *Key) { k.FilesDigest, k.Command = "b2", append(k.Command, "--config", "b.yaml") }))
	if len(got.Similar) != 1 || words(got.Similar[0].Changes) != "config none, now b.yaml" {
		t.Errorf("another configuration file: %+v", got.Similar)
	}
}

// TestRecallByCPUModel: a run on another model of CPU is a similar one, of the same length; an unknown model matches any.
func TestRecallByCPUModel(t *testing.T) {
	for _, was := range []string{"", "A", "B"} {
		for _, is := range []string{"", "A", "B"} {
			state, ids := keep(t, past(func(r *journal.Record) { r.Host.CPUModel = was }))
			got, _ := Recall(state, asks(func(k *Key) { k.CPUModel = is }))
			if was != "" && is != "" && was != is {
				if len(got.Runs) > 0 || got.Total != 40 || len(got.Similar) != 1 || words(got.Similar[0].Changes) != "CPU "+was+", now "+is || !got.Similar[0].Changes[0].OfMachine() {
					t.Errorf("%q, now %q: %+v", was, is, got)
				}
			} else if !slices.Equal(got.Runs, ids) || got.Total != 40 || len(got.Similar) > 0 {
				t.Errorf("%q, now %q: %+v", was, is, got)
			}
			if got, _ := Recall(state, asks(func(k *Key) { k.CPUModel, k.AnyMachine = is, true })); !slices.Equal(got.Runs, ids) {
				t.Errorf("%q, for any machine: %+v", was, got)
			}
		}
	}
	state, _ := keep(t, past(func(r *journal.Record) { r.Host.CPUModel, r.Script.FilesDigest = "A", "a1" }))
	got, _ := Recall(state, asks(func(k *Key) { k.CPUModel, k.FilesDigest = "B", "b2" }))
	if got.Total != 0 || len(got.Similar) != 1 || words(got.Similar[0].Changes) != ScriptText+", CPU A, now B" {
		t.Errorf("another CPU and other modules: %+v", got)
	}
}

// TestRecallByThreads: a run with other thread variables of the user is no evidence of the pace.
func TestRecallByThreads(t *testing.T) {
	for _, was := range []string{"", "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=2 MKL_NUM_THREADS=2"} {
		for _, is := range []string{"", "OMP_NUM_THREADS=2", "OMP_NUM_THREADS=1"} {
			state, _ := keep(t, past(func(r *journal.Record) { r.Handed.Threads = was }))
			got, _ := Recall(state, asks(func(k *Key) { k.Handed.Threads = is }))
			if same := was == is; len(got.Runs) == 1 != same || len(got.Observations) > 0 != same || len(got.Similar) > 0 {
				t.Errorf("%q, now %q: %+v", was, is, got)
			}
		}
	}
}

// TestSimilarOrder requires ascending distance and at most eight runs.
func TestSimilarOrder(t *testing.T) {
	var records []*journal.Record
	for i := range 12 {
		records = append(records, past(func(r *journal.Record) { r.Command[2], r.Command[3] = "--width", fmt.Sprint(32<<(i%6)) }))
	}
	state, _ := keep(t, records...)
	got, _ := Recall(state, asks(func(k *Key) { k.Command[2], k.Command[3] = "--width", "24" }))
	if len(got.Similar) != maxSimilar || len(got.Runs) != 0 {
		t.Fatalf("%d similar runs, %d of the same work", len(got.Similar), len(got.Runs))
	}
	if !slices.IsSortedFunc(got.Similar, func(a, b Similar) int { return cmp.Compare(a.Distance, b.Distance) }) {
		t.Errorf("not in order of distance: %+v", got.Similar)
	}
	if d := got.Similar[0].Distance; math.Abs(d-math.Log2(32.0/24)) > 1e-9 {
		t.Errorf("the nearest is %g away", d)
	}
}

// TestRecallFinishedTotal requires the total of a finished run that never reported its length, and none of a stopped
// run.
func TestRecallFinishedTotal(t *testing.T) {
	for state, want := range map[journal.State]float64{journal.Done: 37, journal.Stopped: 0, journal.Failed: 0} {
		dir, _ := keep(t, past(func(r *journal.Record) {
			r.State, r.Training.TotalUnits, r.Training.Unit, r.Outcome.Epochs = state, journal.Unknown(), "step", 37
		}))
		got, _ := Recall(dir, asks(nil))
		if got.Total != want || want > 0 && got.Unit != "step" {
			t.Errorf("%s: total %g %s, want %g", state, got.Total, got.Unit, want)
		}
		dir, _ = keep(t, past(func(r *journal.Record) {
			r.State, r.Training.TotalUnits, r.Training.Unit, r.Outcome.Steps = state, journal.Unknown(), "step", 37
		}))
		if got, _ := Recall(dir, asks(nil)); got.Total != want || want > 0 && got.Unit != "step" {
			t.Errorf("%s: total %g %s, want %g, the steps done", state, got.Total, got.Unit, want)
		}
	}
}

// TestRecallEntryPoint requires that installed commands and modules, which have no script, are matched by name.
func TestRecallEntryPoint(t *testing.T) {
	yolo := func(args ...string) []string {
		return append([]string{"/opt/venv/bin/yolo", "detect", "train", "model=yolo11n.yaml"}, args...)
	}
	dir, ids := keep(t, past(func(r *journal.Record) {
		r.Script = journal.Script{Path: "/opt/venv/bin/yolo"}
		r.Command = yolo("epochs=4", "lr0=0.1")
	}))
	for name, c := range map[string]struct {
		command []string
		want    bool
	}{
		"the same":        {yolo("epochs=4", "lr0=0.2"), true},
		"another model":   {yolo("epochs=4", "model=yolo11x.yaml"), false},
		"another command": {[]string{"/opt/venv/bin/trl", "sft"}, false},
	} {
		got, _ := Recall(dir, asks(func(k *Key) { k.ScriptSHA256, k.Script, k.Command = "", "/opt/venv/bin/yolo", c.command }))
		if slices.Equal(got.Runs, ids) != c.want {
			t.Errorf("%s: recalled %v", name, got.Runs)
		}
	}
}

// TestRecallProgram: a program without a script is the same training in the same directory, and perhaps another one where it was
// changed since the earlier run.
func TestRecallProgram(t *testing.T) {
	command := func(args ...string) []string { return append([]string{"/opt/bin/nettrain"}, args...) }
	began := time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)
	dir, ids := keep(t, past(func(r *journal.Record) {
		r.Script, r.Dir, r.StartedAt = journal.Script{Path: "/opt/bin/nettrain"}, "/jobs/a", began
		r.Command = command("--epochs", "8", "--width", "32")
	}))
	for name, c := range map[string]struct {
		command []string
		dir     string
		built   time.Time
		want    string
	}{
		"the same":            {command("--epochs", "8", "--width", "32"), "/jobs/a", began.Add(-time.Hour), "same"},
		"twice the epochs":    {command("--epochs", "16", "--width", "32"), "/jobs/a", time.Time{}, "same"},
		"another width":       {command("--epochs", "8", "--width", "64"), "/jobs/a", time.Time{}, "similar"},
		"another directory":   {command("--epochs", "8", "--width", "32"), "/jobs/b", time.Time{}, "none"},
		"built again":         {command("--epochs", "8", "--width", "32"), "/jobs/a", began.Add(time.Hour), "similar"},
		"another program":     {[]string{"/opt/bin/other", "--epochs", "8", "--width", "32"}, "/jobs/a", time.Time{}, "none"},
		"a script of a shell": {[]string{"bash", "-c", "/opt/bin/nettrain --epochs 8 --width 32"}, "/jobs/a", time.Time{}, "none"},
	} {
		got, _ := Recall(dir, asks(func(k *Key) {
			k.ScriptSHA256, k.Script, k.Command, k.Dir, k.Built = "", "/opt/bin/nettrain", c.command, c.dir, c.built
		}))
		have := "none"
		switch {
		case slices.Equal(got.Runs, ids):
			have = "same"
		case len(got.Similar) == 1:
			have = "similar"
		}
		if have != c.want {
			t.Errorf("%s: %s, want %s", name, have, c.want)
		}
	}
}

func words(changes []Change) string {
	var out []string
	for _, c := range changes {
		out = append(out, c.Describe())
	}
	return strings.Join(out, ", ")
}
