package history

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

var eightCPUs = resources.Allocation{CPUs: 8, Memory: 16}

// past returns a measured run: train.py with two arguments on eight CPUs and one GPU, 0.5 s per epoch.
func past(change func(*journal.Record)) *journal.Record {
	rec := journal.NewRecord()
	rec.State = journal.Done
	rec.Script.SHA256 = "abc"
	rec.Command = []string{"/usr/bin/python3", "/jobs/train.py", "--lr", "0.1"}
	rec.Host = journal.Host{Host: resources.Host{CPUs: 8, GPUs: []resources.GPU{{Name: "H100"}}}}
	rec.Measured = []journal.Probe{{Allocation: eightCPUs, UnitSeconds: []journal.Number{0.5, 0.5}, UnitSamples: 100, PeakMemoryGiB: 3}}
	rec.Training.TotalUnits, rec.Training.Unit = 40, "epoch"
	rec.Overheads = journal.Overheads{StartupSeconds: []journal.Number{2}, RestartSeconds: []journal.Number{3}}
	rec.Outcome.Seconds, rec.Outcome.CostUSD = 22, 0.5
	if change != nil {
		change(rec)
	}
	return rec
}

// asks returns the key of the same training.
func asks(change func(*Key)) Key {
	k := Key{ScriptSHA256: "abc", Command: []string{"/opt/conda/bin/python3", "/jobs/train.py", "--lr", "0.1"}, CPUs: 8, GPUs: []string{"H100"}}
	if change != nil {
		change(&k)
	}
	return k
}

// keep writes runs into a state directory, one minute apart, and returns it with their names.
func keep(t *testing.T, records ...*journal.Record) (string, []string) {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state")
	var ids []string
	for i, rec := range records {
		run, err := journal.Create(state, journal.NewRunID(time.Date(2026, 3, 1, 12, i, 0, 0, time.UTC), "train"))
		if err != nil {
			t.Fatal(err)
		}
		rec.RunID = run.ID()
		if err := run.WriteRecord(rec); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, run.ID())
	}
	return state, ids
}

// TestRecallMatches requires that only measurements of the same work on the same kind of machine are recalled.
func TestRecallMatches(t *testing.T) {
	for name, c := range map[string]struct {
		rec  func(*journal.Record)
		key  func(*Key)
		want bool
	}{
		"the same, by another path of the interpreter": {nil, nil, true},
		"another script":           {func(r *journal.Record) { r.Script.SHA256 = "def" }, nil, false},
		"no script at all":         {func(r *journal.Record) { r.Script.SHA256 = "" }, func(k *Key) { k.ScriptSHA256 = "" }, false},
		"another learning rate":    {func(r *journal.Record) { r.Command[3] = "0.2" }, nil, true},
		"another argument":         {func(r *journal.Record) { r.Command[2] = "--width" }, nil, false},
		"one argument more":        {func(r *journal.Record) { r.Command = append(r.Command, "--big") }, nil, false},
		"another interpreter":      {func(r *journal.Record) { r.Command[0] = "/usr/bin/pypy3" }, nil, false},
		"another data set":         {func(r *journal.Record) { r.Handed.Dataset = "/data/b" }, func(k *Key) { k.Handed.Dataset = "/data/a" }, false},
		"the same data set":        {func(r *journal.Record) { r.Handed.Dataset = "/data/a" }, func(k *Key) { k.Handed.Dataset = "/data/a" }, true},
		"fewer CPUs":               {func(r *journal.Record) { r.Host.CPUs = 4 }, nil, false},
		"another GPU":              {func(r *journal.Record) { r.Host.GPUs[0].Name = "A100" }, nil, false},
		"no GPU":                   {func(r *journal.Record) { r.Host.GPUs = nil }, nil, false},
		"a described machine":      {func(r *journal.Record) { r.Host.Described = "aws:x" }, nil, false},
		"that described machine":   {func(r *journal.Record) { r.Host.Described = "aws:x" }, func(k *Key) { k.Described = "aws:x" }, true},
		"any machine will do":      {func(r *journal.Record) { r.Host.CPUs = 4 }, func(k *Key) { k.AnyMachine = true }, true},
		"any machine, not any job": {func(r *journal.Record) { r.Command[2] = "--width" }, func(k *Key) { k.AnyMachine = true }, false},
		"two machines":             {func(r *journal.Record) { r.Host.Nodes = 2 }, nil, false},
		"two machines, as now":     {func(r *journal.Record) { r.Host.Nodes = 2 }, func(k *Key) { k.Nodes = 2 }, true},
		"any machine, not any two": {func(r *journal.Record) { r.Host.Nodes = 2 }, func(k *Key) { k.AnyMachine = true }, false},
		"failed, but measured":     {func(r *journal.Record) { r.State = journal.Failed }, nil, true},
		"stopped, but measured":    {func(r *journal.Record) { r.State = journal.Stopped }, nil, true},
		"still running":            {func(r *journal.Record) { r.State = journal.Running }, nil, false},
		"nothing was timed":        {func(r *journal.Record) { r.Measured[0].UnitSeconds = nil }, nil, false},
		"timed as unknown":         {func(r *journal.Record) { r.Measured[0].UnitSeconds = []journal.Number{journal.Unknown(), 0} }, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			state, ids := keep(t, past(c.rec))
			got, _ := Recall(state, asks(c.key))
			if found := slices.Equal(got.Runs, ids); found != c.want {
				t.Errorf("recalled %v of %v, want %t", got.Runs, ids, c.want)
			}
			total := c.want || strings.Contains(name, "timed") // a length requires no timing
			if len(got.Observations) > 0 != c.want || math.IsNaN(got.PeakMemoryGiB) == c.want || (got.Total == 40) != total {
				t.Errorf("recalled %+v, want %t", got, c.want)
			}
		})
	}
}

