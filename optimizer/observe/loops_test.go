package observe

import (
	"fmt"
	"testing"

	"trainopt/monitor/trainlog"
)

// updatesTo is a training of five updates of four epochs, each of which may end early: by the value of a limit, a condition, a
// statement under it, and another one in the loop over the epochs.
const updatesTo = `
import argparse
args, kl = argparse.Namespace(kl=%s), 1
for update in range(5):
    for epoch in range(4):
        for i in range(0, 6, 2): optimizer.step()
        if %s:
            %s
        %s
`

// countedTo is a training of up to 30 steps in three passes, which end at a number of steps; the epochs follow from that.
const countedTo = `
import argparse, math
args, done = argparse.Namespace(steps=%d), 0
loader = torch.utils.data.DataLoader(list(range(20)), 2)
epochs = min(3, math.ceil(args.steps / len(loader)))
for epoch in range(epochs):
    for i, batch in enumerate(loader):
        %[3]s
        optimizer.step()
        %[2]s
        if done >= args.steps: break
`

// leftAt is a single pass over up to ten batches.
const leftAt = `
import itertools, os
loader, most, debug = torch.utils.data.DataLoader(list(range(20)), 2), %s, False
for i, batch in %s:
    %s
    optimizer.step()
    %s
`

// limitedTo is a training in passes of ten batches, which end at a number of steps.
const limitedTo = `
def train(epochs, most, debug, done=0):
    loader = torch.utils.data.DataLoader(list(range(20)), 2)
    for epoch in range(epochs):
        for batch in loader:
            optimizer.step()
            done += 1
            %s
        %s
train(%d, %s, False)
`

