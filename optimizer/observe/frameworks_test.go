package observe

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
)

// columns are the last values of a training: step, total_steps, epoch, total_epochs, batch_size, train_loss; NaN is "-".
func columns(o *observed) string {
	var out []string
	for _, c := range []trainlog.Column{trainlog.Step, trainlog.TotalSteps, trainlog.Epoch, trainlog.TotalEpochs, trainlog.BatchSize, trainlog.TrainLoss} {
		if v := o.last(c); math.IsNaN(v) {
			out = append(out, "-")
		} else {
			out = append(out, fmt.Sprintf("%.4g", v))
		}
	}
	return strings.Join(out, " ")
}

// written returns the checkpoints as NAME@STEP.
func written(f Facts) string {
	var out []string
	for _, c := range f.Checkpoints {
		text := fmt.Sprintf("%s@%g", filepath.Base(c.Path), c.Step)
		if c.Weights {
			text += ":weights"
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

// The protocol of every hook, against stand-ins for the frameworks.
func TestHooks(t *testing.T) {
	cases := map[string]struct {
		script               string
		framework, unit      string
		last, checkpoints    string
		trainings            int
		canSave, setsThreads bool
	}{
		"torch": {script: `
import torch
loader = torch.utils.data.DataLoader(list(range(10)), 4)
held = torch.utils.data.DataLoader(list(range(9)), 2)
optimizer = torch.optim.SGD()
for epoch in range(3):
    for batch in loader: optimizer.step()
    for batch in held: pass
    torch.save({}, "last.pt")
`, framework: "torch", unit: "step", last: "9 - 3 3 4 -", checkpoints: "last.pt@3 last.pt@6 last.pt@9", trainings: 1, setsThreads: true},
		"torch/accumulation, subclass and second optimizer": {script: `
import torch
class Own(torch.optim.SGD):
    def step(self): return super().step()
first, second = torch.optim.SGD(), torch.optim.SGD()
own, helper = Own(), torch.optim.SGD()
for epoch in range(2):
    for i, batch in enumerate(torch.utils.data.DataLoader(list(range(24)), 2)):
        if i % 3 == 2: own.step(); helper.step()
`, framework: "torch", unit: "step", last: "8 - 2 2 6 -", trainings: 1, setsThreads: true},
		"torch/folds": {script: `
import torch
def train():
    loader, optimizer = torch.utils.data.DataLoader(list(range(10)), 2), torch.optim.SGD()
    for epoch in range(4):
        for batch in loader: optimizer.step()
for fold in range(3): train()
`, framework: "torch", unit: "step", last: "60 - 12 12 2 -", trainings: 1, setsThreads: true},
		"torch/folds kept by the script": {script: `
import torch
folds = [(torch.utils.data.DataLoader(list(range(10)), 2), torch.optim.SGD()) for fold in range(3)]
for loader, optimizer in folds:
    for epoch in range(20):
        for batch in loader: optimizer.step()
`, framework: "torch", unit: "step", last: "300 - 60 60 2 -", trainings: 1, setsThreads: true},
		"torch/iterable": {script: `
import torch
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self): return iter(range(12))
loader, optimizer = torch.utils.data.DataLoader(Stream(), 4), torch.optim.SGD()
for epoch in range(2):
    for batch in loader: optimizer.step()
`, framework: "torch", unit: "step", last: "6 - 2 2 4 -", trainings: 1, setsThreads: true},
		"torch/no loader": {script: `
import torch
optimizer = torch.optim.SGD()
for i in range(20): optimizer.step()
torch.save({}, "ckpt.pt")
torch.save({"layer.weight": torch.Tensor()}, "model.pt")
torch.save({"epoch": 1, "layer.weight": torch.Tensor()}, "whole.pt")
torch.save([0.5, 0.75], "accuracies.pt")
Array = type("ndarray", (), {"__module__": "numpy"})
torch.save({"counts": [1], "precision": Array()}, "evaluation.pt")
torch.save({"epoch": 1, "layer": Array()}, "own.pt")
`, framework: "torch", unit: "step", last: "20 - - - - -", checkpoints: "ckpt.pt@20 model.pt@20:weights whole.pt@20 own.pt@20", trainings: 1, setsThreads: true},
		"torch/results": {script: `
import torch
optimizer = torch.optim.SGD()
Array = type("ndarray", (), {"__module__": "numpy"})
Scalar = type("float32", (), {"__module__": "numpy", "ndim": 0})
for i in range(20): optimizer.step()
for i, results in enumerate((
    torch.Tensor(), Array(), 0.5, [], [(1, 0.5), (2, 0.25)], (Scalar(), None),
    {"train_loss": [0.5, 0.25], "test": {"accuracy": [Scalar()], "best": {}}}, {"epoch": 3, "lr": 0.1},
)): torch.save(results, "results%d.pt" % i)
`, framework: "torch", unit: "step", last: "20 - - - - -", trainings: 1, setsThreads: true},
		"torch/states": {script: `
import torch
optimizer = torch.optim.SGD()
cyclic = [1]
cyclic.append(cyclic)
class Net(torch.nn.Module): pass
for i in range(20): optimizer.step()
for name, state in {
    "optimizer": {"state": {}, "param_groups": [{"lr": 0.1, "params": [0]}]}, "module": Net(), "modules": {"g": Net(), "d": Net()},
    "weights": {"w": torch.Tensor()}, "list": [torch.Tensor()], "tuple": ({"w": torch.Tensor()}, 3), "mixed": {"loss": [0.5], "w": torch.Tensor()},
    "text": {"loss": 0.5, "model": "<model>"}, "unknown": object(), "cyclic": cyclic,
}.items(): torch.save(state, name)
`, framework: "torch", unit: "step", last: "20 - - - - -", checkpoints: "optimizer@20 module@20:weights modules@20 weights@20:weights list@20 tuple@20 mixed@20 text@20 unknown@20 cyclic@20", trainings: 1, setsThreads: true},
		"transformers": {script: `
import torch, transformers.trainer
optimizer = torch.optim.SGD()
class Own(transformers.trainer.Trainer): pass
Own().train()
torch.save({}, "training_args.bin")
`, framework: "transformers", unit: "step", last: "10 10 2 2 8 0.5", checkpoints: "checkpoint-5@5 checkpoint-10@10", trainings: 1, canSave: true, setsThreads: true},
		"transformers/batch size that fits in memory": {script: `
import torch, transformers.trainer
trainer = transformers.trainer.Trainer(save_every=100)
trainer.args.auto_find_batch_size, trainer.args.train_batch_size, trainer.state.train_batch_size = True, 8, 2
trainer.train()
`, framework: "transformers", unit: "step", last: "10 10 2 2 4 0.5", trainings: 1, canSave: true, setsThreads: true},
		"accelerate": {script: `
import torch, accelerate.accelerator
optimizer = torch.optim.SGD()
for i in range(4): optimizer.step()
accelerate.accelerator.Accelerator().save_state("state")
`, framework: "torch", unit: "step", last: "4 - - - - -", checkpoints: "state@4", trainings: 1, setsThreads: true},
		"lightning": {script: `
import torch, lightning.pytorch.trainer.trainer as t
t.Trainer().fit()
`, framework: "lightning.pytorch", unit: "step", last: "10 10 2 2 8 0.25", checkpoints: "epoch-0.ckpt@5 epoch-1.ckpt@10", trainings: 1, canSave: true, setsThreads: true},
		"lightning/search of the learning rate": {script: `
import torch, lightning.pytorch.trainer.trainer as t
from lightning.pytorch.tuner.lr_finder import _lr_find
trainer = t.Trainer()
_lr_find(trainer, None)
trainer.fit()
`, framework: "lightning.pytorch", unit: "step", last: "10 10 2 2 8 0.25", checkpoints: "epoch-0.ckpt@5 epoch-1.ckpt@10", trainings: 1, canSave: true, setsThreads: true},
		"lightning/outputs that are freed": {script: `
import weakref, lightning.pytorch.trainer.trainer as t
class Logits: pass
made = []
def step(batch_idx):
    assert all(logits() is None for logits in made), batch_idx
    logits = Logits()
    made.append(weakref.ref(logits))
    return {"loss": 0.25, "logits": logits}
trainer = t.Trainer()
trainer.lightning_module.training_step = step
trainer.fit()
assert len(made) == 10
`, framework: "lightning.pytorch", unit: "step", last: "10 10 2 2 8 0.25", checkpoints: "epoch-0.ckpt@5 epoch-1.ckpt@10", trainings: 1, canSave: true},
		"keras": {script: `
import keras.src.models.model as m
model = m.Model()
model.fit(100, batch_size=32, epochs=3)
model.save("model.keras")
`, framework: "keras", unit: "step", last: "12 12 3 3 32 0.5", checkpoints: "model.keras@NaN", trainings: 1, canSave: true},
		"keras/data that are freed": {script: `
import weakref, keras.src.models.model as m
from keras.src.trainers.epoch_iterator import EpochIterator
m.Model().fit(100, batch_size=32, epochs=3)
assert weakref.ref(EpochIterator(100, 32).data_adapter)() is None
`, framework: "keras", unit: "step", last: "12 12 3 3 32 0.5", trainings: 1, canSave: true},
		"keras/continued": {script: `
import keras.src.models.model as m
m.Model().fit(100, batch_size=32, epochs=5, initial_epoch=3)
`, framework: "keras", unit: "step", last: "20 20 5 5 32 0.5", trainings: 1, canSave: true},
		"keras/train_on_batch": {script: `
import torch, keras.src.models.model as m, keras.src.optimizers.base_optimizer as o
model = m.Model()
model.optimizer = o.BaseOptimizer()
for epoch in range(3):
    for i in range(0, 20, 4): model.train_on_batch([0] * 4)
    model.save("model.keras")
assert model.optimizer.iterations == 15
`, framework: "keras loop", unit: "step", last: "15 - 3 3 - -", checkpoints: "model.keras@5 model.keras@10 model.keras@15", trainings: 1, setsThreads: true},
		"keras/apply": {script: `
import torch, keras.src.optimizers.base_optimizer as o
optimizer = o.BaseOptimizer()
for epoch in range(2):
    for batch in torch.utils.data.DataLoader(list(range(10)), 4):
        optimizer.apply_gradients([(1, 2)])
        o.scope.stateless = True  # as within a function that JAX traces
        optimizer.apply([1])
        o.scope.stateless = False
`, framework: "keras loop", unit: "step", last: "6 - 2 2 4 -", trainings: 1, setsThreads: true},
		"keras/fit, then batches": {script: `
import torch, keras.src.models.model as m
model = m.Model()
model.fit(100, batch_size=32, epochs=3)
for i in range(7): model.train_on_batch([0])
`, framework: "keras loop", unit: "step", last: "7 - - - - -", trainings: 2, canSave: true, setsThreads: true},
		"ultralytics": {script: `
import ultralytics.engine.trainer as t
class Detection(t.BaseTrainer): pass
Detection().train()
`, framework: "ultralytics", unit: "step", last: "6 - 3 3 16 1.5", checkpoints: "last.pt@2 last.pt@4 last.pt@6", trainings: 1, canSave: true},
		"fastai": {script: `
from fastai.learner import Learner
learn = Learner(50, 16)
learn.lr_find()
learn.fit(3)
learn.save("model.pth")
`, framework: "fastai", unit: "step", last: "12 12 3 3 16 0.5", checkpoints: "model.pth@NaN", trainings: 1},
		"xgboost": {script: `
import xgboost
xgboost.train({}, None, 20)
xgboost.sklearn.fit()
`, framework: "xgboost", unit: "round", last: "7 7 - - - 0.1429", trainings: 2, canSave: true},
		"lightgbm": {script: `
import lightgbm
lightgbm.train({}, None, num_boost_round=15)
`, framework: "lightgbm", unit: "round", last: "15 15 - - - 0.5", trainings: 1, canSave: true},
		"catboost": {script: `
import catboost.core
class Stop:
    def after_iteration(self, info): return info.iteration < 5
catboost.core.CatBoost({"iterations": 8, "task_type": "GPU"}).fit()
catboost.core.CatBoost({"iterations": 20, "callbacks": Stop()}).fit()
catboost.core.CatBoost({"iterations": 12}).fit()
`, framework: "catboost", unit: "round", last: "12 12 - - - 0.08333", trainings: 2},
		"catboost, a slow callback": {script: `
import catboost.core
catboost.core.CatBoost({"iterations": 3000}).fit()
catboost.core.CatBoost({"iterations": 200, "loss_function": "RMSE", "eval_metric": "MAE", "custom_metric": ["R2", "MAE"]}).fit(tests=4)
catboost.core.CatBoost({"iterations": 12}).fit()
`, framework: "catboost", unit: "round", last: "12 12 - - - 0.08333", trainings: 1},
		"catboost, a callback of the script, and long iterations": {script: `
import catboost.core
class Each:
    def after_iteration(self, info): return True
catboost.core.CatBoost({"iterations": 2000, "callbacks": Each()}).fit()
catboost.core.CatBoost({"iterations": 2000}).fit(rows=10**9)
`, framework: "catboost", unit: "round", last: "2000 2000 - - - 0.0005", trainings: 2},
		"xgboost, stopped early by a callback of the script": {script: `
import xgboost
class Stop(xgboost.callback.TrainingCallback):
    def after_iteration(self, model, epoch, evals_log): return epoch == 5
xgboost.train({}, None, 20, callbacks=[Stop()])
`, framework: "xgboost", unit: "round", last: "6 20 - - - 0.1667", trainings: 1, canSave: true},
		"lightgbm, stopped early by a callback of the script": {script: `
import lightgbm
def stop(env):
    if env.iteration + 1 == env.end_iteration: raise lightgbm.callback.EarlyStopException(env.iteration, [])
stop.order = 30
lightgbm.train({}, None, num_boost_round=15, callbacks=[stop])
`, framework: "lightgbm", unit: "round", last: "15 15 - - - 0.5", trainings: 1, canSave: true},
		"lightgbm, callbacks by position": {script: `
import lightgbm
seen = []
def see(env): seen.append(env.iteration)
see.order = 30
lightgbm.train({}, None, 4, None, [see])
assert seen == [3, 4, 5, 6], seen
`, framework: "lightgbm", unit: "round", last: "4 4 - - - 0.5", trainings: 1, canSave: true},
		"scikit-learn": {script: `
from sklearn.linear_model._stochastic_gradient import SGDClassifier
a, b = SGDClassifier(), SGDClassifier()
assert a.partial_fit.__doc__ == "Fit some samples."
for i in range(6): a.partial_fit([0] * 50); b.partial_fit(X=[0] * 10)
`, framework: "scikit-learn", unit: "call", last: "6 - - - 50 -", trainings: 1},
		"scikit-learn/folds": {script: `
from sklearn.linear_model._stochastic_gradient import SGDClassifier
for fold in range(5):
    model = SGDClassifier()
    for i in range(10): model.partial_fit([0] * 20)
`, framework: "scikit-learn", unit: "call", last: "50 - - - 20 -", trainings: 1},
		"stable-baselines3": {script: `
import stable_baselines3.common.base_class as b
a = b.BaseAlgorithm()
a.learn(40, callback=lambda l, g: True)
a.save("final")
`, framework: "stable-baselines3", unit: "timestep", last: "40 40 - - 4 -", checkpoints: "final.zip@NaN", trainings: 1, canSave: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			f := o.must(c.script)
			want(t, "framework", f.Framework, c.framework)
			want(t, "unit", f.Unit, c.unit)
			want(t, "last row", columns(o), c.last)
			want(t, "checkpoints", written(f), c.checkpoints)
			want(t, "trainings", f.Training, c.trainings)
			want(t, "threads", f.Threads, map[bool]int{true: 4, false: f.Threads}[c.setsThreads])
			want(t, "ended", f.Ended, true)
			if c.framework == "ultralytics" {
				want(t, "work after the last epoch", f.Closing > 0, true)
			}
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
			text := o.reports()
			want(t, "can save", strings.Contains(text, `"can_save":true`), c.canSave)
			want(t, "can set threads", strings.Contains(text, `"can_set_threads":true`), c.setsThreads)
		})
	}
}

// TestPasses: the epochs and samples of a loop in the script, with passes of different lengths and passes that it leaves
// early. Before the first complete pass these are a preparation.
func TestPasses(t *testing.T) {
	for name, c := range map[string]struct {
		script               string
		step, epoch, samples float64
	}{
		"curriculum": {`
data = list(range(10))
loader = torch.utils.data.DataLoader(data, 4)
for epoch in range(3):
    for batch in loader: optimizer.step()
    data.extend(range(10))
`, 3 + 5 + 8, 3, 10 + 20 + 30},
		"left early": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
for epoch in range(4):
    for batch in itertools.islice(loader, 5): optimizer.step()
`, 20, 4, 40},
		"left early in a loop of unknown length": {`
loader, epoch = torch.utils.data.DataLoader(list(range(20)), 2), 0
while epoch < 4:
    for batch in itertools.islice(loader, 5): optimizer.step()
    epoch += 1
`, 20, 4, 40},
		"left early by the index": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
for epoch in range(2):
    for i, batch in enumerate(loader, 1):
        optimizer.step()
        if i >= 5: break
`, 10, 2, 20},
		"epochs of a number of steps": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
batches = iter(loader)
for epoch in range(4):
    for i in range(5):
        try:
            batch = next(batches)
        except StopIteration:
            batches = iter(loader)
            batch = next(batches)
        optimizer.step()
`, 20, 4, 40},
		"epochs of a number of steps, then of all data": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
batches = itertools.cycle(loader)
def pretrain():
    for epoch in range(4):
        for i in range(7):
            next(batches)
            optimizer.step()
            time.sleep(0.03)
def train():
    for epoch in range(3):
        for batch in loader: optimizer.step()
pretrain()
train()
`, 58, 7, 80},
		"two steps in a batch, by a framework": {`
import lightning.pytorch.trainer.trainer as lightning
class Second:
    def on_train_batch_end(self, trainer, *rest): trainer.global_step += 1
lightning.Trainer(callbacks=[Second()]).fit()
`, 20, 2, 80},
		"stream, by the index": {`
class Data(torch.utils.data.IterableDataset):
    def __iter__(self): return itertools.count()
for i, batch in enumerate(torch.utils.data.DataLoader(Data(), 2)):
    if i + 1 > 10: break
    optimizer.step()
`, 10, 1, 22},
		"stream without an end": {`
class Data(torch.utils.data.IterableDataset):
    def __iter__(self): return itertools.count()
for batch in torch.utils.data.DataLoader(Data(), 2):
    optimizer.step()
    if batch[0] == 18: break
`, 10, math.NaN(), 20},
		"trainings in two threads": {`
import threading
turn = threading.Barrier(2)
def train():
    optimizer, loader = torch.optim.SGD(), torch.utils.data.DataLoader(list(range(20)), 2)
    for epoch in range(3):
        for batch in loader:
            turn.wait()
            optimizer.step()
            turn.wait()
def twice(): train(), train()
threads = [threading.Thread(target=twice) for i in range(2)]
for t in threads: t.start()
for t in threads: t.join()
`, 60, 6, 120},
		"search of the learning rate": {`
loader = torch.utils.data.DataLoader(list(range(19)), 2)
for batch in itertools.islice(loader, 3): optimizer.step()
for epoch in range(2):
    for batch in loader: optimizer.step()
`, 23, 2, 6 + 38},
		"search with another optimizer": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
def search():
    optimizer = torch.optim.SGD()
    for batch in itertools.islice(loader, 3): optimizer.step()
search()
for epoch in range(2):
    for batch in loader: optimizer.step()
`, 23, 2, 46},
		"one batch, several times": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
batch = next(iter(loader))
for i in range(7): optimizer.step()
for epoch in range(2):
    for batch in loader: optimizer.step()
    for batch in itertools.islice(loader, 5): optimizer.step()
`, 7 + 20 + 10, 3, 2 + 40 + 20},
		"iterator kept by the loader": {`
class Data(list):
    def __iter__(self): return itertools.cycle(range(10))
class Loader(torch.utils.data.DataLoader):
    def __init__(self, *args):
        super().__init__(*args)
        self.iterator = super().__iter__()
    def __iter__(self):
        for i in range(len(self)): yield next(self.iterator)
loader = Loader(Data(range(10)), 4)
for epoch in range(3):
    for batch in loader: optimizer.step()
for batch in itertools.islice(loader, 1): optimizer.step()
`, 10, 3.33333333, 34},
		"evaluation on some of the training data within a pass": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
for epoch in range(3):
    for i, batch in enumerate(loader):
        optimizer.step()
        if i % 4 == 0:
            for batch in itertools.islice(loader, 1): pass
`, 30, 3, 60},
		"the same, without a known length": {`
class Data(torch.utils.data.IterableDataset):
    def __iter__(self): return iter(range(20))
loader = torch.utils.data.DataLoader(Data(), 2)
for epoch in range(3):
    for i, batch in enumerate(loader):
        optimizer.step()
        if i % 4 == 0:
            for batch in itertools.islice(loader, 1): pass
`, 30, 3, 60},
		"evaluation before the optimizer step": {`
train, held = torch.utils.data.DataLoader(list(range(200)), 2), torch.utils.data.DataLoader(list(range(20)), 2)
@torch.no_grad()
def evaluate():
    for batch in held: pass
evaluate()
for epoch in range(3):
    for i, batch in enumerate(train):
        if i % 20 == 0: evaluate()
        optimizer.step()
`, 300, 3, 600},
		"batches without gradients": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
for epoch in range(3):
    with torch.no_grad():
        for batch in loader: optimizer.step()
`, 30, 3, 60},
		"a call of the optimizer for each group of parameters": {`
groups = [{"params": [object()]} for i in range(2)]
loader = torch.utils.data.DataLoader(list(range(200)), 2)
for epoch in range(3):
    for i, batch in enumerate(loader):
        if i % 4 < 3: continue
        for optimizer.param_groups in groups[:1], groups[1:]: optimizer.step()
`, 75, 3, 600},
		"parameters that change": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