// TestRecallExcept requires that the current run is not part of its own history.
func TestRecallExcept(t *testing.T) {
	state, ids := keep(t, past(nil), past(nil))
	got, _ := Recall(state, asks(func(k *Key) { k.ExcludeRun = ids[1] }))
	if !slices.Equal(got.Runs, ids[:1]) || len(got.Observations) != 1 {
		t.Errorf("recalled %v of %v, want the first alone", got.Runs, ids)
	}
}

// TestRecallWhat covers the recalled measurements, newest first, and the total for the requested length.
func TestRecallWhat(t *testing.T) {
	state, ids := keep(t,
		past(func(r *journal.Record) { r.Measured[0].PeakMemoryGiB = 5 }),
		past(func(r *journal.Record) { r.Handed.Epochs, r.Training.TotalUnits = 7, 7 }),
		past(func(r *journal.Record) {
			r.State = journal.Failed
			r.Training.TotalUnits = journal.Unknown()
			r.Measured[0].PeakMemoryGiB, r.Measured[0].UnitSamples = journal.Unknown(), journal.Unknown()
			r.Measured[0].UnitSeconds = []journal.Number{0.7, journal.Unknown(), 0.9}
		}))
	got, notes := Recall(state, asks(nil))
	if want := []string{ids[2], ids[1], ids[0]}; !slices.Equal(got.Runs, want) || len(notes) != 0 {
		t.Fatalf("recalled %v with notes %q, want %v", got.Runs, notes, want)
	}
	if got.Total != 40 || got.Unit != "epoch" {
		t.Errorf("%g %ss of work, want 40 epochs: by a run of that length which says so", got.Total, got.Unit)
	}
	if o := got.Observations[0]; !slices.Equal(o.UnitSeconds, []float64{0.7, 0.9}) || o.UnitSamples != 0 || !math.IsNaN(o.PeakMemoryGiB) || !o.Recalled || !o.Allocation.Same(eightCPUs) {
		t.Errorf("observation %+v of the newest", o)
	}
	if got.PeakMemoryGiB != 5 {
		t.Errorf("peak memory %g GiB, want the largest, 5", got.PeakMemoryGiB)
	}
	if len(got.Baselines) != 1 || got.Baselines[0].Time != 22*time.Second || got.Baselines[0].CostUSD != 0.5 {
		t.Errorf("baselines %+v, want the one run that finished the same length", got.Baselines)
	}
	if !slices.Equal(got.StartupSeconds, []float64{2, 2, 2}) || !slices.Equal(got.RestartSeconds, []float64{3, 3, 3}) {
		t.Errorf("start-ups %v, restarts %v", got.StartupSeconds, got.RestartSeconds)
	}
}

