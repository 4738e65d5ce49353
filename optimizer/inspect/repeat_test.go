package inspect

import (
	"path/filepath"
	"strings"
	"testing"
)

// TestRepeats checks which scripts make several trainings of the length that they name.
func TestRepeats(t *testing.T) {
	const train = "def train(data):\n    for epoch in range(9):\n        for batch in data: model.train()\n"
	for src, want := range map[string]bool{
		train + "train(0)": false,
		train + "for fold, data in enumerate(folds):\n    train(data)":                                                                                                      true,
		train + "for seed in range(1):\n    train(seed)":                                                                                                                    false,
		train + "for epoch in range(30):\n    train(0)":                                                                                                                     false,
		train + "def run(fold):\n    train(fold)\ndef main():\n    for fold in range(5): pass\n    run(0)\nmain()":                                                          false,
		train + "def run(fold):\n    train(fold)\ndef main():\n    for fold in range(5):\n        run(fold)\nmain()":                                                        true,
		train + "def again(n):\n    train(n)\n    again(n - 1)\nagain(3)":                                                                                                   false,
		train + "study.optimize(train, n_trials=20)":                                                                                                                        true,
		train + "from ray import tune\ntune.run(partial(train, data=1))":                                                                                                    true,
		train + "torch.multiprocessing.spawn(train, nprocs=2)":                                                                                                              false,
		"def main():\n    def objective(trial):\n        Trainer(max_epochs=3).fit(m)\n    study.optimize(objective)":                                                       true,
		"def evaluate_model(x):\n    for a, b in kfold.split(x):\n        model.fit(a, b, epochs=10)":                                                                       true,
		"for train_index, test_index in KFold(5).split(x):\n    for epoch in range(4):\n        pass":                                                                       true,
		"for update in range(9):\n    for epoch in range(4):\n        pass":                                                                                                 false, // PPO
		"for i in range(num_epochs):\n    model.fit(x, epochs=1)":                                                                                                           false,
		"class Trainer:\n    def fit(self):\n        for epoch in range(3): pass\nfor fold in folds:\n    Trainer(fold).fit()":                                              true,
		"class Trainer:\n    def fit(self):\n        for epoch in range(3): pass\nt = Trainer()\nfor seed in seeds:\n    t.fit(seed)":                                       true,
		"class Trainer:\n    def fit(self):\n        for epoch in range(3): pass\nt = Trainer()\nt.fit()":                                                                   false,
		"class Base:\n    def fit(self):\n        for epoch in range(3): pass\nclass T(Base): pass\nfor fold in folds:\n    t = T()\n    t.fit()":                           true,
		"class T:\n    def fit(self):\n        for epoch in range(3): pass\n    def folds(self):\n        for k in range(5): self.fit()\nT().folds()":                       true,
		"class A:\n    def fit(self):\n        for epoch in range(3): pass\nclass B:\n    def all(self):\n        for k in 'ab': self.fit()\nA()":                           false,
		"class Objective:\n    def __call__(self, trial):\n        for epoch in range(3): pass\nstudy.optimize(Objective(data), n_trials=9)":                                true,
		"class Objective:\n    def __call__(self, trial):\n        for epoch in range(3): pass\nf = Objective()\nstudy.optimize(f)":                                         true,
		"def train(epochs):\n    for t in range(epochs): pass\nfor fold in folds:\n    train(3)":                                                                            true,
		"epochs = 3\nfor t in range(epochs):\n    train()":                                                                                                                  false,
		"from engine import Trainer\nfor fold in folds:\n    t = Trainer(fold, args.epochs)\n    t.fit()":                                                                   true,
		"from engine import train\nargs = parser.parse_args()\nfor fold in range(5):\n    train(args, fold)":                                                                true,
		"from engine import train\nargs = parser.parse_args()\ntrain(args)\nfor x in y:\n    show(x)":                                                                       false,
		"from engine import one_epoch\nargs = parser.parse_args()\nfor epoch in range(args.epochs):\n    one_epoch(args, epoch)":                                            false,
		"args = TrainingArguments(num_train_epochs=3)\nfor fold in folds:\n    Trainer(model, args=args).train()":                                                           true,
		"args = TrainingArguments(num_train_epochs=3)\nTrainer(model, args=args).train()\nfor x in y: show(x)":                                                              false,
		"args = TrainingArguments(num_train_epochs=3)\nTrainer(model_init=make, args=args).hyperparameter_search(n_trials=9)":                                               true,
		"m = CatBoostClassifier(iterations=300)\nm.grid_search({'depth': [4, 6]}, X=x, y=y)":                                                                                true,
		"m = CatBoostRegressor(iterations=300)\nbest = m.randomized_search(grid, X=x, y=y, n_iter=9)":                                                                       true,
		"m = CatBoostClassifier(iterations=300)\nm.fit(x, y)":                                                                                                               false,
		"p.add_argument('--search', action='store_true')\nm = CatBoostClassifier(iterations=300)\nif a.search:\n    m.grid_search(grid, x)\nelse:\n    m.fit(x)":            false,
		"tuner = keras_tuner.RandomSearch(build, max_trials=3)\ntuner.search(x, y, epochs=4, validation_split=0.2)":                                                         true,
		train + "scores = {lr: train(lr) for lr in (0.1, 0.01)}":                                                                                                            true,
		train + "scores = [np.mean(train(fold)) for fold in folds]":                                                                                                         true,
		train + "Parallel(n_jobs=2)(delayed(train)(fold) for fold in folds)":                                                                                                true,
		train + "train([load(name) for name in names])":                                                                                                                     false,
		"for column in table:\n    encoder.fit(table[column])\nmodel.fit(x, epochs=3)":                                                                                      false,
		"class Trainer:\n    def train(self):\n        for epoch in range(3): pass\nfor phase in 'ab':\n    model.train()":                                                  false,
		"from sklearn.model_selection import GridSearchCV\nGridSearchCV(net, grid).fit(x, y)":                                                                               true,
		"for rate in (0.1, 0.01):\n    xgboost.XGBClassifier(n_estimators=50, eta=rate).fit(x, y)":                                                                          true,
		"args = parser.parse_args()\nwhile epoch <= args.epochs:\n    train_epoch(min(epoch, args.epochs), args)":                                                           false,
		"args = parser.parse_args()\nfor i in count():\n    log(min(i, args.epochs))":                                                                                       false,
		"from engine import train\nfor fold in folds:\n    while epoch < max_epochs:\n        train()":                                                                      true,
		"from engine import shard\nfor layer in layers:\n    shard(layer, **options)\nfor _ in range(10):\n    step()":                                                      false,
		"from ray import tune\ndef one(config):\n    trainer.run(loader, 10)\ntune.Tuner(tune.with_parameters(one)).fit()":                                                  true,
		"from lightning.pytorch.tuner import Tuner\nt = pl.Trainer(max_epochs=3)\nTuner(t).lr_find(m)\nt.fit(m)":                                                            false,
		"def train(n):\n    for epoch in range(n): pass\ntrain(3)\nfreeze()\ntrain(3)":                                                                                      true,
		"def train(n):\n    for epoch in range(n): pass\nif small:\n    train(3)\nelse:\n    train(9)":                                                                      false,
		"def train(n):\n    for epoch in range(n): pass\ndef a(): train(3)\ndef b(): train(3)\ncommands[argv[1]]()":                                                         false,
		"class T:\n    def fit(self):\n        for epoch in range(3): pass\nt, u = T(), T()\nt = T()\nt.fit()":                                                              false,
		"class T:\n    def fit(self):\n        for epoch in range(3): pass\nt = T()\nt.fit()\nt.fit()":                                                                      true,
		"for epoch in range(3):\n    loss.backward()\nfor epoch in range(4):\n    loss.backward()":                                                                          true,
		"for epoch in range(3):\n    loss.backward()\nfor epoch in range(3):\n    plot(losses[epoch])":                                                                      false,
		"model.fit(x, epochs=3)\nmodel.fit(x, epochs=6, initial_epoch=3)":                                                                                                   true,
		"p.add_argument('--sweep', action='store_true')\ndef train(n):\n    for epoch in range(n): pass\nif args.sweep:\n    for x in y: train(3)":                          false,
		"p.add_argument('--evolve', nargs='?', const=300)\ndef train(n):\n    for epoch in range(n): pass\nif not o.evolve:\n    train(3)\nelse:\n    for x in y: train(3)": false,
		"p.add_argument('--one', action='store_false')\ndef train(n):\n    for epoch in range(n): pass\nif not a.one:\n    train(3)\nelse:\n    for x in y: train(3)":       true,
		"import lightgbm as lgb\nlgb.LGBMRegressor(n_estimators=20).fit(x, y)\nGridSearchCV(lgb.LGBMRegressor(), grid).fit(x, y)":                                           true,
		"for fold in range(3):\n    fit(fold)\nlgb.train(p, d, num_boost_round=10)":                                                                                         false,
	} {
		c := ReadCommand([]string{"python3", "-c", src}, "")
		if have := c.Repeats(); have != want {
			t.Errorf("%q: repeats %t, want %t", src, have, want)
		}
		if want && len(c.Lengths()) > 0 {
			t.Errorf("%q: length %+v of one training", src, c.Lengths())
		}
	}
}

