package predict

import (
	"fmt"
	"syscall"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// manyRuns returns n runs of fifty trainings on eight kinds of GPU machines.
func manyRuns(n int) []history.Entry {
	gpus := []string{"T4", "V100 16GB", "A100 40GB", "A10G", "L4", "H100", "A100 80GB", "P100"}
	var out []history.Entry
	for k := range n {
		e := history.NewEntry(history.Run, fmt.Sprintf("run-%05d", k))
		model := k % 50
		e.At, e.State = time.Date(2026, 1, 1, 0, k, 0, 0, time.UTC), "done"
		e.Job.ScriptSHA256, e.Job.Model, e.Job.Dataset, e.Job.Family = fmt.Sprintf("hash-%d", model), fmt.Sprintf("net%d", model), "imagenet", fmt.Sprintf("family%d", model%12)
		e.Job.Params, e.Job.Layers, e.Job.DataCount, e.Job.Epochs = 1e6*float64(1+model), float64(10+model), 50_000, 30
		e.Observed = history.Config{GPU: gpus[k/50%8], GPUs: float64(int(1) << (k / 400 % 4)), Nodes: 1, CPUs: 16, MemoryGiB: 64, Batch: float64(int(32) << (k / 1600 % 3)), Machine: "host"}
		e.Throughput = 100 * float64(1+model%7) * float64(1+k/50%8) * e.Observed.GPUs * (1 + 0.03*float64(k%5))
		e.Units, e.Unit, e.UnitTime, e.UnitCount, e.UnitSpread, e.Startup = 30, "epoch", 50_000/e.Throughput, 30, 0.02, 20
		e.PeakMemoryGiB, e.GPUMemoryGiB, e.Seconds = 8, 6, 30*e.UnitTime
		out = append(out, e)
	}
	return out
}

// processorSeconds returns the processor time that this process has used, in seconds.
func processorSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// BenchmarkAsk answers a question from 10,000 runs and the published measurements over the whole catalogue: forty
// configurations, three or four quantities each, and the changes. "one prediction" is one quantity of one
// configuration, "learn" is the fit before all predictions. cpu-s/op is the processor time of an answer.
func BenchmarkAsk(b *testing.B) {
	offers, err := cost.Offers()
	if err != nil {
		b.Fatal(err)
	}
	entries := append(manyRuns(10_000), history.Published()...)
	learn := func(list []history.Entry) Predictor { return transfer.New(list, transfer.Options{}) }
	for name, job := range map[string]func(*history.Job){
		"known": func(j *history.Job) { *j = entries[7].Job },
		"new":   func(j *history.Job) { j.Model, j.Dataset, j.Family, j.Params = "net500", "imagenet", "family3", 7e6 },
	} {
		q := asking(func(q *Question) {
			job(&q.Job)
			q.Job.Epochs, q.Job.DataCount, q.Deadline = 30, 50_000, 12*time.Hour
			q.Machines = nil
			for _, o := range offers {
				q.Machines = append(q.Machines, machine{Offer: o})
			}
		})
		b.Run(name, func(b *testing.B) {
			before := processorSeconds(b)
			for b.Loop() {
				if _, err := Ask(q, entries, learn); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((processorSeconds(b)-before)/float64(b.N), "cpu-s/op")
		})
	}
	model := learn(entries)
	c := configuration{GPU: "A100 40GB", GPUs: 4, Nodes: 1, Batch: 128}
	b.Run("one prediction", func(b *testing.B) {
		for b.Loop() {
			if _, err := model.Predict(c.query(entries[7].Job), transfer.Throughput); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("learn", func(b *testing.B) {
		for b.Loop() {
			learn(entries)
		}
	})
}