// TestRecallLiveCut requires that measurements under a live CPU cut are kept apart from launches with that number of
// CPUs; a run without others contributes no pace.
func TestRecallLiveCut(t *testing.T) {
	cut := journal.Blank[journal.Probe]()
	cut.Allocation, cut.UnitSeconds, cut.PeakMemoryGiB, cut.LiveCut = resources.Allocation{CPUs: 2, Memory: 16}, []journal.Number{9, 9}, 4, true
	state, ids := keep(t,
		past(func(r *journal.Record) { r.Measured = append(r.Measured, cut) }),
		past(func(r *journal.Record) { r.Measured = []journal.Probe{cut} }))
	got, _ := Recall(state, asks(nil))
	if !slices.Equal(got.Runs, ids[:1]) {
		t.Errorf("recalled %v of %v: want the first alone, the second ran cut live only", got.Runs, ids)
	}
	var cuts []bool
	for _, o := range got.Observations {
		cuts = append(cuts, o.LiveCut)
	}
	if want := []bool{true, false, true}; !slices.Equal(cuts, want) {
		t.Errorf("live cuts %v, want %v", cuts, want)
	}
	if got.PeakMemoryGiB != 4 {
		t.Errorf("peak memory %g GiB, want 4: that of a live cut counts", got.PeakMemoryGiB)
	}
	db := opened(t, state)
	synced(t, db)
	for _, e := range all(t, db, Filter{Kinds: []Kind{Run, Probe}}) {
		if e.UnitTime > 1 || e.Observed.CPUs == 2 && !math.IsNaN(e.UnitTime) {
			t.Errorf("%s: %g CPUs with %g s a unit: a cut made live is no configuration", e.ID, e.Observed.CPUs, e.UnitTime)
		}
	}
}

// TestRecallNewest requires the newest runs of all trainings in the result, so that a start opens the database once.
func TestRecallNewest(t *testing.T) {
	state, ids := keep(t, past(nil), past(func(r *journal.Record) { r.Script.SHA256 = "other" }))
	got, _ := Recall(state, asks(nil))
	var newest []string
	for _, e := range got.Newest {
		newest = append(newest, e.ID)
	}
	slices.Sort(newest)
	if !slices.Equal(newest, ids) {
		t.Errorf("newest %v, want all of %v", newest, ids)
	}
}

// TestRecallBounds requires that runs beyond maxRuns are not read.
func TestRecallBounds(t *testing.T) {
	var all []*journal.Record
	for range maxRuns + 3 {
		all = append(all, past(nil))
	}
	state, ids := keep(t, all...)
	got, _ := Recall(state, asks(nil))
	if len(got.Runs) != maxRuns || got.Runs[0] != ids[len(ids)-1] {
		t.Errorf("recalled %d runs from %v, want the newest %d", len(got.Runs), got.Runs, maxRuns)
	}
}

// TestRecallSweep requires that the start of a run reads a bounded number of the records of a sweep, the newest, and that records
// of other scripts do not count.
func TestRecallSweep(t *testing.T) {
	reads := 0
	run := func(change func(*journal.Record)) earlier {
		return earlier{id: "earlier", read: func() (*journal.Record, error) {
			reads++
			return past(change), nil
		}}
	}
	width := func(i int) func(*journal.Record) {
		return func(r *journal.Record) {
			r.RunID, r.Command = fmt.Sprint("width ", i), append(slices.Clone(r.Command), "--width", fmt.Sprint(i))
		}
	}
	var sweep, others []earlier
	for i := range 5000 {
		sweep = append(sweep, run(width(i)))
	}
	key := asks(func(k *Key) { k.Command = append(slices.Clone(k.Command), "--width", "100") })
	got, _ := recall(sweep, key)
	if reads > maxUnused+1 || !slices.Equal(got.Runs, []string{"width 100"}) || len(got.Similar) != maxSimilar {
		t.Errorf("%d records read for runs %v and %d similar ones; want at most %d, the run of this width and %d", reads, got.Runs, len(got.Similar), maxUnused+1, maxSimilar)
	}
	reads = 0
	on := asks(func(k *Key) { k.CPUs = 16 })
	if recall(sweep, on); reads > maxUnused {
		t.Errorf("%d records of another machine read, want at most %d", reads, maxUnused)
	}
	for i := range 2 * maxUnused {
		others = append(others, run(func(r *journal.Record) { r.Script.SHA256 = fmt.Sprint("script ", i) }))
	}
	if got, _ := recall(append(others, run(nil)), asks(nil)); len(got.Runs) != 1 {
		t.Errorf("recalled %v, want the run behind those of other scripts", got.Runs)
	}
	for range maxRecurrences + 10 {
		others = append(others, run(func(r *journal.Record) { r.Exit = &journal.Exit{Reason: "exited"} }))
	}
	if got, _ := recall(others, asks(nil)); len(got.Recurrences) != maxRecurrences {
		t.Errorf("%d recurrences, want %d", len(got.Recurrences), maxRecurrences)
	}
}

