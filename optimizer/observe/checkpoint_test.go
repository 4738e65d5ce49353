package observe

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestRecognise(t *testing.T) {
	for name, want := range map[string]string{
		"checkpoint-500/":         "hugging-face 2",
		"step_100/":               "hugging-face 1",
		"checkpoints/":            " 0",
		"epoch=3-step=400.ckpt":   "lightning 2",
		"last.ckpt":               "lightning 2",
		"ckpt.pt":                 "pytorch 2",
		"ckpt_1000.pt":            "pytorch 2",
		"last.pt":                 "pytorch 2",
		"best.pt":                 "pytorch 2",
		"model_epoch_5.pth":       "pytorch 2",
		"checkpoint.pth.tar":      "pytorch 2",
		"pytorch_model.bin":       "pytorch 2",
		"train.bin":               "pytorch 1",
		"training_args.bin":       " 0",
		"data.pt":                 "pytorch 1",
		"model-0005.keras":        "keras 2",
		"weights.05-0.32.h5":      "keras 2",
		"images.h5":               "keras 1",
		"model.safetensors":       "safetensors 2",
		"rl_model_4000_steps.zip": "sb3 2",
		"data.zip":                " 0",
		"3.pdparams":              "snapshot 2",
		"3.pdopt":                 " 0",
		"model_epoch_3.jld2":      "snapshot 2",
		"data.bson":               "snapshot 1",
		"model.json":              "boosting 1",
		"booster.ubj":             "boosting 1",
		"lgb_model.txt":           "boosting 1",
		"m.cbm":                   "boosting 2",
		"experiment.cbsnapshot":   "boosting 2",
		"catboost_training.json":  " 0",
		"config.json":             " 0",
		"snapshot":                "snapshot 2",
		"checkpoint.pkl":          "snapshot 2",
		"checkpoint.py":           " 0",
		"checkpoints.md":          " 0",
		".ckpt.pt":                " 0",
		"model.pt.tmp":            " 0",
		"train.csv":               " 0",
	} {
		kind, strength := recognise(strings.TrimSuffix(name, "/"), strings.HasSuffix(name, "/"))
		if got := fmt.Sprintf("%s %d", kind, strength); got != want {
			t.Errorf("%s: have %q, want %q", name, got, want)
		}
	}
}

func TestProgress(t *testing.T) {
	for name, want := range map[string]string{
		"checkpoint-500":             "step 500 epoch NaN",
		"epoch=3-step=400.ckpt":      "step 400 epoch 3",
		"epoch=3-val_loss=0.25.ckpt": "step NaN epoch 3",
		"rl_model_4000_steps.zip":    "step 4000 epoch NaN",
		"model_epoch_5.pth":          "step NaN epoch 5",
		"epoch12.pt":                 "step NaN epoch 12",
		"iter_200.pth":               "step 200 epoch NaN",
		"ckpt_3.pt":                  "step NaN epoch NaN", // ambiguous: epochs or steps
		"ckpt.pt":                    "step NaN epoch NaN",
		"step-9" + strings.Repeat("9", 30) + ".pt": "step NaN epoch NaN",
	} {
		step, epoch := progress(name)
		if got := fmt.Sprintf("step %g epoch %g", step, epoch); got != want {
			t.Errorf("%s: have %q, want %q", name, got, want)
		}
	}
}

// place is a directory in which a training writes, with its own clock.
type place struct {
	t   *testing.T
	dir string
	now time.Time
}

func newPlace(t *testing.T) *place {
	return &place{t, t.TempDir(), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}
}

// write creates or changes a file at the present time.
func (p *place) write(name, text string) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		p.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		p.t.Fatal(err)
	}
	for _, one := range []string{path, filepath.Dir(path)} {
		if err := os.Chtimes(one, p.now, p.now); err != nil {
			p.t.Fatal(err)
		}
	}
}

func (p *place) later(d time.Duration) { p.now = p.now.Add(d) }

// find returns the finder's result as relative paths, incomplete ones with a question mark.
func (p *place) find(f *CheckpointFinder) string {
	var names []string
	for _, c := range f.Find(p.now) {
		n, _ := filepath.Rel(p.dir, c.Path)
		if !c.Complete {
			n += "?"
		}
		names = append(names, n)
	}
	return strings.Join(names, " ")
}

