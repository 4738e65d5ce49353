package logs

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"testing"
)

// truth is what testdata/train.py says of its training.
type truth struct {
	Epochs, Steps, Samples, Batch, CPUs, Params float64
	Took                                        []float64
	SoFar                                       float64 `json:"so_far"`
	Runtime, Cost, Loss, Accuracy               float64
}

// TestTrained: one real training, logged in the styles of several frameworks, is the same training in each log, as far as that
// log tells.
func TestTrained(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not there")
	}
	dir := t.TempDir()
	out, err := exec.Command(python, "testdata/train.py", dir).Output()
	if err != nil {
		t.Fatal(err)
	}
	var is truth
	if err := json.Unmarshal(out, &is); err != nil {
		t.Fatal(err)
	}
	var steady samples
	for _, v := range is.Took {
		steady.add(v)
	}
	epoch, _, _ := steady.steady()
	n := math.NaN()
	for name, want := range map[string]struct {
		format, framework, unit                                         string
		units, seconds, each, speed, cost, loss, accuracy, cpus, params float64
	}{
		"log-generated-logistic.csv": {"csv", "", "epoch", is.Epochs, is.SoFar, epoch, is.Samples / epoch, is.Cost, is.Loss, 100 * is.Accuracy, is.CPUs, is.Params},
		"training.log.csv":           {"keras", "keras", "epoch", is.Epochs, n, n, n, n, is.Loss, is.Accuracy, n, n},
		"metrics.csv":                {"lightning", "lightning", "epoch", is.Epochs, n, n, n, n, is.Loss, is.Accuracy, n, n},
		"trainer_state.json":         {"huggingface", "huggingface", "epoch", is.Epochs, is.Runtime, is.Runtime / is.Epochs, is.Epochs * is.Samples / is.Runtime, n, n, is.Accuracy, n, n},
		"results.csv":                {"ultralytics", "pytorch", "epoch", is.Epochs, is.SoFar, epoch, n, n, is.Loss, is.Accuracy, n, n},
		"steps.jsonl":                {"jsonl", "", "step", is.Steps, is.SoFar, epoch / (is.Steps / is.Epochs), is.Samples / epoch, n, n, n, n, n},
	} {
		log, err := Read(filepath.Join(dir, name), Options{})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		check(t, log)
		if len(log.Entries) != 1 || log.Format != want.format || log.Bad != 0 {
			t.Errorf("%s: %s, %d bad, %q", name, log.Format, log.Bad, shown(log))
			continue
		}
		e := &log.Entries[0]
		if e.Job.Framework != want.framework || e.Unit != want.unit {
			t.Errorf("%s: framework %q, unit %q, want %q and %q", name, e.Job.Framework, e.Unit, want.framework, want.unit)
		}
		for what, c := range map[string]struct{ got, want, within float64 }{
			"units": {e.Units, want.units, 0}, "seconds": {e.Seconds, want.seconds, 0.4}, "seconds of a unit": {e.UnitTime, want.each, 2},
			"throughput": {e.Throughput, want.speed, 2}, "cost": {e.CostUSD, want.cost, 1e-6}, "test accuracy": {e.TestAccuracy, want.accuracy, 1e-4},
			"CPUs": {e.Observed.CPUs, want.cpus, 0}, "parameters": {e.Job.Params, want.params, 0},
		} {
			if !(math.Abs(math.Log(c.got/c.want)) <= math.Log1p(c.within)+1e-12) && !same(c.got, c.want) { // within: as a factor, less one
				t.Errorf("%s: %s %g, want %g", name, what, c.got, c.want)
			}
		}
		if !math.IsNaN(want.loss) && math.Abs(e.TrainLoss-want.loss) > 1e-4 {
			t.Errorf("%s: training loss %g, want %g", name, e.TrainLoss, want.loss)
		}
		if math.IsNaN(e.TrainLoss) || e.TrainLoss > 1 {
			t.Errorf("%s: training loss %g: is that the last one?", name, e.TrainLoss)
		}
	}
}