// TestRecallNothing requires that a missing directory or an unreadable run is treated as no history, not as an error.
func TestRecallNothing(t *testing.T) {
	got, notes := Recall(filepath.Join(t.TempDir(), "absent"), asks(nil))
	if len(got.Runs) != 0 || len(notes) != 0 || !math.IsNaN(got.PeakMemoryGiB) {
		t.Errorf("%+v, notes %q", got, notes)
	}
	state, ids := keep(t, past(nil), past(nil))
	if err := os.WriteFile(filepath.Join(state, "runs", ids[1], journal.RecordFile), []byte(`{"schema": 1, "state`), 0o644); err != nil {
		t.Fatal(err)
	}
	got, notes = Recall(state, asks(nil))
	if !slices.Equal(got.Runs, ids[:1]) {
		t.Errorf("recalled %v, want the run that can be read", got.Runs)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], ids[1]) || strings.Contains(notes[0], "\n") {
		t.Errorf("notes %q, want one that names the run that was left out", notes)
	}
}

// TestRecallRecurrences covers finished runs of the same length and those that may have failed because of their batch
// size, oldest first and beyond maxRuns.
func TestRecallRecurrences(t *testing.T) {
	ended := func(state journal.State, reason string, batch int) func(*journal.Record) {
		return func(r *journal.Record) {
			r.State, r.Exit = state, &journal.Exit{Reason: reason}
			r.Outcome.Seconds, r.Outcome.CostUSD, r.Outcome.EnergyJoules = journal.Number(batch), 0.5, journal.Unknown()
			r.Plan = &journal.Plan{Plan: plan.Plan{Allocation: resources.Allocation{CPUs: 2, BatchSize: batch}}}
		}
	}
	with := func(f, also func(*journal.Record)) func(*journal.Record) {
		return func(r *journal.Record) { f(r); also(r) }
	}
	records := []*journal.Record{
		past(ended(journal.Done, "exited", 1)),
		past(with(ended(journal.Done, "exited", 2), func(r *journal.Record) { r.Measured = nil })),
		past(with(ended(journal.Done, "exited", 3), func(r *journal.Record) { r.Plan = nil; r.Training.BatchSize = 64 })),
		past(with(ended(journal.Done, "exited", 4), func(r *journal.Record) { r.Handed.Epochs = 9 })),
		past(ended(journal.Stopped, "budget", 5)),
		past(ended(journal.Failed, "oom", 6)),
		past(ended(journal.Stopped, "user", 7)),
		past(ended(journal.Failed, "exited", 8)),
		past(with(ended(journal.Done, "exited", 9), func(r *journal.Record) { r.Script.SHA256 = "def" })),
	}
	for range maxRuns {
		records = append(records, past(ended(journal.Done, "exited", 10)))
	}
	state, _ := keep(t, records...)
	found, _ := Recall(state, asks(nil))
	if len(found.Recurrences) != 5+maxRuns || len(found.Runs) != maxRuns {
		t.Fatalf("%d recurrences and %d runs, want %d and %d: %+v", len(found.Recurrences), len(found.Runs), 5+maxRuns, maxRuns, found.Recurrences)
	}
	for i, want := range []plan.Recurrence{
		{Allocation: resources.Allocation{CPUs: 2, BatchSize: 1}, Seconds: 1, Reached: true},
		{Allocation: resources.Allocation{CPUs: 2, BatchSize: 2}, Seconds: 2, Reached: true},
		{Allocation: resources.Allocation{CPUs: 8, BatchSize: 64}, Seconds: 3, Reached: true},
		{Allocation: resources.Allocation{CPUs: 2, BatchSize: 5}, Seconds: 5},
		{Allocation: resources.Allocation{CPUs: 2, BatchSize: 6}, Seconds: 6},
	} {
		got := found.Recurrences[i]
		if !got.Allocation.SameShape(want.Allocation) || got.Seconds != want.Seconds || got.Reached != want.Reached || got.USD != 0.5 || !math.IsNaN(got.Joules) {
			t.Errorf("recurrence %d: %+v, want %+v for $0.5", i, got, want)
		}
	}
}