func (p *place) finder(o CheckpointOptions) *CheckpointFinder {
	o.Roots = []string{p.dir}
	f := NewCheckpointFinder(o)
	f.Start()
	return f
}

// TestFindOnlyWhatIsNew: files that existed at the start count only if they are rewritten.
func TestFindOnlyWhatIsNew(t *testing.T) {
	p := newPlace(t)
	p.write("pretrained.ckpt", "old")
	p.write("out/ckpt.pt", "old")
	p.later(time.Hour)
	f := p.finder(CheckpointOptions{})
	p.later(time.Minute)
	if got := p.find(f); got != "" {
		t.Errorf("nothing was written, found %q", got)
	}
	p.write("out/ckpt.pt", "new state")
	p.write("out/notes.txt", "x")
	if got := p.find(f); got != "out/ckpt.pt?" {
		t.Errorf("just written: %q", got)
	}
	p.later(3 * time.Second)
	if got := p.find(f); got != "out/ckpt.pt" {
		t.Errorf("unchanged for three seconds: %q", got)
	}
	p.write("out/ckpt.pt", "newer state")
	if got := p.find(f); got != "out/ckpt.pt?" {
		t.Errorf("written again: %q", got)
	}
}

// TestHuggingFaceDirectory: it is complete only with its trainer_state.json, which contains step and epoch.
func TestHuggingFaceDirectory(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	p.write("o/checkpoint-50/model.safetensors", "weights")
	p.write("o/checkpoint-50/optimizer.pt", "state")
	p.later(time.Minute)
	if got := p.find(f); got != "o/checkpoint-50?" {
		t.Errorf("without its state: %q", got)
	}
	p.write("o/checkpoint-50/trainer_state.json", `{"best_metric": null, "epoch": 1.25, "global_step": 50, "log_history": [`)
	p.later(time.Minute)
	files := f.Find(p.now)
	if len(files) != 1 || !files[0].Complete || files[0].Step != 50 || files[0].Epoch != 1.25 || files[0].Kind != HuggingFace || files[0].Bytes < 12 {
		t.Fatalf("%+v", files)
	}
	p.write("o/checkpoint-100/trainer_state.json", `{"epoch": 2.5, "global_step": 100}`)
	p.later(time.Minute)
	latest, ok := LatestCheckpoint(f.Find(p.now), "*.pt", "checkpoint-*")
	if !ok || latest.Step != 100 {
		t.Errorf("latest %+v", latest)
	}
	if _, ok := LatestCheckpoint(f.Find(p.now), "*.ckpt"); ok {
		t.Error("a file .ckpt was found")
	}
}

// TestOrder: the newest complete checkpoint is last; one kept for its score is not the newest state.
func TestOrder(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	p.write("w/epoch=1-step=10.ckpt", "a")
	p.later(time.Minute)
	p.write("w/last.pt", "b")
	p.write("w/best.pt", "b")
	p.later(time.Minute)
	p.write("w/epoch=3-step=30.ckpt", "c")
	if got, want := p.find(f), "w/epoch=3-step=30.ckpt? w/best.pt w/epoch=1-step=10.ckpt w/last.pt"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	p.later(time.Minute)
	if got, want := p.find(f), "w/best.pt w/epoch=1-step=10.ckpt w/last.pt w/epoch=3-step=30.ckpt"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
}

// TestWeakNames: a file that may be data counts if it was reported, or rewritten while the training ran.
func TestWeakNames(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	p.write("cache/data.pt", "tensor")
	f.Start()
	p.write("model.json", "{}")
	p.write("odd.name", "bytes")
	p.write("cache/data.pt", "prepared again") // before the training, by the same script
	p.later(time.Minute)
	if got := p.find(f); got != "" {
		t.Errorf("without evidence: %q", got)
	}
	f.Report(filepath.Join(p.dir, "model.json"), time.Now())
	f.Report(filepath.Join(p.dir, "odd.name"), time.Now())
	p.write("training_args.bin", "settings")
	f.Report(filepath.Join(p.dir, "training_args.bin"), time.Now())
	if got := p.find(f); got != "model.json? odd.name?" && got != "model.json odd.name" {
		t.Errorf("reported: %q", got)
	}
	p.write("cache/data.pt", "tensor, changed")
	p.later(time.Minute)
	if got := p.find(f); !strings.Contains(got, "cache/data.pt") {
		t.Errorf("rewritten: %q", got)
	}
	for _, c := range f.Find(p.now) {
		if want := filepath.Base(c.Path) != "data.pt"; c.Reported != want {
			t.Errorf("%s: reported %t", c.Path, c.Reported)
		}
	}
}

