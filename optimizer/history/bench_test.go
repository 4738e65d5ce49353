package history

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/journal"
)

// manyRuns returns a state directory with n runs of 500 scripts, all of which ended long ago.
func manyRuns(b *testing.B, n int) string {
	b.Helper()
	state := b.TempDir()
	then := time.Now().Add(-24 * time.Hour)
	for i := range n {
		id := journal.NewRunID(then.Add(-time.Duration(n-i)*time.Minute), "train")
		rec := past(func(r *journal.Record) {
			r.RunID, r.Script.SHA256 = id, fmt.Sprint("script ", i%500)
			for range 40 {
				r.Measured[0].UnitSeconds = append(r.Measured[0].UnitSeconds, 0.5)
			}
			for j := range 20 {
				r.Warnings = append(r.Warnings, fmt.Sprintf("warning %d: %s", j, strings.Repeat("w", 80)))
			}
		})
		data, err := rec.Encode()
		if err != nil {
			b.Fatal(err)
		}
		dir := filepath.Join(journal.RunsDir(state), id)
		file := filepath.Join(dir, journal.RecordFile)
		if os.MkdirAll(dir, 0o755) != nil || os.WriteFile(file, data, 0o644) != nil || os.Chtimes(file, then, then) != nil {
			b.Fatal("cannot write the runs")
		}
	}
	return state
}

// BenchmarkRecall measures the delay that Recall adds to the start of a training with 10,000 earlier runs, 20 of them
// of its script: through the runs database (target: well under a second) and by reading every run. s-first-time is
// the duration of the first call, which fills the database. MiB-more is the growth of the peak resident memory of this
// process by each variant.
func BenchmarkRecall(b *testing.B) {
	state := manyRuns(b, 10000)
	key := asks(func(k *Key) { k.ScriptSHA256 = "script 7" })
	check := func(b *testing.B, got Recalled, notes []string) {
		if len(got.Runs) != maxRuns || len(notes) > 0 {
			b.Fatalf("%d runs, notes %q", len(got.Runs), notes)
		}
	}
	from := time.Now()
	got, notes := Recall(state, key)
	check(b, got, notes)
	first := time.Since(from).Seconds()
	before := peakMiB()
	report := func(b *testing.B) {
		b.ReportMetric(peakMiB()-before, "MiB-more")
		before = peakMiB()
	}
	b.Run("database", func(b *testing.B) {
		for b.Loop() {
			got, notes := Recall(state, key)
			check(b, got, notes)
		}
		b.ReportMetric(first, "s-first-time")
		report(b)
	})
	b.Run("directories", func(b *testing.B) {
		for b.Loop() {
			found, err := everyRun(state)
			got, notes := recall(found, key)
			if err != nil {
				b.Fatal(err)
			}
			check(b, got, notes)
		}
		report(b)
	})
}

// peakMiB returns the peak resident memory of this process so far.
func peakMiB() float64 {
	data, _ := os.ReadFile("/proc/self/status")
	_, rest, _ := strings.Cut(string(data), "VmHWM:")
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return 0
	}
	kib, _ := strconv.ParseFloat(fields[0], 64)
	return kib / 1024
}

// BenchmarkEntries reads a history of 10,000 runs with their probes.
func BenchmarkEntries(b *testing.B) {
	db := opened(b, manyRuns(b, 10000))
	if _, err := db.Sync(); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if got := all(b, db, Filter{}); len(got) != 20000 {
			b.Fatal(len(got))
		}
	}
}
