package transfer_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// manyRuns returns runs of 200 trainings on four kinds of GPUs, as in the history of a busy team.
func manyRuns(n int) []history.Entry {
	r := rand.New(rand.NewPCG(1, 2))
	families := []string{"resnet", "bert", "gpt", "vgg", "lstm"}
	gpus := []string{"T4", "A100 40GB", "H100", "V100 16GB"}
	out := make([]history.Entry, n)
	for i := range out {
		e := history.NewEntry(history.Run, fmt.Sprintf("run-%05d", i))
		job := r.IntN(200)
		e.Job.Model, e.Job.Family, e.Job.Dataset = fmt.Sprint("model", job), families[job%5], fmt.Sprint("data", job%7)
		e.Job.Params, e.Job.Layers = 1e6*float64(1+job), float64(10+job%50)
		e.Job.ScriptSHA256 = fmt.Sprintf("%064d", job)
		k := math.Exp2(float64(r.IntN(6)))
		e.Observed.GPU, e.Observed.GPUs, e.Observed.Batch = gpus[r.IntN(4)], k, k*math.Exp2(float64(3+r.IntN(5)))
		e.Throughput = 1e3 / float64(1+job) * math.Pow(k, 0.9) * math.Exp(0.03*r.NormFloat64())
		e.UnitTime, e.Seconds, e.State = 100/e.Throughput, 1e5/e.Throughput, "done"
		e.PeakMemoryGiB, e.GPUMemoryGiB = 4+r.Float64(), 8+r.Float64()
		out[i] = e
	}
	return out
}

// BenchmarkNew10000 supports the claim that 10,000 runs are indexed in under 2 s and a prediction from them takes
// under 50 ms, on one core.
func BenchmarkNew10000(b *testing.B) {
	entries := manyRuns(10000)
	for b.Loop() {
		transfer.New(entries, transfer.Options{})
	}
}

func BenchmarkPredict10000(b *testing.B) {
	entries := manyRuns(10000)
	m := transfer.New(entries, transfer.Options{})
	q := transfer.Query{Job: entries[17].Job, Config: entries[17].Observed}
	q.Config.GPUs = 64
	for b.Loop() {
		if _, err := m.Predict(q, transfer.Throughput); err != nil {
			b.Fatal(err)
		}
	}
}
