package transfer

import (
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/optimizer/history"
)

// TestFarQuestionsHaveTheirOwnHyperParameters: measured on the device, a training is predicted with those of near
// questions, whatever the others are, and elsewhere with those of far ones.
func TestFarQuestionsHaveTheirOwnHyperParameters(t *testing.T) {
	entries := scaled(2, func(int) bool { return false }) // net0 and net1 on T4
	value := func(h [2]hyper, model, gpu string, gpus float64) float64 {
		q := Query{Job: entries[0].Job, Config: history.Config{GPU: gpu, GPUs: gpus, Nodes: 1, Batch: 64}}
		q.Job.Model = model
		e, err := New(entries, Options{Tuned: []tuning{{Throughput, h}}}).Predict(q, Throughput)
		if err != nil {
			t.Fatal(err)
		}
		return e.Value.P50
	}
	given := [2]hyper{near: initialHyper(Throughput), far: initialHyper(Throughput)}
	for name, c := range map[string]struct {
		model, gpu string
		gpus       float64
		far        bool
	}{
		"at a measured count": {"net0", "T4", 4, false},
		"more than measured":  {"net0", "T4", 16, false},
		"another device":      {"net0", "H100", 4, true},
		"another training":    {"net7", "T4", 4, true},
	} {
		was := value(given, c.model, c.gpu, c.gpus)
		for i, changes := range [2]bool{near: !c.far, far: c.far} {
			h := given
			h[i].Noise *= 2
			if now := value(h, c.model, c.gpu, c.gpus); (now != was) != changes {
				t.Errorf("%s: median %g becomes %g with other hyper-parameters %d", name, was, now, i)
			}
		}
	}
}

// TestCalibrateCorrectsTheWidths: the calibrated width depends on the errors only, not on the width before, and is larger
// for measurements that scatter more.
func TestCalibrateCorrectsTheWidths(t *testing.T) {
	width := func(scatter, before float64) float64 {
		entries, r := scaled(4, func(int) bool { return false }), rand.New(rand.NewPCG(1, 2))
		for i := range entries {
			entries[i].Throughput *= math.Exp(scatter * r.NormFloat64())
		}
		h := initialHyper(Throughput)
		h.Width = before
		newFitting(entries, Throughput, 4).calibrate(&h, determined[near], t.Logf)
		return h.Width
	}
	calm := width(0.02, 1)
	if again := width(0.02, 2); again != calm || !(calm > 0) {
		t.Errorf("calibrated width %.3f, from twice the width %.3f", calm, again)
	}
	if wild := width(0.5, 1); wild < 1.3*calm {
		t.Errorf("calibrated width %.3f with a scatter of 50 %%, %.3f with 2 %%", wild, calm)
	}
}