for epoch in range(3):
    optimizer.param_groups = [{"params": [object()]}]
    for batch in loader: optimizer.step()
`, 30, 3, 60},
		"an optimizer for each parameter": {`
loader = torch.utils.data.DataLoader(list(range(200)), 2)
optimizers = [torch.optim.SGD() for i in range(150)]
for epoch in range(3):
    for batch in loader:
        for optimizer in optimizers: optimizer.step()
`, 300, 3, 600},
		"an optimizer for each parameter, twice": {`
loader = torch.utils.data.DataLoader(list(range(20)), 2)
sets = [[torch.optim.SGD() for i in range(60)] for i in range(2)]
for optimizers in sets:
    for epoch in range(30):
        for batch in loader:
            for optimizer in optimizers: optimizer.step()
`, 600, 60, 1200},
		"length stated too small": {`
class Loader(torch.utils.data.DataLoader):
    def __iter__(self): return super().__iter__()
    def __len__(self): return 3
loader = Loader(list(range(16)), 4)
for epoch in range(2):
    for batch in loader: optimizer.step()
`, 8, 2, 24},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			f := o.must("import itertools, time, torch\noptimizer = torch.optim.SGD()\n" + c.script)
			want(t, "step", f.Step, c.step)
			want(t, "epoch", fmt.Sprint(o.last(trainlog.Epoch)), fmt.Sprint(c.epoch)) // NaN: unknown
			want(t, "samples", f.Samples, c.samples)
		})
	}
}

// TestBatchesOfSeveralSizes: a batch size that is no number, such as that of a script's batch sampler, is unknown.
func TestBatchesOfSeveralSizes(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import torch
optimizer, loader = torch.optim.SGD(), torch.utils.data.DataLoader(list(range(20)), 2)
class Sizes(list):
    def __eq__(self, n): return n == 2
loader.batch_size = Sizes([2, 4])
type(loader).__len__ = lambda self: 10
for epoch in range(2):
    for batch in loader: optimizer.step()
`)
	want(t, "last row", columns(o), "20 - 2 2 - -")
	if len(f.Failures) > 0 {
		t.Errorf("failures: %+v", f.Failures)
	}
}

