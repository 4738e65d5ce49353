package predict

import (
	"fmt"
	"math"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/resources"
)

// fake is a predictor from a table: samples/s of one GPU of each model (of one CPU, for ""), scaled with the 0.9th
// power of the count. A measurement of the configuration narrows the interval.
type fake struct {
	speed   map[string]float64
	sd      float64
	memory  float64 // spread of peaks
	host    float64 // GiB, NaN when unknown
	gpu     float64
	units   float64 // samples per unit of the job's own log; 0: UnitRate has no basis
	train   float64 // samples of a whole training; 0: Trainings has no basis
	upTo    float64 // measured devices; 0: all
	entries []history.Entry
	fails   error
}

func newFake() *fake {
	return &fake{speed: map[string]float64{"T4": 100, "V100 16GB": 300, "A100 40GB": 700, "": 4}, sd: 0.2, memory: 0.05, host: 6, gpu: 9}
}

func (f *fake) learn(entries []history.Entry) Predictor {
	g := *f
	g.entries = entries
	return &g
}

func (f *fake) Predict(q transfer.Query, what transfer.Quantity) (transfer.Estimate, error) {
	if f.fails != nil {
		return transfer.Estimate{}, f.fails
	}
	none := fmt.Errorf("%s of %s: %w", what, q.Job.Model, transfer.ErrNoBasis)
	speed, ok := f.speed[q.Config.GPU]
	if !ok {
		return transfer.Estimate{}, none
	}
	n, sd := q.Config.GPUs, f.sd
	if n == 0 {
		n = q.Config.CPUs
	}
	median := speed * math.Pow(n, 0.9)
	e := transfer.Estimate{Prior: 0.25}
	if f.upTo > 0 && n > f.upTo {
		e.Extrapolates = []string{fmt.Sprintf("%g GPUs: measured 1…%g", n, f.upTo)}
	}
	for _, x := range f.entries {
		if x.ID == "imagined probe" {
			median *= x.Throughput / (f.speed[x.Observed.GPU] * math.Pow(max(x.Observed.GPUs, 1), 0.9))
			sd, e.Prior = f.sd/3, 0.05
		} else {
			if e.Basis == nil {
				e.Basis = []transfer.BasisGroup{{Source: x.Source, Job: x.Job, Similarity: 0.99, Weight: 0.75, Measured: "1 GPU of T4"}}
			}
			e.Basis[0].Entries = append(e.Basis[0].Entries, x.ID)
		}
	}
	divide := 1.0
	switch what {
	case transfer.UnitRate:
		divide = f.units
	case transfer.Trainings:
		divide = f.train
	case transfer.HostMemory:
		median, divide, sd = f.host, 1, f.memory
	case transfer.GPUMemory:
		median, divide, sd = f.gpu, 1, f.memory
	}
	if divide == 0 || math.IsNaN(median) {
		return transfer.Estimate{}, none
	}
	e.Value = around(median/divide, sd)
	return e, nil
}

// offer is a machine of a cloud.
func offer(kind, gpu string, gpus int, onDemand, spot cost.USD) machine {
	return machine{Offer: cost.Offer{Cloud: "sky", Type: kind, GPU: gpu, GPUs: gpus, GPUMemory: 16, CPUs: 8 * max(1, gpus), Memory: resources.GiB(32 * max(1, gpus)),
		OnDemand: onDemand, Spot: spot, Source: "list", Dated: "2026-07-20", SpotDated: "2025-03-07"}}
}

func sky() []machine {
	return []machine{
		offer("t1", "T4", 1, 0.5, 0.2), offer("t4", "T4", 4, 2, 0.8),
		offer("v1", "V100 16GB", 1, 3, 1), offer("v8", "V100 16GB", 8, 24, 8),
		offer("a1", "A100 40GB", 1, 4, 0), offer("a8", "A100 40GB", 8, 32, 12),
		offer("c16", "", 0, 0.7, 0.3),
	}
}

// asking is a question about 10 epochs of 360,000 samples: 10 hours on a T4.
func asking(change func(*Question)) *Question {
	q := &Question{Job: history.NewEntry(history.Run, "").Job, Batch: math.NaN(), Machines: sky()}
	q.Job.Model, q.Job.Epochs, q.Job.DataCount = "resnet50", 10, 360_000
	if change != nil {
		change(q)
	}
	return q
}

func ask(t testing.TB, f *fake, q *Question, entries ...history.Entry) *answer {
	t.Helper()
	a, err := Ask(q, entries, f.learn)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// ran is a finished run of the training with script hash "abc", with the given epochs on one T4.
func ran(id string, epochs float64, day int) history.Entry {
	e := history.NewEntry(history.Run, id)
	e.At, e.State = time.Date(2026, 3, day, 0, 0, 0, 0, time.UTC), "done"
	e.Job.ScriptSHA256, e.Job.Model, e.Units, e.Unit, e.Startup = "abc", "resnet50", epochs, "epoch", 30
	e.Observed.GPU, e.Observed.GPUs, e.Observed.CPUs, e.CPUUtil = "T4", 1, 8, 50
	return e
}

// inSteps is ran with the given steps.
func inSteps(id string, steps float64, day int) history.Entry {
	e := ran(id, steps, day)
	e.Unit = "step"
	return e
}

// published is a published measurement of a model.
func published(model string) history.Entry {
	e := history.NewEntry(history.Table, "published/"+model)
	e.Source, e.Job.Model = "Gavel (OSDI 2020), isolated rates", model
	return e
}

func near(got, want, tolerance float64) bool { return math.Abs(got-want) <= tolerance*math.Abs(want) }

func chosen(a *answer) string {
	if a.Chosen < 0 {
		return ""
	}
	return a.Options[a.Chosen].Machine
}
