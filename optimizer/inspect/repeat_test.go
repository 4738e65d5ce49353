package inspect

import "testing"

// TestRepeats checks which scripts make several trainings of the length that they name.
func TestRepeats(t *testing.T) {
	const train = "def train(data):\n    for epoch in range(9):\n        for batch in data: model.train()\n"
	for src, want := range map[string]bool{
		train + "train(0)": false,
		train + "for fold, data in enumerate(folds):\n    train(data)":                                                     true,
		train + "for seed in range(1):\n    train(seed)":                                                                   false,
		train + "for epoch in range(30):\n    train(0)":                                                                    false,
		train + "def run(fold):\n    train(fold)\ndef main():\n    for fold in range(5): pass\n    run(0)\nmain()":         false,
		train + "def run(fold):\n    train(fold)\ndef main():\n    for fold in range(5):\n        run(fold)\nmain()":       true,
		train + "def again(n):\n    train(n)\n    again(n - 1)\nagain(3)":                                                  false,
		train + "study.optimize(train, n_trials=20)":                                                                       true,
		train + "from ray import tune\ntune.run(partial(train, data=1))":                                                   true,
		train + "torch.multiprocessing.spawn(train, nprocs=2)":                                                             false,
		"def main():\n    def objective(trial):\n        Trainer(max_epochs=3).fit(m)\n    study.optimize(objective)":      true,
		"def evaluate_model(x):\n    for a, b in kfold.split(x):\n        model.fit(a, b, epochs=10)":                      true,
		"for train_index, test_index in KFold(5).split(x):\n    for epoch in range(4):\n        pass":                      true,
		"for update in range(9):\n    for epoch in range(4):\n        pass":                                                false, // PPO
		"for i in range(num_epochs):\n    model.fit(x, epochs=1)":                                                          false,
		"for column in table:\n    encoder.fit(table[column])\nmodel.fit(x, epochs=3)":                                     false,
		"class Trainer:\n    def train(self):\n        for epoch in range(3): pass\nfor phase in 'ab':\n    model.train()": false,
		"from sklearn.model_selection import GridSearchCV\nGridSearchCV(net, grid).fit(x, y)":                              true,
		"for rate in (0.1, 0.01):\n    xgboost.XGBClassifier(n_estimators=50, eta=rate).fit(x, y)":                         true,
		"for fold in range(3):\n    fit(fold)\nlgb.train(p, d, num_boost_round=10)":                                        false,
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
