package observe

import (
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
