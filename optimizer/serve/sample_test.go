package serve

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// WriteRuns writes n ended runs into a state directory, oldest first, and returns their ids: a third each finished, stopped by
// the budget and failed, of four scripts. The last ten have samples and training rows.
func WriteRuns(t testing.TB, stateDir string, n int) []string {
	t.Helper()
	ids := make([]string, n)
	for i := range n {
		started := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(i) * time.Minute)
		script := []string{"resnet", "bert", "unet", "digits"}[i%4]
		ids[i] = fmt.Sprintf("%s-%s-%06x", started.Format("20060102-150405"), script, i)
		dir := filepath.Join(journal.RunsDir(stateDir), ids[i])
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		data, err := sampleRun(i, ids[i], script, started).Encode()
		if err != nil {
			t.Fatal(err)
		}
		writeSample(t, filepath.Join(dir, journal.RecordFile), string(data))
		if i >= n-10 {
			sampleTables(t, dir, i)
		}
	}
	return ids
}

func sampleRun(i int, id, script string, started time.Time) *journal.Record {
	r := journal.NewRecord()
	end := started.Add(time.Duration(60+i%600) * time.Second)
	code := 0
	r.RunID, r.Name, r.Script.Path, r.StartedAt, r.FinishedAt, r.ExitCode = id, script, script+".py", started, &end, &code
	r.Command, r.Seed, r.Preference = []string{"python3", script + ".py", "--lr", fmt.Sprint(0.1 / float64(1+i%3))}, int64(i%5), plan.Preference{Time: 1}
	r.State, r.Exit = journal.Done, &journal.Exit{Code: &code, Reason: "exited"}
	switch i % 3 {
	case 1:
		r.State, r.Exit = journal.Stopped, &journal.Exit{Reason: "budget", Detail: "checkpoint saved"}
	case 2:
		one := 1
		r.State, r.Exit = journal.Failed, &journal.Exit{Code: &one, Reason: "exited"}
	}
	r.Training.Unit, r.Training.TotalUnits = "epoch", 40
	o := &r.Outcome
	o.Epochs, o.Seconds, o.CostUSD = journal.Number(40-13*(i%3)), journal.Number(60+i%600), journal.Number(0.001*float64(1+i%977))
	o.Throughput, o.CPUUtil, o.PeakMemoryGiB = journal.Number(100+i%50), journal.Number(30+i%60), journal.Number(0.5+float64(i%7))
	r.Training.TrainLoss, r.Training.TestAccuracy = journal.Number(0.1+0.01*float64(i%9)), journal.Number(0.8+0.01*float64(i%9))
	r.SLA.Spec = sla.Spec{CostMaxUSD: 0.5, TimeMax: 10 * time.Minute}
	spent, met := float64(o.CostUSD), sla.Met
	if spent > 0.5 {
		met = sla.Violated
	}
	r.SLA.Verdicts = []sla.Verdict{{Objective: sla.Cost, Limit: 0.5, Value: &spent, Unit: "USD", Status: met}}
	a := resources.Allocation{CPUs: 1 + i%4, Memory: resources.GiB(2 * (1 + i%4))}
	r.Plan = &journal.Plan{Plan: plan.Plan{Allocation: a, Planner: "model", Reason: "the fastest of 4 allowed allocations", Binding: "none"}, AtS: 5}
	for c := 1; c <= 4; c++ {
		s, usd := 600/float64(c)+20, 0.05+0.02*float64(c)
		r.Plan.Candidates = append(r.Plan.Candidates, plan.Candidate{Allocation: resources.Allocation{CPUs: c, Memory: resources.GiB(2 * c)},
			Seconds: sla.Interval{P5: .9 * s, P50: s, P95: 1.1 * s}, CostUSD: sla.Interval{P5: .9 * usd, P50: usd, P95: 1.1 * usd}, Resource: float64(c) / 4, Feasible: true, OnFront: true, Chance: 1})
	}
	r.Plan.Prediction = &journal.Prediction{AtS: 5, Seconds: r.Plan.Candidates[0].Seconds, CostUSD: r.Plan.Candidates[0].CostUSD, Throughput: sla.Interval{P5: 90, P50: 100, P95: 110}}
	r.Waste.Restarts, r.Waste.Failed = journal.Number(0.0001*float64(i%11)), 0
	if r.State == journal.Failed {
		r.Waste.Failed = o.CostUSD
	}
	return r
}

func sampleTables(t testing.TB, dir string, i int) {
	t.Helper()
	var samples, training strings.Builder
	samples.WriteString("time_s,cpus,memory_gib,tree_cpu_percent,tree_memory_gib,cost_usd,projected_s,projected_cost_usd,projected_s_p5,projected_s_p95,units,throughput\n")
	training.WriteString("time_s,epoch,train_loss,test_accuracy,throughput,cost_usd\n")
	for k := range 120 {
		at, f := float64(k), float64(k)/120
		fmt.Fprintf(&samples, "%g,2,4,%g,%g,%g,%g,%g,%g,%g,%d,%d\n", at, 150+20*math.Sin(at), 1+f, .001*at, 118+4*f, .12, 100+18*f, 150-28*f, k/3, 100+i%5)
		if k%3 == 0 {
			fmt.Fprintf(&training, "%g,%d,%g,%g,%d,%g\n", at, k/3+1, 2/(1+at/float64(20+i%7)), 1-1/(1+at/30), 100+i%5, .001*at)
		}
	}
	writeSample(t, filepath.Join(dir, "samples.csv"), samples.String())
	writeSample(t, filepath.Join(dir, "performance_metrics.csv"), training.String())
	writeSample(t, filepath.Join(dir, "job.stdout"), "epoch 1 of 40\nepoch 2 of 40\n")
	writeSample(t, filepath.Join(dir, "job.stderr"), "")
}

func writeSample(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// HoldRun locks a run, as its agent does, so that its stream continues, until the test or leave ends it.
func HoldRun(t testing.TB, stateDir, id string) (leave func()) {
	t.Helper()
	run, err := journal.Open(filepath.Join(journal.RunsDir(stateDir), id))
	if err != nil {
		t.Fatal(err)
	}
	leave, err = run.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(leave)
	return leave
}