// TestLoops: the length of a training by the loops of the script around it, in epochs or steps; empty if unknown.
func TestLoops(t *testing.T) {
	for name, c := range map[string]struct {
		script, length string
	}{
		"repeated by another module": {`
open("experiment.py", "w").write("""
import torch
class Experiment:
    def __init__(self, args): self.args = args
    def train(self):
        loader, optimizer = torch.utils.data.DataLoader(list(range(10)), 2), torch.optim.SGD()
        for i in range(self.args.epochs):
            for batch in loader: optimizer.step()
""")
import argparse, sys
sys.path.insert(0, ".")
from experiment import Experiment
args = argparse.Namespace(itr=3, epochs=4)
for ii in range(args.itr): Experiment(args).train()
`, "12 epochs"},
		"a loader for each file": {`
files = {"a": 10, "b": 20, "c": 30}
def train(epochs):
    for e in range(epochs):
        for name, size in files.items():
            for batch in torch.utils.data.DataLoader(list(range(size)), 2): optimizer.step()
train(4)
`, "12 epochs"},
		"folds of six batches": {`
def train(n):
    optimizer = torch.optim.SGD()
    for k in range(n):
        for batch in torch.utils.data.DataLoader(list(range(48)), 8): optimizer.step()
for fold in range(4): train(5)
`, "20 epochs"},
		"phases": {`
loaders = {"train": torch.utils.data.DataLoader(list(range(10)), 2), "val": torch.utils.data.DataLoader(list(range(4)), 2)}
for n in range(7):
    for phase in ["train", "val"]:
        for batch in loaders[phase]:
            if phase == "train": optimizer.step()
`, "7 epochs"},
		"each third iteration": {`
loader = torch.utils.data.DataLoader(list(range(10)), 2)
for n in range(20):
    if n % 3 == 0:
        for batch in loader: optimizer.step()
`, "7 epochs, once retracted"},
		"one after the other": {`
loader = torch.utils.data.DataLoader(list(range(10)), 2)
for n in range(3):
    for batch in loader: optimizer.step()
for n in range(5):
    for batch in loader: optimizer.step()
`, "8 epochs"},
		"continued": {`
begin, last = 6, 10
for epoch in range(begin, last):
    for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
`, "4 epochs"},
		"invalid escape":                      {"for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step(), '\\d'", "1 epochs"},
		"a single pass":                       {`for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()`, "1 epochs"},
		"batches by hand":                     {"for epoch in range(3):\n    for i in range(0, 20, 4): optimizer.step()\n", "3 epochs"},
		"one batch":                           {"for t in range(1, 300 + 1): optimizer.step()\n", "300 steps"},
		"updates of some epochs":              {"for update in range(5):\n    for epoch in range(4):\n        for i in range(0, 6, 2): optimizer.step()\n", "60 steps"},
		"steps from the 50th on, each fourth": {"for t in range(1000):\n    if t >= 50 and t % 4 == 0: optimizer.step()\n", "237 steps"},
		"iterations accumulated":              {"for t in range(400):\n    if (t + 1) % 8 == 0: optimizer.step()\n", "50 steps"},
		"a loop left at a limit":              {"most = 40\nfor t in range(400):\n    optimizer.step()\n    if t == most: break\n", "400 steps at most"},
		"a loop left at no limit":             {"most = 0\nfor t in range(40):\n    optimizer.step()\n    if most and t == most: break\n", "40 steps"},
		"a critic and a generator":            {"generator = torch.optim.SGD()\nfor t in range(60):\n    for _ in range(5): optimizer.step()\n    generator.step()\n", "300 steps"},
		"some steps skipped":                  {"for t in range(1000):\n    if t not in (0, 1, 500): optimizer.step()\n", "997 steps"},
		"more steps skipped later":            {"for t in range(1000):\n    if t < 100 or t % 50: optimizer.step()\n", ""},
		"steps of random number":              {"import random\nrandom.seed(3)\nfor t in range(400):\n    if random.random() < 0.3: optimizer.step()\n", ""},
		"a variable that is set":              {"for t in range(100):\n    optimizer.step(); t += 1\n", ""},
		"until a condition":                   {"n = 0\nwhile n < 100: optimizer.step(); n += 1\n", ""},
		"batches of a generator": {`
def endless(loader):
    while True: yield from loader
batches = endless(torch.utils.data.DataLoader(list(range(10)), 2))
for it in range(30): next(batches); optimizer.step()
`, "30 steps"},
		"batches replayed by cycle": {`
import itertools
batches = itertools.cycle(torch.utils.data.DataLoader(list(range(10)), 2))
for it in range(40):
    next(batches); optimizer.step()
`, "8 epochs40 steps"},
		"batches replayed by cycle, in a loop left early": {`
import itertools
batches = itertools.cycle(torch.utils.data.DataLoader(list(range(10)), 2))
for it in range(400):
    next(batches); optimizer.step()
    if it == 40: break
`, "400 steps at most"},
		"a loop over cycle": {`
import itertools
numbers = itertools.count(1)
for batch in itertools.cycle(torch.utils.data.DataLoader(list(range(10)), 2)):
    optimizer.step()
    if next(numbers) == 40: break
`, ""},
		"a loop over cycle and a range": {`
import itertools
for it, batch in zip(range(40), itertools.cycle(torch.utils.data.DataLoader(list(range(10)), 2))): optimizer.step()
`, "8 epochs"},
		"a loop over cycle, ended by its index": {`
import itertools
for it, batch in enumerate(itertools.cycle(torch.utils.data.DataLoader(list(range(10)), 2))):
    optimizer.step()
    if it == 39: break
`, "8 epochs"},
		"a loop over cycle, ended by a counter": {`
import itertools
batches, done = itertools.cycle(torch.utils.data.DataLoader(list(range(10)), 2)), 0
for batch in batches:
    optimizer.step()
    done += 1
    if done == 40: break
`, "8 epochs"},
		"a bar for each epoch": {`
class tqdm:
    __module__ = "tqdm.std"
    def __init__(self, iterable, desc): self.iterable = iterable
    def __iter__(self): return iter(self.iterable)
for epoch in range(4):
    bar = tqdm(range(6), desc=f"epoch {epoch}")
    for _ in bar: optimizer.step()
`, "4 epochs"},
		"left early": {`
loader = torch.utils.data.DataLoader(list(range(10)), 2)
for n in range(9):
    for i, batch in enumerate(loader):
        if i == 2: break
        optimizer.step()
`, "9 epochs"},
		"ended by a counter of steps":                  {fmt.Sprintf(countedTo, 23, "done += 1", "pass"), "2.3 epochs"},
		"ended by a counter before the step":           {fmt.Sprintf(countedTo, 23, "pass", "done += 1"), "2.3 epochs"},
		"ended by a counter within the first pass":     {fmt.Sprintf(countedTo, 9, "done += 1", "pass"), "0.9 epochs"},
		"a counter that reaches no limit":              {fmt.Sprintf(countedTo, 31, "done += 1", "pass"), "3 epochs"},
		"a counter of something else":                  {fmt.Sprintf(countedTo, 23, "if i % 2: done += 1", "pass"), "3 epochs"},
		"a counter of other steps":                     {fmt.Sprintf(countedTo, 50, "done += 2", "pass"), "3 epochs"},
		"a single pass left at a limit of its index":   {fmt.Sprintf(leftAt, "4", "enumerate(loader)", "if i >= most: break", ""), "0.5 epochs"},
		"a single pass left after a number of steps":   {fmt.Sprintf(leftAt, "4", "enumerate(loader)", "", "if debug or i + 1 == 9: break\n    if i + 1 == most: break"), "0.4 epochs"},
		"a single pass left at an optional limit":      {fmt.Sprintf(leftAt, "4", "enumerate(loader, 1)", "", "if most is not None and i >= most: break"), "0.4 epochs"},
		"a single pass left at a limit in a branch":    {fmt.Sprintf(leftAt, "4", "enumerate(loader, 1)", "", "if most != -1:\n        if i >= most: break"), "0.4 epochs"},
		"a single pass left at no limit":               {fmt.Sprintf(leftAt, "-1", "enumerate(loader)", "", "if most > 0 and i >= most: break"), "1 epochs"},
		"a single pass left at a limit that is None":   {fmt.Sprintf(leftAt, "None", "enumerate(loader)", "", "if most is not None and i >= most: break"), "1 epochs"},
		"a single pass left at a limit beyond its end": {fmt.Sprintf(leftAt, "40", "enumerate(loader)", "", "if i >= most: break"), "1 epochs"},
		"a single pass left for debugging":             {fmt.Sprintf(leftAt, "4", "enumerate(loader)", "", "if debug and i >= most: break"), "1 epochs"},
		"a single pass left by an unknown condition":   {fmt.Sprintf(leftAt, "4", "enumerate(loader)", "", "if i >= most and os.path.exists('stop'): break"), "1 epochs"},
		"a single pass left by a condition that is set": {fmt.Sprintf(leftAt, "4", "enumerate(loader)", "debug = i > 6",
			"if not debug and i >= 8: break"), "1 epochs"},
		"a single pass beside a range":                   {fmt.Sprintf(leftAt, "4", "zip(range(most), loader)", "", ""), "0.4 epochs"},
		"a single pass before a range":                   {fmt.Sprintf(leftAt, "4", "enumerate(zip(loader, range(most)))", "", ""), "0.4 epochs"},
		"a single pass beside a longer range":            {fmt.Sprintf(leftAt, "40", "zip(range(most), loader)", "", ""), "1 epochs"},
		"a single pass beside numbers without an end":    {fmt.Sprintf(leftAt, "4", "zip(itertools.count(), loader)", "", ""), "1 epochs"},
		"all passes ended by a limit of steps":           {fmt.Sprintf(limitedTo, "if done >= most: break", "if done >= most: break", 3, "9"), "0.9 epochs"},
		"all passes ended by a limit in the second":      {fmt.Sprintf(limitedTo, "if done >= most: break", "if done >= most: break", 4, "14"), "1.4 epochs"},
		"all passes ended by a return":                   {fmt.Sprintf(limitedTo, "if done >= most: return", "", 3, "12"), "1.2 epochs"},
		"all passes ended by an optional limit of steps": {fmt.Sprintf(limitedTo, "if most and done >= most: break", "if most and done >= most: break", 3, "12"), "1.2 epochs"},
		"all passes ended by no limit of steps":          {fmt.Sprintf(limitedTo, "if most and done >= most: break", "if most and done >= most: break", 3, "0"), "3 epochs"},
		"all passes ended by a limit of -1":              {fmt.Sprintf(limitedTo, "if done == most: break", "if done == most: break", 3, "-1"), "3 epochs"},
		"all passes ended by a limit that is None":       {fmt.Sprintf(limitedTo, "if most is not None and done >= most: return", "", 3, "None"), "3 epochs"},
		"all passes ended by a limit for debugging":      {fmt.Sprintf(limitedTo, "if debug:\n                if done >= 23: return", "", 3, "0"), "3 epochs"},
		"a function for each pass that returns at a limit": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
def train(done, most):
    for batch in loader:
        optimizer.step()
        done += 1
        if done >= most: return done
for epoch in range(3): train(0, 12)
`, "3 epochs"},
		"left early at a limit that is not set":        {fmt.Sprintf(updatesTo, "None", "args.kl is not None and kl > args.kl", "break", ""), "60 steps"},
		"left early at a limit of 0":                   {fmt.Sprintf(updatesTo, "0", "args.kl and kl > args.kl", "break", ""), "60 steps"},
		"left early at a limit that is tested outside": {fmt.Sprintf(updatesTo, "None", "args.kl is not None", "if kl > args.kl: break", ""), "60 steps"},
		"left early at a limit":                        {fmt.Sprintf(updatesTo, "5", "args.kl is not None and kl > args.kl", "break", ""), ""},
		"left early at a limit that is set later":      {fmt.Sprintf(updatesTo, "None", "args.kl is not None and kl > args.kl", "break", "args.kl = 5"), ""},
		"left early at a limit that is not compared":   {fmt.Sprintf(updatesTo, "None", "args.kl is not None", "break", ""), ""},
		"left early otherwise":                         {fmt.Sprintf(updatesTo, "None", "args.kl is not None and kl > args.kl or kl > 9", "break", ""), ""},
		"variables of an object": {`
import argparse
def train(args):
    for name in sorted(vars(args)): pass
    for i in range(1, args.steps): optimizer.step()
train(argparse.Namespace(steps=41))
`, "40 steps"},
		"variables that the script keeps": {`
def train(epochs=4):
    settings = locals()
    for n in range(epochs):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
    assert list(settings) == ["epochs"], settings
train()
`, ""},
		"code of the script": {`
class Settings:
    def __getattr__(self, name): asked.append(name); return 3
asked, settings = [], Settings()
for epoch in range(settings.epochs):
    for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
assert asked == ["epochs"], asked
`, ""},
		"folds of a framework": {`
import keras.src.models.model as m
class KFold:
    __module__ = "sklearn.model_selection"
    def __init__(self, n): self.n_splits = n
    def split(self, x): yield from [(1, 2)] * self.n_splits
folds = KFold(5)
for fold, (a, b) in enumerate(folds.split(range(10)), 1):
    model = m.Model()
    model.fit(100, batch_size=32, epochs=3)
`, "3 epochs, 5 trainings, 1 left"},
		"a framework's training in one of two iterations": {`
import keras.src.models.model as m
for n in range(6):
    if n % 2: m.Model().fit(100, batch_size=32, epochs=3)
`, "3 epochs, 1 trainings, 1 left"},
		"calls of partial_fit": {`
class Array(list):
    __module__ = "numpy"
    shape = (60, 2)
from sklearn.linear_model._stochastic_gradient import SGDClassifier
model, data = SGDClassifier(), Array(range(60))
for epoch in range(4):
    for i in range(0, len(data), data.shape[0] // 3): model.partial_fit([0] * 20)
`, "4 epochs"},
		"after an evaluation in the function": {`
class Model:
    def eval(self): pass
def train(n):
    model = Model()
    for k in range(n):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
        model.eval()
for seed in range(3): train(4)
`, "12 epochs"},
		"stages of different lengths": {`
def fit(epochs):
    for e in range(epochs):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
for lr, epochs in [(0.1, 2), (0.01, 4)]: fit(epochs)
`, ""},
		"an attribute doubled after each stage": {`
import argparse
args = argparse.Namespace(epochs=2)
class Trainer:
    def __init__(self, args): self.args = args
    def train(self):
        for e in range(self.args.epochs):
            for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
for stage in range(3):
    trainer = Trainer(args)
    trainer.train()
    args.epochs *= 2
`, ""},
		"two loops one after the other in a function": {`
loader = torch.utils.data.DataLoader(list(range(10)), 2)
class Loss:
    def backward(self): pass
def run():
    for n in range(3):
        for batch in loader: Loss().backward(); optimizer.step()
    for n in range(5):
        for batch in loader: Loss().backward(); optimizer.step()
run()
`, "8 epochs"},
		"the same function twice": {`
def fit(epochs):
    for e in range(epochs):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
fit(2)
fit(4)
`, "6 epochs"},
		"a test by the same function": {`
loader = torch.utils.data.DataLoader(list(range(10)), 2)
def run(train):
    for batch in loader:
        if train: optimizer.step()
for e in range(3): run(True)
run(False)
`, "3 epochs"},
		"a process for each seed": {`
import multiprocessing
def train(n):
    for e in range(n):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
for seed in range(2):
    p = multiprocessing.get_context("fork").Process(target=train, args=(3,)); p.start(); p.join()
`, ""},
		"numbered from 1": {`
loader = torch.utils.data.DataLoader(list(range(10)), 2)
for n, rate in enumerate([0.1, 0.2, 0.3], start=1):
    for batch in loader: optimizer.step()
`, "3 epochs"},
		"without an end": {`
done = 0
for n in range(sys.maxsize):
    for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
    if n == 3: break
`, ""},
		"episodes that end early": {`
for episode in range(2):
    for t in range(100):
        optimizer.step()
        if t == 40: break
    sys.exit()
`, ""},
		"a function for each item": {`
def train(seed):
    for n in range(3):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
list(map(train, range(1)))
`, ""},
		"a comprehension in the head of a loop": {`
def train(seed):
    for n in range(3):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
for loss in [train(seed) for seed in range(1)]:
    pass
`, ""},
		"an iterator that trains": {`
class Trainer:
    def __iter__(self): self.n = 0; return self
    def __next__(self):
        self.n += 1
        if self.n > 1: raise StopIteration
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
for loss in Trainer():
    pass
`, ""},
		"changed since it was loaded": {`
source = open(__file__).read()
open(__file__, "w").write(source.replace("n in range(4)", "n in range(9)"))
for n in range(4):
    for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
`, ""},
		"variables that another function keeps": {`
def keep(): kept.append(sys._getframe(1).f_locals)
kept = []
def train(epochs=4):
    keep()
    for n in range(epochs):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
    assert kept[0].get("epochs") == 4, kept
train()
`, "4 epochs"},
		"variables of an unknown loop that are freed": {`
import weakref
class Big: pass
def train(names):
    for name in names:
        big = Big(); dead = weakref.ref(big)
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
        del big
        assert dead() is None
train(iter("abc"))
train([1, 1, 1])
`, ""},
		"folds made in place": {`
import keras.src.models.model as m
class KFold:
    __module__ = "sklearn.model_selection"
    def __init__(self, n_splits, shuffle): self.n = n_splits
    def split(self, x): yield from [(1, 2)] * self.n
for fold, (a, b) in enumerate(KFold(n_splits=4, shuffle=True).split(range(10)), start=1):
    model = m.Model()
    model.fit(100, batch_size=32, epochs=3)
`, "3 epochs, 4 trainings, 1 left"},
		"models of a framework": {`
import keras.src.models.model as m
for model in [m.Model(), m.Model(), m.Model()]: model.fit(100, batch_size=32, epochs=3)
`, "3 epochs"},
		"lengths of a framework": {`
import keras.src.models.model as m
for name, n in [("a", 3), ("b", 3)]:
    model = m.Model()
    model.fit(100, batch_size=32, epochs=n)
`, "3 epochs"},
		"a search by a library": {`
os.makedirs("site-packages", exist_ok=True)
open("site-packages/search.py", "w").write("def search(f):\n    for i in range(3): f()\n")
sys.path.insert(0, "site-packages")
from search import search
def train():
    for n in range(4):
        for batch in torch.utils.data.DataLoader(list(range(10)), 2): optimizer.step()
search(train)
`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			f := o.must("import os, sys, torch\noptimizer = torch.optim.SGD()\n" + c.script)
			length := ""
			if n := o.last(trainlog.TotalEpochs); n > 0 {
				length += fmt.Sprintf("%g epochs", n)
			}
			if n := o.rows[len(o.rows)-1].LoopSteps; n > 0 {
				length += fmt.Sprintf("%g steps", n) + map[bool]string{true: " at most"}[o.rows[len(o.rows)-1].EndsEarly]
			}
			most, retracted := 0, false
			for i, r := range o.rows {
				most = max(most, r.TrainingsLeft)
				if n, ok := r.Row.Value(trainlog.TotalEpochs); i > 0 && !ok {
					_, was := o.rows[i-1].Row.Value(trainlog.TotalEpochs)
					retracted = retracted || was
				} else if ok && n != o.last(trainlog.TotalEpochs) && c.length != "7 epochs, once retracted" {
					t.Errorf("total of %g epochs at first", n)
				}
			}
			if retracted {
				length += ", once retracted"
			}
			if most > 0 {
				length += fmt.Sprintf(", %d trainings, %d left", most, o.rows[len(o.rows)-1].TrainingsLeft)
			}
			want(t, "length", length, c.length)
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}

// TestPositionAtALimit: the epoch and the total in the midst of a pass that ends at a limit of steps.
func TestPositionAtALimit(t *testing.T) {
	t.Parallel()
	const nested = `
done = 0
for epoch in range(3):
    for batch in loader:
        optimizer.step()
        done += 1
        if done == 10: torch.save({}, "last.pt")
        if done >= 50: break
    if done >= %d: break
`
	for name, script := range map[string]string{
		"0.1 of 0.2": `
for i, batch in enumerate(loader, 1):
    optimizer.step()
    if i == 10: torch.save({}, "last.pt")
    if i >= 20: break
`,
		"0.1 of 0.5": fmt.Sprintf(nested, 50),
		"0.1 of 3":   fmt.Sprintf(nested, 51),
	} {
		o := newObserved(t)
		o.must("import torch\noptimizer, loader = torch.optim.SGD(), torch.utils.data.DataLoader(list(range(200)), 2)\n" + script)
		want(t, "position", o.at(10), name)
	}
}

// at returns the epoch and the total of the first row at a step.
func (o *observed) at(step float64) string {
	for i := range o.rows {
		r := &o.rows[i].Row
		if s, _ := r.Value(trainlog.Step); s == step {
			epoch, _ := r.Value(trainlog.Epoch)
			total, _ := r.Value(trainlog.TotalEpochs)
			return fmt.Sprintf("%.4g of %.4g", epoch, total)
		}
	}
	return "no row"
}

// TestTrainingsLeft checks how many trainings by a framework are left, as reported first in each, and the last total.
func TestTrainingsLeft(t *testing.T) {
	t.Parallel()
	const (
		keras = "import keras.src.models.model as m\nmodel = m.Model()\n"
		sb3   = "from stable_baselines3.common.base_class import BaseAlgorithm\nmodel = BaseAlgorithm()\n"
	)
	for name, c := range map[string]struct {
		script string
		left   []int
		total  float64
		column trainlog.Column
	}{
		"one":             {keras + "model.fit(100, epochs=3)", []int{0}, 3, trainlog.TotalEpochs},
		"fine-tuning":     {keras + "model.fit(100, epochs=3)\nmodel.trainable = True\nmodel.fit(100, epochs=5)", []int{-1, 1}, 5, trainlog.TotalEpochs},
		"continued":       {keras + "h = model.fit(100, epochs=3)\nmodel.fit(100, epochs=5, initial_epoch=3)", []int{-1, 1}, 5, trainlog.TotalEpochs},
		"other objects":   {keras + "scaler = type('S', (), {'fit': lambda s, x: s})()\nmodel.fit(100, epochs=3)\nscaler.fit(1)", []int{0}, 3, trainlog.TotalEpochs},
		"in a branch":     {keras + "model.fit(100, epochs=3)\nif sys.argv[1:]: model.fit(100, epochs=5)", []int{0}, 3, trainlog.TotalEpochs},
		"after a failure": {keras + "try: model.fit(100, epochs=3)\nexcept MemoryError: model.fit(100, epochs=3, batch_size=1)", []int{0}, 3, trainlog.TotalEpochs},
		"a function twice": {keras + "def train(epochs): model.fit(100, epochs=epochs)\ntrain(3)\ntrain(3)", []int{-1, 1}, 3,
			trainlog.TotalEpochs},
		"a function of the same name": {keras + "def fit(): model.fit(100, epochs=3)\nfit()\ntype('S', (), {'fit': lambda s: s})().fit()", []int{0}, 3, trainlog.TotalEpochs},
		"with a function":             {keras + "model.fit(100, epochs=3, pool=(lambda: False)())", []int{0}, 3, trainlog.TotalEpochs},
		"with a comprehension":        {keras + "model.fit(100, epochs=3, pool=any([n for n in ()]))", []int{0}, 3, trainlog.TotalEpochs},
		"a comprehension":             {keras + "[model.fit(100, epochs=n) for n in (3, 3)]", []int{-1, -1}, 3, trainlog.TotalEpochs},
		"while":                       {keras + "n = 0\nwhile n < 2:\n    model.fit(100, epochs=3)\n    n += 1", []int{-1, -1}, 3, trainlog.TotalEpochs},
		"until it succeeds":           {keras + "while True:\n    try:\n        model.fit(100, epochs=3)\n        break\n    except MemoryError: pass", []int{0}, 3, trainlog.TotalEpochs},
		"until it has succeeded":      {keras + "for attempt in range(3):\n    try: model.fit(100, epochs=3)\n    except MemoryError: pass\n    else: break", []int{0}, 3, trainlog.TotalEpochs},
		"returned": {keras + "def train():\n    while True:\n        try: return model.fit(100, epochs=3)\n        except MemoryError: pass\ntrain()",
			[]int{0}, 3, trainlog.TotalEpochs},
		"an iterator":                {keras + "for n in iter('ab'): model.fit(100, epochs=3)", []int{-1, -1}, 3, trainlog.TotalEpochs},
		"timesteps":                  {sb3 + "model.learn(400)", []int{0}, 400, trainlog.TotalSteps},
		"timesteps without an end":   {sb3 + "n = 0\nwhile True:\n    model.learn(400, reset_num_timesteps=False)\n    n += 1\n    if n == 2: break", []int{-1, -1}, 800, trainlog.TotalSteps},
		"timesteps that continue":    {sb3 + "for n in range(1, 4): model.learn(400, reset_num_timesteps=False)", []int{0, 0, 0}, 1200, trainlog.TotalSteps},
		"timesteps that begin again": {sb3 + "for n in range(3): BaseAlgorithm().learn(400)", []int{3, 2, 1}, 400, trainlog.TotalSteps},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			f := o.must("import sys\n" + c.script)
			var left []int
			for i := range o.rows {
				if r := &o.rows[i]; i == 0 || r.Training != o.rows[i-1].Training {
					left = append(left, r.TrainingsLeft)
				}
			}
			want(t, "trainings left", fmt.Sprint(left), fmt.Sprint(c.left))
			want(t, "total", o.last(c.column), c.total)
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}

// TestLoopsWarnOfNothing: reading the script prints no warning of its own.
func TestLoopsWarnOfNothing(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	o.env = append(o.env, "PYTHONWARNINGS=default")
	const script = "import torch\noptimizer = torch.optim.SGD()\nfor t in range(9): optimizer.step()\npattern = '\\d'\n"
	bare, _ := o.bare(script)
	observed, _ := o.run(script)
	want(t, "output", observed, bare)
	o.poll()
	want(t, "length", o.rows[len(o.rows)-1].LoopSteps, 9)
}
