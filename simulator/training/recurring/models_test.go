package recurring

import (
	"bytes"
	"flag"
	"math"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "fit the models again to the tables and write models.json")

func fitted(t testing.TB) []*Job {
	t.Helper()
	jobs, err := Fitted()
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// TestModels: the embedded models are those of the tables, to within a known error of an epoch's time and energy, and
// promise the same savings. With -update they are fitted anew.
func TestModels(t *testing.T) {
	measured := tables(t)
	jobs := fitted(t)
	if *update {
		jobs = jobs[:0]
		for _, j := range measured {
			f, _, err := Fit(j)
			if err != nil {
				t.Fatal(err)
			}
			jobs = append(jobs, f)
		}
		var file bytes.Buffer
		if err := WriteModels(&file, jobs); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile("models.json", file.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if len(jobs) != len(measured) {
		t.Fatalf("%d models for %d measured jobs", len(jobs), len(measured))
	}
	for i, f := range jobs {
		j := measured[i]
		if f.Name() != j.Name() || f.Default != j.Default || f.MaxEpochs != j.MaxEpochs {
			t.Fatalf("model %d is of %s, want %s", i, f.Name(), j.Name())
		}
		m := misfit(f, j)
		potential := func(j *Job) float64 {
			return percent(j.ExpectedCost(1, j.Optimum(1)), j.ExpectedCost(1, j.Default))
		}
		t.Logf("%-36s off by: seconds median %.1f max %.1f %%, joules median %.1f max %.1f %%; potential %.1f %%, measured %.1f %%", j.Name(),
			m.SecondsMedian, m.SecondsMax, m.JoulesMedian, m.JoulesMax, potential(f), potential(j))
		if m.SecondsMedian > 3.5 || m.JoulesMedian > 4.5 || m.SecondsMax > 20 || m.JoulesMax > 20 {
			t.Errorf("%s: the model is off by %+v", j.Name(), m)
		}
		if d := potential(f) - potential(j); math.Abs(d) > 3.5 {
			t.Errorf("%s: the model's potential is off by %.1f points", j.Name(), d)
		}
		for _, b := range j.Batches {
			if got, want := f.truth.mean(b), j.truth.mean(b); math.IsNaN(got) != math.IsNaN(want) || math.Abs(got/want-1) > 0.03 {
				t.Errorf("%s: %g epochs at batch %d, measured %g", j.Name(), got, b, want)
			}
		}
	}
}

// TestFitRecovers: from a table made by a model, the same times and powers come out.
func TestFitRecovers(t *testing.T) {
	j := *fitted(t)[1]
	truth := j.truth.(*model)
	made := &table{map[int][]float64{}, map[Setting][2]float64{}}
	for _, s := range j.Settings() {
		seconds, watts := truth.epoch(s)
		made.power[s] = [2]float64{seconds, watts}
		made.epochs[s.Batch] = []float64{10, 10}
	}
	j.truth = made
	f, m, err := Fit(&j)
	if err != nil || m.SecondsMax > 0.5 || m.JoulesMax > 0.5 {
		t.Errorf("%v: off by %+v %%", err, m)
	}
	if math.Abs(f.truth.mean(j.Default.Batch)-10) > 0.01 {
		t.Errorf("%g epochs, want 10", f.truth.mean(j.Default.Batch))
	}
	if _, _, err := Fit(f); err == nil {
		t.Errorf("a fitted model is fitted again")
	}
}

// TestModelShape: more power is never slower, draws never less, and never more than is wanted.
func TestModelShape(t *testing.T) {
	for _, j := range fitted(t) {
		for _, b := range j.Batches {
			lastS, lastW := math.Inf(1), 0.0
			for _, w := range j.Limits {
				seconds, watts := j.truth.epoch(Setting{b, w})
				if seconds > lastS || watts < lastW || watts > j.truth.(*model).at(b).Watts {
					t.Errorf("%s at batch %d and %g W: %g s at %g W after %g s at %g W", j.Name(), b, w, seconds, watts, lastS, lastW)
				}
				lastS, lastW = seconds, watts
			}
		}
	}
}

// TestModelEpochs: drawn epochs have the stated mean, and the stated share reaches the target.
func TestModelEpochs(t *testing.T) {
	m := &model{Batches: []perBatch{{Batch: 8, Seconds: 1, Watts: 1, LogEpochs: math.Log(20), LogSpread: 0.2, Reached: 0.75}, {Batch: 16, Seconds: 1, Watts: 1, LogEpochs: 3, LogSpread: 0.1, Reached: 1}}}
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 20_000
	reached, sum := 0.0, 0.0
	for range n {
		if x := m.draw(8, rng); !math.IsNaN(x) {
			reached++
		}
		sum += m.draw(16, rng)
	}
	if share := reached / n; math.Abs(share-0.75) > 0.015 || !math.IsNaN(m.mean(8)) {
		t.Errorf("%.3f reach the target with mean %g, want 0.75 and no mean", share, m.mean(8))
	}
	if mean := sum / n; math.Abs(mean/m.mean(16)-1) > 0.005 {
		t.Errorf("mean %g of the draws, stated %g", mean, m.mean(16))
	}
}

// FuzzReadModels: a file of models gives jobs that can be played, or an error.
func FuzzReadModels(f *testing.F) {
	f.Add(string(modelsJSON))
	f.Add(`{"source":"","jobs":[{"dataset":"d","network":"n","gpu":"g","limits_watts":[100,200],"default":{"batch":8,"watts":200},"max_epochs":9,` +
		`"throttle":{"cap":1,"cap_sharp":2,"knee":2,"knee_sharp":3,"slope":1},"batches":[{"batch":8,"epoch_seconds":3,"demand_watts":150,"log_epochs":1,"log_spread":0.1,"reached":1}]}]}`)
	f.Add(`{"jobs":[{"batches":[]}]}`)
	f.Add(`[]`)
	f.Fuzz(func(t *testing.T, text string) {
		jobs, err := readModels([]byte(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "read fitted models") {
				t.Errorf("error %q", err)
			}
			return
		}
		for _, j := range jobs[:min(len(jobs), 2)] {
			r := j.Run(j.Default.Batch, nil, j.Default.Watts, 0.5, math.Inf(1), rand.New(rand.NewPCG(1, 1)))
			if !(r.Seconds > 0) || !(r.Joules > 0) {
				t.Errorf("%s: %+v", j.Name(), r)
			}
		}
	})
}