// TestRepeatsByOption checks that an option of the command line selects the branch that makes several trainings.
func TestRepeatsByOption(t *testing.T) {
	const src = "p.add_argument('--sweep', action='store_true')\np.add_argument('--seeds', type=int, default=0)\ndef train(epochs):\n    for epoch in range(epochs): pass\n" +
		"if args.sweep:\n    for x in y: train(3)\nelif args.seeds:\n    for x in range(args.seeds): train(3)\nelse:\n    train(3)"
	for args, want := range map[string]bool{"": false, "--sweep": true, "--seeds 4": true, "--seeds=0": false, "--other": false} {
		c := ReadCommand(append([]string{"python3", "-c", src}, strings.Fields(args)...), "")
		if have := c.Repeats(); have != want || want == (len(c.Lengths()) > 0) {
			t.Errorf("%q: repeats %t, want %t; length %+v", args, have, want, c.Lengths())
		}
	}
}

// TestRepeatsByMultirun checks that a multirun of hydra is several trainings.
func TestRepeatsByMultirun(t *testing.T) {
	const src = "import hydra\n@hydra.main(config_path='conf', config_name='config')\ndef main(cfg):\n    for epoch in range(3): pass\nmain()"
	for _, c := range []struct {
		args []string
		want bool
	}{{nil, false}, {[]string{"lr=0.1"}, false}, {[]string{"-m", "lr=0.1,0.2"}, true}, {[]string{"--multirun", "lr=0.1,0.2"}, true}} {
		if have := ReadCommand(append([]string{"python3", "-c", src}, c.args...), "").Repeats(); have != c.want {
			t.Errorf("%q: repeats %t, want %t", c.args, have, c.want)
		}
	}
}

// TestRepeatsByParallel checks that GNU parallel and xargs make several trainings.
func TestRepeatsByParallel(t *testing.T) {
	for command, want := range map[string]bool{"parallel -j2 python3 e.py ::: 1 2": true, "/usr/bin/parallel -j2 ./train ::: 1 2": true, "xargs -n1 python3 e.py": true,
		"python3 parallel.py": false, "./parallel_train --n 2": false} {
		if have := ReadCommand(strings.Fields(command), t.TempDir()).Repeats(); have != want {
			t.Errorf("%q: repeats %t, want %t", command, have, want)
		}
	}
}

// TestOneTraining checks that none of the scripts here, which make one training each, counts as several.
func TestOneTraining(t *testing.T) {
	var scripts []string
	for _, pattern := range []string{"../../examples/*.py", "../../internal/conformance/trainings/*.py"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d files, %v", pattern, len(found), err)
		}
		scripts = append(scripts, found...)
	}
	for _, s := range scripts {
		if ReadCommand([]string{"python3", s}, "").Repeats() {
			t.Errorf("%s counts as several trainings", s)
		}
	}
}
