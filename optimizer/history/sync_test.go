package history

import (
	"bytes"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
	"trainopt/sla"
)

// age sets the modification time of records far into the past, so that Sync trusts it.
func age(t testing.TB, state string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		then := time.Now().Add(-time.Hour)
		if err := os.Chtimes(filepath.Join(journal.RunsDir(state), id, journal.RecordFile), then, then); err != nil {
			t.Fatal(err)
		}
	}
}

func synced(t *testing.T, db *DB) []string {
	t.Helper()
	notes, err := db.Sync()
	if err != nil {
		t.Fatal(err)
	}
	return notes
}

// rewrite changes the record of a run.
func rewrite(t *testing.T, state, id string, change func(*journal.Record)) {
	t.Helper()
	run, err := journal.Open(filepath.Join(journal.RunsDir(state), id))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := journal.ReadRecord(run.Dir())
	if err != nil {
		t.Fatal(err)
	}
	change(rec)
	if err := run.WriteRecord(rec); err != nil {
		t.Fatal(err)
	}
}

// TestSync requires that new runs are added, changed ones read again, deleted ones removed, and unfinished ones left
// out.
func TestSync(t *testing.T) {
	state, names := keep(t, past(nil), past(func(r *journal.Record) { r.State = journal.Running }), past(func(r *journal.Record) { r.State = journal.Failed }))
	db := opened(t, state)
	own := NewEntry(Log, "imported")
	if err := db.Put(own); err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want ...string) {
		t.Helper()
		want = append(want, "imported")
		if got := ids(all(t, db, Filter{})); !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	first, second, third := names[0], names[1], names[2]
	synced(t, db)
	expect("at first", first, first+"/probe-1", third, third+"/probe-1")

	rewrite(t, state, second, func(r *journal.Record) { r.State, r.Measured = journal.Done, nil })
	synced(t, db)
	expect("when the second has ended", first, first+"/probe-1", second, third, third+"/probe-1")

	rewrite(t, state, first, func(r *journal.Record) { r.State = journal.Running })
	if err := journal.Remove(filepath.Join(journal.RunsDir(state), third)); err != nil {
		t.Fatal(err)
	}
	synced(t, db)
	expect("when the first was resumed and the third removed", second)

	if err := os.RemoveAll(journal.RunsDir(state)); err != nil {
		t.Fatal(err)
	}
	synced(t, db)
	expect("without any run directory")
}

