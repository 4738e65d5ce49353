package predict

import (
	"path/filepath"
	"testing"
	"time"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// TestRunOnSeveralMachines: a run on two machines of four GPUs predicts its own throughput there.
func TestRunOnSeveralMachines(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	run, err := journal.Create(state, journal.NewRunID(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "train"))
	if err != nil {
		t.Fatal(err)
	}
	const samples = 2400.0 // a second
	model, each := "resnet50", resources.Allocation{GPUs: 4, CPUs: 32, Memory: 256, BatchSize: 1024}
	rec := journal.NewRecord()
	rec.RunID, rec.State = run.ID(), journal.Done
	rec.Script.SHA256 = "abc"
	rec.Training.Model, rec.Training.Unit, rec.Training.TotalUnits = &model, "epoch", 10
	rec.Host = journal.Host{Host: resources.Host{CPUs: 32, Nodes: 2}}
	for range each.GPUs {
		rec.Host.GPUs = append(rec.Host.GPUs, resources.GPU{Name: "Tesla T4"})
	}
	rec.Plan = &journal.Plan{Plan: plan.Plan{Allocation: each, Planner: "model"}}
	rec.Measured = []journal.Probe{{Allocation: each, UnitSeconds: []journal.Number{10, 10, 10, 10}, UnitSamples: 10 * samples, Throughput: samples}}
	rec.Outcome.Throughput, rec.Outcome.Seconds = samples, 100
	if err := run.WriteRecord(rec); err != nil {
		t.Fatal(err)
	}
	db, _, err := history.Open(state)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Sync(); err != nil {
		t.Fatal(err)
	}
	entries, err := db.Entries(history.Filter{Kinds: []history.Kind{history.Run}})
	if err != nil || len(entries) != 1 {
		t.Fatalf("%d entries, %v", len(entries), err)
	}
	c := configuration{GPU: "T4", GPUs: 4, Nodes: 2, Batch: 1024}
	got, err := transfer.New(entries, transfer.Options{}).Predict(c.query(entries[0].Job), transfer.Throughput)
	if err != nil || !near(got.Value.P50, samples, 0.05) {
		t.Errorf("%+v, %v; want %g samples/s", got.Value, err, samples)
	}
}

// TestBusyCPUsOfSeveralMachines: a machine needs the CPUs that were busy on each of several machines.
func TestBusyCPUsOfSeveralMachines(t *testing.T) {
	e := ran("r1", 10, 1)
	e.Observed.CPUs, e.Observed.Nodes, e.CPUUtil = 32, 2, 50
	if got := leastCPUs(&Question{}, []history.Entry{e}); got != 8 {
		t.Errorf("%g CPUs, want 8", got)
	}
}
