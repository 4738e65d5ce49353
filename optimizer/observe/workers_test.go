package observe

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// loading is a training that makes passes over a loader until a file stop exists, and records each pass as "workers
// prefetch generator".
const loading = `
import os, time, torch
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self): return iter(range(6))
optimizer, passes = torch.optim.SGD(), open("passes", "w")
loader = torch.utils.data.DataLoader(LOADER)
while not os.path.exists("stop"):
    for batch in loader:
        time.sleep(0.02)
        optimizer.step()
    print(loader.num_workers, loader.prefetch_factor, torch.default_generator.state, file=passes, flush=True)
`

// Workers change between two passes; if that is impossible, the training continues unchanged.
func TestWorkersOfARunningTraining(t *testing.T) {
	cases := map[string]struct {
		loader  string
		workers int
		reason  string // reason of a refusal
		after   string // workers and prefetch of the passes after the answer
	}{
		"more":       {"list(range(6)), 2", 2, "", "2 2"},
		"prefetch":   {"list(range(6)), 2, num_workers=1, prefetch_factor=5", 3, "", "3 5"},
		"none":       {"list(range(6)), 2, num_workers=2, prefetch_factor=4", 0, "", "0 None"},
		"same":       {"list(range(6)), 2, num_workers=2", 2, "", "2 None"},
		"persistent": {"list(range(6)), 2, num_workers=1, persistent_workers=True", 2, "keeps its workers", "1 None"},
		"iterable":   {"Stream(), 2", 2, "iterable", "0 None"},
		"impossible": {"list(range(6)), 2", 7, "OSError", "0 None"},
		"too many":   {"list(range(6)), 2", 5000, "5000 workers", "0 None"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			stop := o.start(strings.Replace(loading, "LOADER", c.loader, 1))
			f := o.await("progress", func(f Facts) bool { return f.CanSetWorkers })
			want(t, "iterable", f.Stream, name == "iterable")
			a := o.answer(Request{Op: SetWorkers, Workers: c.workers})
			if a.OK != (c.reason == "") || !strings.Contains(a.Reason, c.reason) {
				t.Errorf("answer %+v, want reason %q", a, c.reason)
			}
			if want(t, "operation", a.Op, SetWorkers); a.OK {
				want(t, "workers", a.Workers, c.workers)
			}
			before := o.poll().Step
			o.await("two more passes", func(f Facts) bool { return f.Step > before+6 })
			o.write("stop", "")
			if out, code := stop(); code != 0 {
				t.Fatalf("exit code %d: %s", code, out)
			}
			text, err := os.ReadFile(filepath.Join(o.dir, "passes"))
			if err != nil {
				t.Fatal(err)
			}
			passes := strings.Split(strings.TrimSpace(string(text)), "\n")
			last := passes[len(passes)-1]
			if want := c.after + " " + itoa(len(passes)); last != want { // each pass drew one seed, as without the change
				t.Errorf("the last pass had %q, want %q", last, want)
			}
			if f := o.poll(); len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}

// A request that is not followed by a pass changes nothing and is not answered.
func TestWorkersOfTheLastPass(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	stop := o.start(`
import os, time, torch
optimizer = torch.optim.SGD()
loader = torch.utils.data.DataLoader(list(range(100000)), 1)
for batch in loader:
    time.sleep(0.005)
    optimizer.step()
    if os.path.exists("stop"): break
print("workers", loader.num_workers)
`)
	o.await("progress", func(f Facts) bool { return f.CanSetWorkers })
	id, err := o.reader.Request(Request{Op: SetWorkers, Workers: 2})
	if err != nil {
		t.Fatal(err)
	}
	before := o.poll().Step
	o.await("steps", func(f Facts) bool { return f.Step > before+300 })
	o.write("stop", "")
	out, code := stop()
	if code != 0 || !strings.Contains(out, "workers 0") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if a, ok := o.reader.Answer(id); ok && a.OK {
		t.Errorf("answer %+v", a)
	}
}

// The workers are those of the training's loader, also after an evaluation whose loader has none.
func TestWorkersAfterAnEvaluation(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import torch
loader = iter(torch.utils.data.DataLoader(list(range(40)), 4, num_workers=3))
held = torch.utils.data.DataLoader(list(range(40)), 4)
optimizer = torch.optim.SGD()
for i in range(4): next(loader); optimizer.step()
for batch in held: break
torch.save({}, "last.pt")
`)
	want(t, "workers", f.Workers, 3)
	want(t, "samples of a step", f.SamplesPerStep, 4)
}