// TestCutCheckpoint: a file that its writer did not complete does not replace an older whole one; without a whole one it
// remains.
func TestCutCheckpoint(t *testing.T) {
	zip := "PK\x03\x04 data \n PK\x01\x02 names PK\x05\x06" + strings.Repeat("\x00", 18)
	for name, c := range map[string]struct{ file, whole, cut string }{
		"zip":                 {"ckpt_%d.pt", zip, zip[:12]},
		"zip with a comment":  {"ckpt_%d.pt", zip + strings.Repeat("x", 70), ""},
		"pickle":              {"ckpt_%d.pkl", "\x80\x04\x95 data .", "\x80\x04\x95 da"},
		"pickles":             {"ckpt_%d.pkl", "\x80\x04K\x01.\x80\x04K\x02.", "\x80\x04K\x01.\x80\x04K"},
		"object":              {"checkpoint_%d.json", "{\"epoch\": 3, \"w\": [1, 2]}\n", "{\"epoch\": 3, \"w\": [1, "},
		"old PyTorch":         {"ckpt_%d.pt", "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02. raw", ""},
		"an unknown format":   {"ckpt_%d.pt", "state", ""},
		"shorter than a mark": {"ckpt_%d.pt", "\x80", ""},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			f := p.finder(CheckpointOptions{Names: []string{"checkpoint_*.json"}})
			find := func() string {
				p.later(time.Minute)
				f.Confirm(time.Time{})
				return p.find(f)
			}
			first, second, third := fmt.Sprintf(c.file, 1), fmt.Sprintf(c.file, 2), fmt.Sprintf(c.file, 3)
			if c.cut != "" {
				p.write(first, c.cut)
				if got := find(); got != first {
					t.Errorf("alone: found %q", got)
				}
			}
			p.write(second, c.whole)
			if got := find(); !strings.HasSuffix(got, second) {
				t.Errorf("whole: found %q, want %s last", got, second)
			}
			p.write(third, cmp.Or(c.cut, c.whole))
			want := third
			if c.cut != "" {
				want = second
			}
			if got := find(); !strings.HasSuffix(got, want) {
				t.Errorf("found %q, want %s last", got, want)
			}
			p.write(third, c.whole)
			if got := find(); !strings.HasSuffix(got, third) {
				t.Errorf("completed: found %q, want %s last", got, third)
			}
		})
	}
}

// TestConfirmedSnapshots: files of the names from which the script continues, written once, are checkpoints if the training wrote
// them; not those of a pattern that names nothing.
func TestConfirmedSnapshots(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{Names: []string{"state_*.pkl", "*.json", "*_*.npz"}})
	p.write("state_1.pkl", "1")
	p.later(time.Minute)
	began := p.now
	for _, name := range []string{"state_2.pkl", "metrics.json", "train_data.npz", "vocabulary.pkl"} {
		p.write(name, "1")
	}
	f.Confirm(began)
	p.later(time.Minute)
	if got := p.find(f); got != "state_2.pkl" {
		t.Errorf("found %q", got)
	}
}

