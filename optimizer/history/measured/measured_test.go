package measured

import (
	"errors"
	"io/fs"
	"maps"
	"math"
	"os"
	"strings"
	"testing"

	"trainopt/optimizer/history"
)

const tables = "../../../../shared/data"

// load reads the published tables, or skips the test.
func load(t *testing.T) map[string]history.Entry {
	t.Helper()
	if _, err := os.Stat(tables); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the published tables are not at %s", tables)
	}
	entries, err := Load(tables)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]history.Entry{}
	for _, e := range entries {
		out[e.ID] = e
	}
	if len(out) != len(entries) {
		t.Fatalf("%d entries, %d ids", len(entries), len(out))
	}
	return out
}

func TestLoadCounts(t *testing.T) {
	got := map[string]int{}
	for id := range load(t) {
		source, _, _ := strings.Cut(id, "/")
		got[source]++
	}
	want := map[string]int{"elasticflow": 169, "gavel": 224, "mlperf-v4.1": 147, "mlperf-v5.0": 201, "pollux": 4665, "sia": 10971}
	if !maps.Equal(got, want) {
		t.Errorf("entries by source: got %v, want %v", got, want)
	}
}

func TestEveryEntryIsWhole(t *testing.T) {
	for id, e := range load(t) {
		checkEntry(t, id, e)
	}
}

func checkEntry(t *testing.T, id string, e history.Entry) {
	t.Helper()
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	if e.ID != id || e.Kind != history.Table || e.Source == "" || e.Job.Model == "" || e.Job.Family == "" || e.Job.Dataset == "" ||
		e.Observed.GPU == "" || !positive(e.Observed.GPUs) || e.Observed.Nodes < 1 || !positive(e.Observed.Batch) || !positive(e.UnitTime) {
		t.Errorf("%s: %+v", id, e)
	}
	if positive(e.Throughput) == positive(e.Seconds) {
		t.Errorf("%s: throughput %g, seconds %g: want one of them", id, e.Throughput, e.Seconds)
	}
	if e.Observed.GPUs < float64(e.Observed.Nodes) {
		t.Errorf("%s: %g GPUs on %d nodes", id, e.Observed.GPUs, e.Observed.Nodes)
	}
}