// TestBatchesOfRanks: the batches of a rank are its own, unless accelerate divides each among all ranks or the first rank requests
// those of all.
func TestBatchesOfRanks(t *testing.T) {
	for name, c := range map[string]struct {
		script, last string
		samples      float64
	}{
		"own": {`
loader = torch.utils.data.DataLoader(list(range(200)), 2)
loader.sampler.num_replicas = 4
`, "200 - 2 2 8 -", 1600},
		"divided": {`
loader = torch.utils.data.DataLoader(list(range(800)), 8)
class Shard: batch_size, split_batches = 8, True
loader.batch_sampler = Shard()
`, "200 - 2 2 8 -", 1600},
		"distributed": {`
loader = DataLoaderDispatcher(torch.utils.data.DataLoader(list(range(800)), 2), 4)
`, "200 - 2 - 8 -", 1600},
		"distributed from a stream": {`
class Data(torch.utils.data.IterableDataset):
    def __iter__(self): return iter(range(800))
loader = DataLoaderDispatcher(torch.utils.data.DataLoader(Data(), 2), 4)
`, "200 - 2 - 8 -", 1600},
		"own, within a pass over distributed ones": {`
other = iter(DataLoaderDispatcher(torch.utils.data.DataLoader(list(range(800)), 2), 4))
next(other)
loader = torch.utils.data.DataLoader(list(range(200)), 2)
loader.sampler.num_replicas = 4
`, "200 - 2 2 8 -", 1600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newObserved(t)
			o.env = append(o.env, "RANK=0", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=4", "MASTER_PORT=29500")
			f := o.must("import torch\nfrom accelerate.data_loader import DataLoaderDispatcher\noptimizer = torch.optim.SGD()\n" + c.script + `
for epoch in range(2):
    for batch in loader: optimizer.step()
`)
			want(t, "last row", columns(o), c.last)
			want(t, "samples", f.Samples, c.samples)
			if len(f.Failures) > 0 {
				t.Errorf("failures: %+v", f.Failures)
			}
		})
	}
}