// TestSyncReadsOnce requires that unchanged records are not read again, except for those written too recently for
// their modification time to prove it.
func TestSyncReadsOnce(t *testing.T) {
	state, names := keep(t, past(nil))
	record := filepath.Join(journal.RunsDir(state), names[0], journal.RecordFile)
	db := opened(t, state)
	rewriteInPlace := func() { // same size, same modification time
		st, _ := os.Stat(record)
		rewrite(t, state, names[0], func(r *journal.Record) { r.Outcome.CostUSD = 0.7 })
		if err := os.Chtimes(record, st.ModTime(), st.ModTime()); err != nil {
			t.Fatal(err)
		}
	}
	money := func() float64 { return all(t, db, Filter{Kinds: []Kind{Run}})[0].CostUSD }
	synced(t, db)
	rewriteInPlace()
	if synced(t, db); money() != 0.7 {
		t.Errorf("a record that was written twice within a moment: $%g, want the later $0.7", money())
	}
	age(t, state, names[0])
	synced(t, db)
	if err := os.WriteFile(record, []byte(strings.Repeat("x", int(size(t, record)))), 0o644); err != nil {
		t.Fatal(err)
	}
	age(t, state, names[0])
	st, _ := os.Stat(record)
	if _, err := db.sql.Exec("UPDATE runs SET modified_ns = ?, checksum = ?", st.ModTime().UnixNano(), checksum((&runDirState{names[0], st.ModTime().UnixNano(), st.Size(), "abc", ""}).row())); err != nil {
		t.Fatal(err)
	}
	if notes := synced(t, db); len(notes) != 0 || money() != 0.7 {
		t.Errorf("a record of the same time and size was read again: $%g, notes %q", money(), notes)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return st.Size()
}

// TestSyncUnreadable requires a note for a run with a truncated or altered record on every Sync, entries for the others,
// and an entry once the record is whole again.
func TestSyncUnreadable(t *testing.T) {
	for name, damage := range map[string]func([]byte) []byte{
		"truncated": func(b []byte) []byte { return b[:100] },
		"altered":   func(b []byte) []byte { return bytes.Replace(b, []byte(`"seed": 0`), []byte(`"seed": 1`), 1) },
	} {
		t.Run(name, func(t *testing.T) { testSyncUnreadable(t, damage) })
	}
}

func testSyncUnreadable(t *testing.T, damage func([]byte) []byte) {
	state, names := keep(t, past(nil), past(nil))
	record := filepath.Join(journal.RunsDir(state), names[1], journal.RecordFile)
	whole, _ := os.ReadFile(record)
	if err := os.WriteFile(record, damage(whole), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(journal.RunsDir(state), "20260301-130000-just-starting"), 0o755); err != nil {
		t.Fatal(err)
	}
	age(t, state, names...)
	db := opened(t, state)
	for range 2 {
		if notes := synced(t, db); len(notes) != 1 || !strings.Contains(notes[0], names[1]) || strings.Contains(notes[0], "\n") {
			t.Errorf("notes %q, want one that names %s", notes, names[1])
		}
		if got := ids(all(t, db, Filter{Kinds: []Kind{Run}})); !slices.Equal(got, names[:1]) {
			t.Errorf("runs %v, want %v", got, names[:1])
		}
	}
	if err := os.WriteFile(record, whole, 0o644); err != nil {
		t.Fatal(err)
	}
	if notes := synced(t, db); len(notes) != 0 || len(all(t, db, Filter{Kinds: []Kind{Run}})) != 2 {
		t.Errorf("mended: notes %q", notes)
	}
}

// TestRunEntries maps a record, its log and its samples to the fields of the entries.
func TestRunEntries(t *testing.T) {
	word := func(s string) *string { return &s }
	four := resources.Allocation{GPUs: 4, GPUIDs: []string{"u2"}, CPUs: 16, Memory: 64, BatchSize: 256}
	one := resources.Allocation{GPUs: 1, GPUIDs: []string{"u2"}, CPUs: 8, Memory: 32, BatchSize: 256}
	probe := journal.Blank[journal.Probe]()
	probe.Allocation, probe.Rows, probe.Seconds, probe.CostUSD, probe.UnitSeconds, probe.UnitSamples = four, 3, 30, 0.1, []journal.Number{5, 7}, 1000
	probe.InJob = true
	rest := probe
	rest.Allocation, rest.Rows, rest.Seconds, rest.UnitSeconds, rest.PeakMemoryGiB = one, 9, 200, []journal.Number{20, 20, 20}, 12
	started := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	state, names := keep(t, past(func(r *journal.Record) {
		r.StartedAt, r.State, r.Exit = started, journal.Stopped, &journal.Exit{Reason: "budget"}
		r.Host = journal.Host{Host: resources.Host{CPUs: 16, GPUs: []resources.GPU{{UUID: "u1", Name: "Tesla T4"}, {UUID: "u2", Name: "NVIDIA A100-SXM4-40GB"}}, Described: "aws:p4d.24xlarge"}}
		r.Script.Path, r.Script.Framework, r.Script.Model = "/jobs/train.py", word("pytorch"), word("cnn")
		r.Training.Model, r.Training.ModelParams, r.Training.BatchSize, r.Training.TestAccuracy = word("ResNet50"), 25e6, 128, 0.8
		r.Handed = journal.Handed{Epochs: 40, Dataset: "/data/cifar10"}
		r.Measured, r.Probes = []journal.Probe{probe, rest}, []journal.Probe{probe}
		r.Prices = journal.Prices{Rates: cost.Rates{GPUHour: 2, CPUHour: 0.03, GiBHour: 0.004, Source: "the test", Dated: "2026-02-01"}}
		r.Plan = &journal.Plan{Plan: plan.Plan{Allocation: four, Planner: "model"}, Prediction: &journal.Prediction{Seconds: sla.Interval{P5: 90, P50: 100, P95: 120}, CostUSD: sla.Interval{P5: 1, P50: 2, P95: 3}}}
		r.Outcome.Seconds, r.Outcome.CostUSD, r.Outcome.Epochs, r.Outcome.Restarts, r.Outcome.Throughput = 240, 0.9, 32, 1, 50
		r.Outcome.FromUnits = 20
		r.Log.Rows, r.Log.BadRows = 12, 2
	}))
	dir := filepath.Join(journal.RunsDir(state), names[0])
	for file, text := range map[string]string{
		"log.csv":     "time_s,epoch,cpu_count,gpu_count,batch_size\n1,1,99,4,256\n9,12,99,1,64\n10,13,1",
		"samples.csv": "time_s,gpu_memory_gib\n1,10\n2,31.5\n3,\n4,30\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	db := opened(t, state)
	synced(t, db)
	entries := all(t, db, Filter{})
	if got := ids(entries); !slices.Equal(got, []string{names[0] + "/probe-2", names[0] + "/probe-1", names[0]}) {
		t.Fatalf("entries %v: the probe is among the measured stretches and counts once", got)
	}
	second, first, run := entries[0], entries[1], entries[2]
	n := math.NaN()
	want := NewEntry(Run, names[0])
	want.Source, want.At, want.State, want.Reason, want.Unit = dir, started, "stopped", "budget", "epoch"
	want.Job = Job{Script: "/jobs/train.py", ScriptSHA256: "abc", Framework: "pytorch", Model: "ResNet50", Family: "resnet", Dataset: "/data/cifar10",
		Params: 25e6, Layers: n, DataCount: n, DataSizeMB: n, Epochs: 40}
	want.Requested = Config{GPU: "A100 40GB", GPUs: 4, Nodes: 1, CPUs: 16, MemoryGiB: 64, Batch: 256, Machine: "aws:p4d.24xlarge"}
	want.Observed = Config{GPU: "A100 40GB", GPUs: 1, Nodes: 1, CPUs: 8, MemoryGiB: 32, Batch: 64, Machine: "aws:p4d.24xlarge"}
	want.Seconds, want.Units, want.Rows, want.Bad, want.Restarts, want.Throughput, want.CostUSD = 240, 12, 12, 2, 1, 50, 0.9
	want.UnitTime, want.UnitSpread, want.UnitCount, want.Startup, want.Restart = 20, 0, 3, 2, 3
	want.GPUMemoryGiB, want.TestAccuracy = 31.5, 0.8
	want.Rates = cost.Rates{GPUHour: 2, CPUHour: 0.03, GiBHour: 0.004, Source: "the test", Dated: "2026-02-01"}
	want.Predicted = &forecast{Seconds: sla.Interval{P5: 90, P50: 100, P95: 120}, CostUSD: sla.Interval{P5: 1, P50: 2, P95: 3}, Throughput: sla.Interval{P5: n, P50: n, P95: n}, Planner: "model"}
	if !sameEntry(run, want) {
		t.Errorf("run\n got %+v, predicted %+v\nwant %+v", run, run.Predicted, want)
	}
	if first.Parent != names[0] || first.Observed.GPUs != 4 || first.Observed.Batch != 128 || first.UnitTime != 6 || first.Rows != 3 || first.CostUSD != 0.1 || first.Job != run.Job && first.Job.Model != "ResNet50" {
		t.Errorf("the probe: %+v", first)
	}
	if second.Parent != names[0] || second.Observed.GPUs != 1 || second.PeakMemoryGiB != 12 || second.UnitTime != 20 || second.Predicted != nil {
		t.Errorf("the rest: %+v", second)
	}
}

// TestFactorOfOlderRuns: runs that a database of format 1 contains have the factor of their prediction after the next
// sync; imported logs are kept, from a damaged file, too.
func TestFactorOfOlderRuns(t *testing.T) {
	for name, damage := range map[string]string{"sound": "PRAGMA user_version = 1", "damaged": "PRAGMA user_version = 1; DROP TABLE runs"} {
		t.Run(name, func(t *testing.T) {
			state, names := keep(t, past(func(r *journal.Record) {
				r.Measured = nil
				r.Plan = &journal.Plan{Plan: plan.Plan{Planner: "model"}, Prediction: &journal.Prediction{Seconds: sla.Interval{P5: 90, P50: 100, P95: 120}}}
				r.Model = &journal.Model{Params: map[string]journal.Number{"widen": 1.5}}
			}))
			age(t, state, names...)
			db := opened(t, state)
			synced(t, db)
			e := all(t, db, Filter{})[0]
			if err := db.Put(NewEntry(Log, "imported")); err != nil {
				t.Fatal(err)
			}
			e.Predicted.Widen = 0
			_, sum := rowOf(e)
			if _, err := db.sql.Exec("UPDATE entries SET checksum = ? WHERE id = ?", sum, e.ID); err != nil {
				t.Fatal(err)
			}
			if _, err := db.sql.Exec("ALTER TABLE entries DROP COLUMN predicted_widen; ALTER TABLE entries DROP COLUMN cpu_quota; " + damage); err != nil {
				t.Fatal(err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			db, notes, err := Open(state)
			if err != nil || len(notes) > 0 != (name == "damaged") {
				t.Fatalf("%v, notes %q", err, notes)
			}
			defer db.Close()
			synced(t, db)
			if got := ids(all(t, db, Filter{Kinds: []Kind{Log}})); !slices.Equal(got, []string{"imported"}) {
				t.Errorf("logs %v, notes %q; want the imported one", got, notes)
			}
			if runs := all(t, db, Filter{Kinds: []Kind{Run}}); len(runs) != 1 || runs[0].Predicted.Widen != 1.5 {
				t.Errorf("runs %+v; want one with the factor 1.5", runs)
			}
		})
	}
}

// TestUnitsOfARun: the work of a run is that which it did; the total counts only if that is not known of a finished one.
func TestUnitsOfARun(t *testing.T) {
	n := journal.Unknown()
	for name, c := range map[string]struct {
		state         journal.State
		unit          string
		epochs, steps journal.Number
		want          float64
	}{
		"steps, ended early":     {journal.Done, "step", n, 400, 400},
		"steps, stopped":         {journal.Stopped, "step", n, 400, 400},
		"epochs, ended early":    {journal.Done, "epoch", 9, n, 9},
		"not known":              {journal.Done, "step", n, n, 10_000},
		"not known, and stopped": {journal.Stopped, "step", n, n, math.NaN()},
		"no unit, nothing known": {journal.Done, "", n, n, math.NaN()},
		"failed before a step":   {journal.Failed, "step", n, 0, 0},
	} {
		rec := past(func(r *journal.Record) {
			r.State, r.Training.Unit, r.Training.TotalUnits, r.Outcome.Epochs, r.Outcome.Steps = c.state, c.unit, 10_000, c.epochs, c.steps
		})
		if got := runEntries("r", t.TempDir(), rec)[0].Units; got != c.want && !(math.IsNaN(got) && math.IsNaN(c.want)) {
			t.Errorf("%s: %g units, want %g", name, got, c.want)
		}
	}
}

// TestRemember requires that Remember keeps its time limit and reports an unusable database as a note.
func TestRemember(t *testing.T) {
	state, names := keep(t, past(nil))
	if notes := SyncStateDir(state, time.Minute); len(notes) != 0 {
		t.Errorf("notes %q", notes)
	}
	db := opened(t, state)
	if got := ids(all(t, db, Filter{Kinds: []Kind{Run}})); !slices.Equal(got, names) {
		t.Errorf("remembered %v, want %v", got, names)
	}
	tx, err := db.sql.Begin()
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback()
	rewrite(t, state, names[0], func(r *journal.Record) { r.Outcome.CostUSD = 1 })
	from := time.Now()
	notes := SyncStateDir(state, 300*time.Millisecond)
	if took := time.Since(from); took > time.Minute {
		t.Errorf("took %s, want 300 ms and the pauses of a busy machine", took)
	}
	if len(notes) > 1 {
		t.Errorf("notes %q while another writes, want one at most", notes)
	}
}

// TestSharedRunsWithoutAnswer: a project on a file system that does not answer delays the start by sharedWithin, and costs only its
// own runs, as one does whose runs cannot be read.
func TestSharedRunsWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		defer close(over)
		from := time.Now()
		list, notes := sharedRuns([]string{"a", "dead", "b", "broken"}, func(dir string) stateRuns {
			switch dir {
			case "dead":
				<-over
			case "broken":
				panic("unexpected")
			}
			return stateRuns{found: []earlier{{id: "of " + dir}}}
		})
		if len(list) != 2 || list[0].found[0].elsewhere != "a" || list[1].found[0].id != "of b" {
			t.Errorf("%+v, want the runs of a and b", list)
		}
		if len(notes) != 2 || !strings.Contains(notes[0], "dead") || !strings.Contains(notes[0], "did not answer") || !strings.Contains(notes[1], "broken") {
			t.Errorf("notes %q", notes)
		}
		if took := time.Since(from); took != sharedWithin {
			t.Errorf("took %s, want %s", took, sharedWithin)
		}
	})
}

// TestContendedUse: the use of CPUs that other programs used as well is no evidence of what a training needs.
func TestContendedUse(t *testing.T) {
	for taken, known := range map[float64]bool{0: true, 0.1: true, 1.4: false} {
		rec := past(func(r *journal.Record) {
			r.Outcome.CPUUtil, r.Outcome.TakenCPUs = 30, taken
			r.Measured[0].CPUUtil, r.Measured[0].TakenCPUs = 30, taken
		})
		for _, e := range runEntries("r", t.TempDir(), rec) {
			if got := e.CPUUtil == 30; got != known {
				t.Errorf("%s, %g CPUs used by others: use %g %%", e.Kind, taken, e.CPUUtil)
			}
		}
	}
}
