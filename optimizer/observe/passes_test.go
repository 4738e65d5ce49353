package observe

import (
	"fmt"
	"testing"

	"trainopt/monitor/trainlog"
)

// TestEndlessPasses: the epochs and samples of passes that a sampler does not end, and of those that are replayed.
func TestEndlessPasses(t *testing.T) {
	for name, c := range map[string]struct {
		script               string
		step, epoch, samples float64
	}{
		"sampler without an end": {`
class Data(list):
    def __iter__(self): return itertools.cycle(range(64))
batches = iter(torch.utils.data.DataLoader(Data(range(64)), 8))
for i in range(40): next(batches), optimizer.step()
`, 40, 5, 320},
		"sampler that states its length too small": {`
loader, done = torch.utils.data.DataLoader(list(range(80)), 8), 0
type(loader).__len__ = lambda self: 8
for epoch in range(3):
    for batch in loader:
        optimizer.step()
        done += 1
        if done == 19: exit()
`, 19, 2, 128},
		"replayed by cycle": {`
batches = itertools.cycle(torch.utils.data.DataLoader(list(range(60)), 8))
for i in range(40): next(batches), optimizer.step()
`, 40, 5, 300},
		"replayed by cycle, a step for two batches": {`
batches = itertools.cycle(torch.utils.data.DataLoader(list(range(64)), 8))
for i in range(40): next(batches), next(batches), optimizer.step()
`, 40, 10, 640},
		"replayed by cycle, two steps for a batch": {`
batches = itertools.cycle(torch.utils.data.DataLoader(list(range(64)), 8))
for i in range(320):
    if i % 2 == 0: next(batches)
    optimizer.step()
`, 320, 20, 1280},
		"a few steps after the last pass": {`
loader = torch.utils.data.DataLoader(list(range(64)), 8)
for epoch in range(2):
    for batch in loader: optimizer.step()
for i in range(3): optimizer.step()
`, 19, 2, 128},
		"beside a shorter loader that is replayed": {`
a, b = torch.utils.data.DataLoader(list(range(200)), 2), torch.utils.data.DataLoader(list(range(40)), 4)
for epoch in range(2):
    for batches in zip(a, itertools.cycle(b)): optimizer.step()
`, 200, 2, 400},
		"beside a longer loader that is replayed": {`
a, b = torch.utils.data.DataLoader(list(range(40)), 4), torch.utils.data.DataLoader(list(range(200)), 2)
for epoch in range(2):
    for i, batches in enumerate(zip(a, itertools.cycle(b))): optimizer.step()
`, 20, 2, 80},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			f := o.must("import itertools, torch\noptimizer = torch.optim.SGD()\n" + c.script)
			want(t, "step", f.Step, c.step)
			want(t, "epoch", o.last(trainlog.Epoch), c.epoch)
			want(t, "samples", f.Samples, c.samples)
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}

// TestReplayedBeside: the epochs of a pass over which another loader is replayed, from its first step on.
func TestReplayedBeside(t *testing.T) {
	for name, loop := range map[string]string{
		"in place":             "for x, y in zip(a, itertools.cycle(b)):",
		"in place, in front":   "for y, x in zip(itertools.cycle(b), a):",
		"of an object, by bar": "for x, y in zip(tqdm(self.a), itertools.cycle(tqdm(self.b))):",
		"an iterator":          "for x, y in zip(a, again):",
		"several iterators":    "pairs = zip(a, itertools.cycle(b))\n    for i, (x, y) in enumerate(pairs):",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			o.must(fmt.Sprintf(`
import argparse, itertools, torch
def tqdm(values): return values
optimizer, step = torch.optim.SGD(), 0
a, b = torch.utils.data.DataLoader(list(range(200)), 2), torch.utils.data.DataLoader(list(range(20)), 2)
self, again = argparse.Namespace(a=a, b=b), itertools.cycle(b)
for epoch in range(2):
    %s
        optimizer.step()
        step += 1
        if step in (5, 10, 11, 105, 150): torch.save({}, "%%d.pt" %% step)
`, loop))
			for step, position := range map[float64]string{5: "0.05 of 2", 10: "0.1 of 2", 11: "0.11 of 2", 105: "1.05 of 2", 150: "1.5 of 2"} {
				want(t, fmt.Sprintf("step %g", step), o.at(step), position)
			}
		})
	}
}