// TestWorkBetweenEpochs: evaluation between the epochs is expected after the last one as well.
func TestWorkBetweenEpochs(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		script      string
		least, most time.Duration
	}{
		"loop": {`
import torch
loader, optimizer = torch.utils.data.DataLoader(list(range(40)), 4), torch.optim.SGD()
for epoch in range(3):
    for batch in loader: optimizer.step()
    time.sleep(2)
`, second, patience},
		"Trainer": {`
from transformers.trainer import Trainer
Trainer(epochs=3, save_every=100).train(evaluation=2)
`, second, patience},
		"one epoch": {`
import torch
optimizer = torch.optim.SGD()
for batch in torch.utils.data.DataLoader(list(range(40)), 4): optimizer.step()
time.sleep(2)
`, 0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if f := newObserved(t).must("import time\n" + c.script); f.Closing < c.least || f.Closing > c.most {
				t.Errorf("%v after the last epoch, want %v to %v", f.Closing, c.least, c.most)
			}
		})
	}
}

// TestLearningStarts: timesteps before the first update, which have another pace, are not reported.
func TestLearningStarts(t *testing.T) {
	o := newObserved(t)
	o.must(`
import stable_baselines3.common.base_class as b
a = b.BaseAlgorithm()
a.learning_starts = 24
a.learn(48, pause=0.05)
`)
	if len(o.rows) == 0 {
		t.Fatal("no row")
	}
	if step, ok := o.rows[0].Row.Value(trainlog.Step); !ok || step <= 24 {
		t.Errorf("first row at timestep %g", step)
	}
	want(t, "last timestep", o.last(trainlog.Step), 48)
}