// TestNamedSnapshots: a file from which the script continues is a checkpoint in any format once it has changed, also while it is
// replaced too often to settle; one that is written in place is complete once it has settled.
func TestNamedSnapshots(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{Names: []string{"state.pkl", "model_*.json"}})
	replace := func(name, text string) {
		p.write(name+".tmp", text)
		if err := os.Rename(filepath.Join(p.dir, name+".tmp"), filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p.write("metrics.json", "1")
	replace("state.pkl", "1")
	p.write("model_3.json", "1")
	if got := p.find(f); got != "" {
		t.Errorf("written once: %q", got)
	}
	p.later(time.Second)
	p.write("metrics.json", "2")
	replace("state.pkl", "2")
	p.write("model_3.json", "2")
	if got := p.find(f); got != "model_3.json? state.pkl" {
		t.Errorf("written again: %q", got)
	}
	p.later(time.Minute)
	if got := p.find(f); !strings.Contains(got, "model_3.json") || strings.Contains(got, "?") {
		t.Errorf("settled: %q", got)
	}
}

// TestKnown: a later finder of the same training accepts what an earlier one found, and nothing else without evidence.
func TestKnown(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	for _, name := range []string{"model.pt", "other.pt", "odd.name"} {
		p.write(name, "tensor")
	}
	p.later(time.Minute)
	f.Known(filepath.Join(p.dir, "model.pt"))
	f.Known(filepath.Join(p.dir, "odd.name"))
	f.Known(filepath.Join(p.dir, "removed.pt"))
	found := f.Find(p.now)
	if len(found) != 2 || strings.Contains(p.find(f), "other.pt") {
		t.Fatalf("found %v, want model.pt and odd.name", found)
	}
	for _, c := range found {
		if c.Reported || !c.Complete {
			t.Errorf("%s: reported %t, complete %t", c.Path, c.Reported, c.Complete)
		}
	}
}

// TestForgetsRemovedCheckpoints: of the reported files that were removed, the latest remain reported, and so do all present ones.
func TestForgetsRemovedCheckpoints(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	report := func(name string) {
		p.later(time.Second)
		f.Report(filepath.Join(p.dir, name), p.now)
	}
	for _, name := range []string{"first.x", "checkpoint-1/model.x"} {
		p.write(name, "state")
		report(name)
	}
	for i := range 3 * maxCheckpoints {
		report(fmt.Sprintf("episode_%d.x", i))
		if i%500 == 0 {
			f.Find(p.now)
		}
	}
	f.Find(p.now)
	if n := len(f.reported); n != maxCheckpoints+2 {
		t.Errorf("%d reports are kept, want the latest %d and those of the present files", n, maxCheckpoints)
	}
	for i := range 3 * maxCheckpoints {
		if name := fmt.Sprintf("episode_%d.x", i); i%1000 == 999 {
			p.write(name, "state") // visible late
		}
	}
	var have []string
	for _, c := range f.Find(p.now) {
		if !c.Reported {
			t.Errorf("%s is not reported", c.Path)
		}
		have = append(have, filepath.Base(c.Path))
	}
	slices.Sort(have)
	if want := "[checkpoint-1 episode_2999.x first.x]"; fmt.Sprint(have) != want {
		t.Errorf("found %v, want %s", have, want)
	}
}

// TestFindIsProportional: the memory that a search allocates for reported checkpoints is in proportion to their number.
func TestFindIsProportional(t *testing.T) {
	allocated := func(n int) float64 {
		p := newPlace(t)
		f := p.finder(CheckpointOptions{})
		for i := range n {
			name := fmt.Sprintf("checkpoint-%d/model.x", i)
			p.write(name, "state")
			f.Report(filepath.Join(p.dir, name), p.now)
		}
		return testing.AllocsPerRun(1, func() {
			if found := len(f.Find(p.now)); found != n {
				t.Fatalf("%d of %d found", found, n)
			}
		})
	}
	if few, many := allocated(100), allocated(800); many > 16*few {
		t.Errorf("%g allocations for 800 checkpoints, %g for 100", many, few)
	}
}

// TestFindIsBounded: state directories, special files, links to directories and deep or large trees do not delay the
// search.
func TestFindIsBounded(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{Ignore: []string{filepath.Join(p.dir, ".optimize")}, Depth: 2, MaxEntries: 500})
	p.write(".optimize/runs/1/ckpt.pt", "x")
	p.write("a/b/ckpt.pt", "x")
	p.write("a/b/c/ckpt.pt", "too deep")
	if err := syscall.Mkfifo(filepath.Join(p.dir, "pipe.ckpt"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"zero.ckpt": "/dev/zero", "up": "..", "gone.ckpt": "missing"} {
		if err := os.Symlink(to, filepath.Join(p.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	p.later(time.Minute)
	if got := p.find(f); got != "a/b/ckpt.pt" {
		t.Errorf("found %q", got)
	}
	for i := range 1000 {
		p.write(fmt.Sprintf("many/%04d.ckpt", i), "x")
	}
	if n := len(f.Find(p.now)); n > 500 {
		t.Errorf("%d files were looked at, want at most 500", n)
	}
	if err := os.RemoveAll(filepath.Join(p.dir, "many")); err != nil {
		t.Fatal(err)
	}
	for i := range 300 {
		p.write(fmt.Sprintf("d%03d/last.ckpt", i), "x")
	}
	if n := len(f.Find(p.now)); n == 0 || n > 500/directoryCost {
		t.Errorf("%d directories were opened, want 1 to %d", n, 500/directoryCost)
	}
}

// TestReplacedByPipe: a state file that was replaced by a pipe does not block the search.
func TestReplacedByPipe(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	p.write("checkpoint-5/model.safetensors", "x")
	if err := syscall.Mkfifo(filepath.Join(p.dir, "checkpoint-5", stateFile), 0o600); err != nil {
		t.Fatal(err)
	}
	p.later(time.Minute)
	files := f.Find(p.now)
	if len(files) != 1 || files[0].Complete || files[0].Step != 5 || !math.IsNaN(files[0].Epoch) {
		t.Errorf("%+v", files)
	}
}

func TestAccelerateDirectory(t *testing.T) {
	p := newPlace(t)
	f := p.finder(CheckpointOptions{})
	p.write("o/step_10/random_states_0.pkl", "x")
	p.write("o/step_10/model.safetensors", "x")
	p.write("epoch_3/model.pt", "x")                      // an ordinary directory
	p.write("out/checkpoint-24/random_states_0.pkl", "x") // as of the examples of diffusers
	p.later(time.Minute)
	if got, want := p.find(f), "epoch_3/model.pt o/step_10 out/checkpoint-24"; got != want {
		t.Errorf("have %q, want %q", got, want)
	}
	for _, c := range f.Find(p.now) {
		if strings.Contains(c.Path, "checkpoint-24") && (!c.Complete || c.Step != 24) {
			t.Errorf("saved by accelerate, found as %+v", c)
		}
	}
}

// TestFinal: a save under a temporary name is found under its final one, and never mistaken for another file, nor for one that was
// saved under its own name and is unchanged since.
func TestFinal(t *testing.T) {
	dir := t.TempDir()
	saved := time.Unix(1_700_000_000, 0)
	for name, after := range map[string]time.Duration{"checkpoint_1.pt": -9 * time.Second, "checkpoint_2.pt": 50 * time.Millisecond, "last.pt": -time.Hour, "events.out.tfevents.1": 0, "run.log": 0, "x.pt": 10 * time.Second} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte("state"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(path, saved.Add(after), saved.Add(after)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		path string
		at   time.Time
		own  time.Time // the end of the save of checkpoint_2.pt under its own name
		want string
	}{
		"not renamed":       {"run.log", saved, time.Time{}, "run.log"},
		"suffix":            {"last.pt.tmp", saved, time.Time{}, "last.pt"},
		"other suffix":      {"checkpoint.tmp", saved, time.Time{}, "checkpoint_2.pt"},
		"random name":       {"tmpna71noxi", saved, time.Time{}, "checkpoint_2.pt"},
		"the one before":    {"tmpodqra_zy", saved.Add(-9 * time.Second), time.Time{}, "checkpoint_1.pt"},
		"removed":           {"tmpodqra_zy", saved.Add(5 * time.Second), time.Time{}, "tmpodqra_zy"},
		"directory removed": {"gone/tmpa", saved, time.Time{}, "gone/tmpa"},
		"moved away":        {"export.pt", saved.Add(200 * time.Millisecond), saved, "export.pt"},
		"replaced since":    {"tmpna71noxi", saved, saved.Add(-time.Minute), "checkpoint_2.pt"},
	} {
		own := func(path string) (at time.Time) {
			if filepath.Base(path) == "checkpoint_2.pt" {
				at = c.own
			}
			return at
		}
		if got := FinalCheckpoint(filepath.Join(dir, c.path), c.at, 100*time.Millisecond, own); got != filepath.Join(dir, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
