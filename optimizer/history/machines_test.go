package history

import (
	"os"
	"path/filepath"
	"testing"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// onTwoMachines is a run on two machines with four GPUs, eight CPUs and 32 GiB each; the machines cost $3 an hour each.
func onTwoMachines(change func(*journal.Record)) *journal.Record {
	return past(func(r *journal.Record) {
		each := resources.Allocation{GPUs: 4, CPUs: 8, Memory: 32, BatchSize: 512}
		r.Host = journal.Host{Host: resources.Host{CPUs: 8, GPUs: []resources.GPU{{Name: "NVIDIA H100 80GB HBM3"}}, Nodes: 2}}
		rates := cost.Rates{GPUHour: 0.5, CPUHour: 0.1, GiBHour: 0.01, Instance: 3, Source: "the test", Dated: "2026-02-01"}
		r.Prices = journal.Prices{Rates: rates.Times(2)}
		r.Plan = &journal.Plan{Plan: plan.Plan{Allocation: each, Planner: "model"}}
		r.Measured[0].Allocation = each
		if change != nil {
			change(r)
		}
	})
}

// TestRunOnSeveralMachines: the entries of a run on several machines have the amounts of all of them, the price of a single one, and
// the GPU and CPU counts of a log that counts those of one machine or of all.
func TestRunOnSeveralMachines(t *testing.T) {
	for name, c := range map[string]struct {
		logged     string // GPUs, CPUs; empty: no log
		gpus, cpus float64
	}{
		"without a log":         {"", 8, 16},
		"counts those of one":   {"4,8", 8, 16},
		"counts those of all":   {"8,16", 8, 16},
		"counts a whole node's": {"8,64", 8, 16},
		"fewer on each":         {"2,6", 4, 12},
		"none":                  {"0,8", 0, 16},
	} {
		t.Run(name, func(t *testing.T) {
			state, names := keep(t, onTwoMachines(nil))
			if c.logged != "" {
				if err := os.WriteFile(filepath.Join(journal.RunsDir(state), names[0], "log.csv"), []byte("epoch,gpu_count,cpu_count\n1,"+c.logged+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			db := opened(t, state)
			synced(t, db)
			entries := all(t, db, Filter{})
			if len(entries) != 2 {
				t.Fatalf("%d entries, want the run and its segment", len(entries))
			}
			for _, e := range entries {
				want := Config{GPU: cost.GPUModel("NVIDIA H100 80GB HBM3"), GPUs: 8, Nodes: 2, CPUs: 16, MemoryGiB: 64, Batch: 512}
				if e.Requested != want {
					t.Errorf("%s requested %+v, want %+v", e.ID, e.Requested, want)
				}
				if want.GPUs, want.CPUs = c.gpus, c.cpus; c.gpus == 0 {
					want.GPU = ""
				}
				if e.Observed != want {
					t.Errorf("%s observed %+v, want %+v", e.ID, e.Observed, want)
				}
				if rates := (cost.Rates{GPUHour: 0.5, CPUHour: 0.1, GiBHour: 0.01, Instance: 3, Source: "the test", Dated: "2026-02-01"}); e.Rates != rates {
					t.Errorf("%s costs %+v, want %+v", e.ID, e.Rates, rates)
				}
			}
		})
	}
}

// TestMemoryOfOneGPUOnEachMachine: samples.csv of a run with one GPU on each machine has the memory of that of the first.
func TestMemoryOfOneGPUOnEachMachine(t *testing.T) {
	state, names := keep(t, onTwoMachines(func(r *journal.Record) {
		r.Plan.Allocation.GPUs, r.Measured[0].Allocation.GPUs = 1, 1
	}))
	if err := os.WriteFile(filepath.Join(journal.RunsDir(state), names[0], "samples.csv"), []byte("time_s,gpu_memory_gib\n1,10\n2,31.5\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db := opened(t, state)
	synced(t, db)
	if runs := all(t, db, Filter{Kinds: []Kind{Run}}); len(runs) != 1 || runs[0].Observed.GPUs != 2 || runs[0].GPUMemoryGiB != 31.5 {
		t.Errorf("%+v, want two GPUs and 31.5 GiB of the fullest", runs)
	}
}

// TestSeveralMachinesWithoutAPlan: of a run that ended before it had a plan, the number of machines is known, by which its price counts.
func TestSeveralMachinesWithoutAPlan(t *testing.T) {
	state, _ := keep(t, onTwoMachines(func(r *journal.Record) { r.State, r.Plan, r.Measured = journal.Failed, nil, nil }))
	db := opened(t, state)
	synced(t, db)
	if runs := all(t, db, Filter{}); len(runs) != 1 || runs[0].Observed.Nodes != 2 || runs[0].Rates.Instance != 3 {
		t.Errorf("%+v, want two machines at $3", runs)
	}
}

// TestSeveralMachinesOfOlderFormat: a run that a database of format 2 contains with the amounts of one machine is read again.
func TestSeveralMachinesOfOlderFormat(t *testing.T) {
	state, names := keep(t, onTwoMachines(nil))
	age(t, state, names...)
	db := opened(t, state)
	synced(t, db)
	e := all(t, db, Filter{Kinds: []Kind{Run}})[0]
	e.Observed.GPUs, e.Rates.Instance = 4, 6
	if err := db.Put(e); err != nil {
		t.Fatal(err)
	}
	if _, err := db.sql.Exec("ALTER TABLE entries DROP COLUMN cpu_quota; PRAGMA user_version = 2"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = opened(t, state)
	synced(t, db)
	if runs := all(t, db, Filter{Kinds: []Kind{Run}}); len(runs) != 1 || runs[0].Observed.GPUs != 8 || runs[0].Rates.Instance != 3 {
		t.Errorf("%+v, want 8 GPUs on machines at $3", runs)
	}
}