// TestKeptBatch: a training that makes all its steps on one batch is counted by them from its first row on.
func TestKeptBatch(t *testing.T) {
	for _, samples := range []int{20, 50} { // all of the data, less than half of it
		o := newObserved(t)
		f := o.must(fmt.Sprintf(`
import time, torch
optimizer = torch.optim.SGD()
batch = next(iter(torch.utils.data.DataLoader(list(range(%d)), 20)))
for epoch in range(300):
    optimizer.step()
    time.sleep(0.005)
`, samples))
		want(t, "step", f.Step, 300)
		for _, r := range o.rows {
			if e, ok := r.Row.Value(trainlog.Epoch); ok {
				t.Fatalf("%d samples: epoch %g in a row", samples, e)
			}
		}
	}
}

// TestCheckpointsInQuickSuccession: the last one is reported, although not all are.
func TestCheckpointsInQuickSuccession(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import torch
optimizer = torch.optim.SGD()
for n in range(200):
    optimizer.step()
    torch.save({}, "last.pt")
`)
	want(t, "step of the last checkpoint", f.Checkpoints[len(f.Checkpoints)-1].Step, 200)
}

// TestCheckpointEpoch: a checkpoint has the epoch that has just ended, even where no report was due since the one before.
func TestCheckpointEpoch(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import torch
loader, optimizer = torch.utils.data.DataLoader(list(range(8)), 4), torch.optim.SGD()
for epoch in range(40):
    for batch in loader: optimizer.step()
    if epoch % 2: torch.save({}, "epoch-%d.pt" % (epoch + 1))
`)
	for _, c := range f.Checkpoints {
		want(t, filepath.Base(c.Path), fmt.Sprintf("epoch-%g.pt", c.Epoch), filepath.Base(c.Path))
	}
	want(t, "checkpoints were reported", len(f.Checkpoints) > 5, true)
}

