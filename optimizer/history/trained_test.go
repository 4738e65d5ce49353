package history

import (
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// truth is the summary that testdata/train.py prints of its training; times are in seconds.
type truth struct {
	Epochs, Steps, Samples, Batch, CPUs, Params, Runtime, Cost, Loss, Accuracy float64

	EpochSeconds []float64 `json:"epoch_seconds"`
	EpochEnds    []float64 `json:"epoch_ends"`
	StepEnds     []float64 `json:"step_ends"`
	StepLoss     float64   `json:"step_loss"`
}

// gaps returns the differences of successive times.
func gaps(ends []float64) []float64 {
	var out []float64
	for i := range ends[1:] {
		out = append(out, ends[i+1]-ends[i])
	}
	return out
}

// TestTrained requires that one real training, logged in the styles of several frameworks, yields the same entry from
// each log, as far as that log contains the values.
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
	n, last := math.NaN(), is.EpochEnds[len(is.EpochEnds)-1]
	mean := []float64{is.Runtime / is.Epochs}
	for name, want := range map[string]struct {
		format, framework, unit        string
		units, seconds                 float64
		each                           []float64 // the unit time lies within these
		samples                        float64   // per unit, if the log contains the throughput; NaN if not
		cost, loss, accuracy, cpus, of float64
	}{
		"log-generated-logistic.csv": {"csv", "", "epoch", is.Epochs, last, is.EpochSeconds, is.Samples, is.Cost, is.Loss, 100 * is.Accuracy, is.CPUs, is.Params},
		"training.log.csv":           {"keras", "keras", "epoch", is.Epochs, n, nil, n, n, is.Loss, is.Accuracy, n, n},
		"metrics.csv":                {"lightning", "lightning", "epoch", is.Epochs, n, nil, n, n, is.Loss, is.Accuracy, n, n},
		"trainer_state.json":         {"huggingface", "huggingface", "epoch", is.Epochs, is.Runtime, mean, is.Samples, n, is.StepLoss, is.Accuracy, n, n},
		"results.csv":                {"ultralytics", "pytorch", "epoch", is.Epochs, last, gaps(is.EpochEnds), n, n, is.Loss, is.Accuracy, n, n},
		"steps.jsonl":                {"jsonl", "", "step", is.Steps, is.StepEnds[len(is.StepEnds)-1], gaps(is.StepEnds), is.Batch, n, is.StepLoss, n, n, n},
	} {
		log, err := ReadLog(filepath.Join(dir, name), LogOptions{})
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
		for what, c := range map[string][2]float64{"units": {e.Units, want.units}, "seconds": {e.Seconds, want.seconds}, "cost": {e.CostUSD, want.cost}, "training loss": {e.TrainLoss, want.loss},
			"test accuracy": {e.TestAccuracy, want.accuracy}, "CPUs": {e.Observed.CPUs, want.cpus}, "parameters": {e.Job.Params, want.of}} {
			if !same(c[0], c[1]) && !(math.Abs(c[0]-c[1]) <= 1e-4*math.Abs(c[1])+5e-5) {
				t.Errorf("%s: %s %g, want %g", name, what, c[0], c[1])
			}
		}
		if len(want.each) == 0 {
			if !math.IsNaN(e.UnitTime) {
				t.Errorf("%s tells no times, and %g s for each unit", name, e.UnitTime)
			}
			continue
		}
		const rounding = 1e-3 // of times in the log
		least, most := slices.Min(want.each)*(1-rounding), slices.Max(want.each)*(1+rounding)
		if !(least <= e.UnitTime && e.UnitTime <= most) {
			t.Errorf("%s: seconds of a unit %g, want one of %g to %g", name, e.UnitTime, least, most)
		}
		if rate := e.Throughput; math.IsNaN(rate) != math.IsNaN(want.samples) || rate < want.samples/most || rate > want.samples/least {
			t.Errorf("%s: throughput %g, want one of %g to %g", name, rate, want.samples/most, want.samples/least)
		}
	}
}