// TestClosure: a step that computes the loss by a closure of the script is not work of the optimizer alone.
func TestClosure(t *testing.T) {
	t.Parallel()
	for argument, known := range map[string]bool{"": true, "None": true, "loss": false, "closure=loss": false} {
		f := newObserved(t).must(fmt.Sprintf(`
import time, torch
class Optimizer(torch.optim.SGD):
    def step(self, closure=None): time.sleep(0.001)
def loss(): return 1.0
optimizer = Optimizer()
for i in range(5): optimizer.step(%s)
`, argument))
		want(t, "share of the optimizer is known, step("+argument+")", !math.IsNaN(f.Optimizer), known)
	}
}

// TestFitInThreads: of trainings by a framework in two threads at the same time the last one counts, and the other one is reported;
// those in one thread after the other are not.
func TestFitInThreads(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		beside bool
	}{
		"at the same time":    {"one.start(); begun.wait(60); m.Model().fit(100, epochs=5); ended.set(); one.join()", true},
		"one after the other": {"ended.set(); one.start(); one.join(); m.Model().fit(100, epochs=5)", false},
	} {
		o := newObserved(t)
		f := o.must(`
import threading, keras.src.models.model as m
begun, ended = threading.Event(), threading.Event()
class First(m.Model):
    def evaluate(self, rows):
        begun.set()
        ended.wait(60)
one = threading.Thread(target=First().fit, args=(100,), kwargs={"epochs": 3})
` + c.script)
		want(t, name+": steps", f.Step, 20)
		want(t, name+": epochs", o.last(trainlog.TotalEpochs), 5)
		want(t, name+": training in another thread reported", strings.Contains(o.reports(), `"beside":1`), c.beside)
	}
}

// TestBoostingInThreads: of trainings of gradient boosting in two threads one counts, and the other one is reported.
func TestBoostingInThreads(t *testing.T) {
	t.Parallel()
	o := newObserved(t)
	f := o.must(`
import lightgbm, threading
begun, ended = threading.Event(), threading.Event()
def first(env):
    begun.set()
    ended.wait(60)
first.order = 10
def train(rounds, *callbacks): lightgbm.train({}, None, num_boost_round=rounds, callbacks=list(callbacks))
one = threading.Thread(target=train, args=(15, first))
one.start()
begun.wait(60)
train(40)
ended.set()
one.join()
`)
	want(t, "rounds", f.Step, 15)
	reports, err := filepath.Glob(filepath.Join(o.in.Reports, "*.jsonl"))
	if err != nil || len(reports) != 1 {
		t.Fatal(reports, err)
	}
	text, err := os.ReadFile(reports[0])
	want(t, "training in another thread reported", strings.Contains(string(text), `"beside":1`), true)
	want(t, "error", err, nil)
}
