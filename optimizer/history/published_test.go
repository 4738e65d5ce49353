package history

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

const tables = "../../../shared/data"

// load reads the published tables, or skips the test if they are missing.
func load(t *testing.T) map[string]Entry {
	t.Helper()
	if _, err := os.Stat(tables); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the published tables are not at %s", tables)
	}
	entries, err := LoadPublished(tables)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Entry{}
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
	want := map[string]int{"elasticflow": 160, "gavel": 224, "mlperf-v4.1": 138, "mlperf-v5.0": 201, "pollux": 4665, "sia": 10971}
	if !maps.Equal(got, want) {
		t.Errorf("entries by source: got %v, want %v", got, want)
	}
}

func TestEveryEntryIsWhole(t *testing.T) {
	for id, e := range load(t) {
		checkEntry(t, id, e)
	}
}

// checkEntry verifies the fields that every entry must have.
func checkEntry(t *testing.T, id string, e Entry) {
	t.Helper()
	positive := func(x float64) bool { return x > 0 && !math.IsInf(x, 0) }
	if e.ID != id || e.Kind != Table || e.Source == "" || e.Job.Model == "" || e.Job.Family == "" || e.Job.Dataset == "" ||
		e.Observed.GPU == "" || !positive(e.Observed.GPUs) || e.Observed.Nodes < 1 || !positive(e.Observed.Batch) || !positive(e.UnitTime) {
		t.Errorf("%s: %+v", id, e)
	}
	if positive(e.Throughput) == positive(e.Seconds) {
		t.Errorf("%s: throughput %g, seconds %g: want one of them", id, e.Throughput, e.Seconds)
	}
	if d, known := Peaks()[e.Observed.GPU]; !known && e.Observed.GPU != "azure (unnamed)" || d.TFLOPS == 0 && known {
		t.Errorf("%s: peaks of %q: %+v", id, e.Observed.GPU, d)
	}
	if e.Observed.GPUs < float64(e.Observed.Nodes) {
		t.Errorf("%s: %g GPUs on %d nodes", id, e.Observed.GPUs, e.Observed.Nodes)
	}
}

// TestKnownFigures compares figures quoted in the descriptions of the tables, and one per source read by hand.
func TestKnownFigures(t *testing.T) {
	entries := load(t)
	perSecond := map[string]float64{
		"elasticflow/bert/a100/1/g64":  6.030661553957379 * 64,
		"elasticflow/bert/a100/8/g64":  11.0601732061343 * 64,
		"elasticflow/bert/a100/64/g64": 9.24585886691227 * 64,
		"pollux/bert/t4/1x1/b6":        6 / 0.5693899691104889,
		"sia/bert/quad/1x1/b4":         4 / 0.2128133624792099,
		"sia/bert/dgx/1x1/b8":          8 / 0.15174007415771484,
		// rates of Gavel are summed over the GPUs
		"gavel/resnet50/p100/1x1/b64": 2.6188 * 64,
		"gavel/resnet50/p100/4x1/b64": 10.3647 * 64,
	}
	for id, want := range perSecond {
		if e := entries[id]; math.Abs(e.Throughput/want-1) > 1e-3 {
			t.Errorf("%s: %g samples/s, want %g", id, e.Throughput, want)
		}
	}
	minutes := map[string]float64{
		"mlperf-v4.1/llama2_70b_lora/NVIDIA/eos_ngc24.09_nemo":           27.9284, // 8 H100
		"mlperf-v4.1/llama2_70b_lora/NVIDIA/eos_n8_ngc24.09_nemo":        4.5732,  // 64
		"mlperf-v4.1/llama2_70b_lora/NVIDIA/eos_n128_ngc24.09_nemo":      1.1842,  // 1024
		"mlperf-v5.0/llama2_70b_lora/NVIDIA/nyx_n1_ngc25.04_nemo":        11.2371, // 8 B200
		"mlperf-v5.0/llama2_70b_lora/NVIDIA/tyche_ngpu8_ngc25.04_nemo":   11.1446, // 8 GB200
		"mlperf-v5.0/llama2_70b_lora/NVIDIA/tyche_ngpu72_ngc25.04_nemo":  1.6632,
		"mlperf-v5.0/llama2_70b_lora/Oracle/18xBM.GPU.GB200.4":           1.5859,
		"mlperf-v5.0/llama2_70b_lora/NVIDIA/tyche_ngpu512_ngc25.04_nemo": 0.5603,
	}
	for id, want := range minutes {
		if e := entries[id]; math.Abs(e.Seconds/60-want) > 1e-9 {
			t.Errorf("%s: %g minutes, want %g", id, e.Seconds/60, want)
		}
	}
}

// TestEntryInFull compares all fields of one entry of each kind.
func TestEntryInFull(t *testing.T) {
	entries := load(t)
	e := entries["sia/bert/rtx/4x2/b12"]
	want := NewEntry(Table, "sia/bert/rtx/4x2/b12")
	want.Source = "Sia (SOSP 2023), measured step times, siasosp23/artifacts sia-simulator @ aaf7a0de7b6cb5eab06ea020467ede5d2fd18e70, no licence"
	want.Job.Framework, want.Job.Model, want.Job.Family, want.Job.Dataset, want.Job.Params, want.Job.Layers = "pytorch", "bert", "bert", "squad", 110e6, 12
	want.Observed.GPU, want.Observed.GPUs, want.Observed.Nodes, want.Observed.Batch, want.Observed.Machine = "RTX 2080 Ti", 8, 2, 96, "sia:rtx"
	want.Unit, want.UnitTime, want.UnitCount, want.UnitSpread, want.Throughput = "step", e.UnitTime, e.UnitCount, e.UnitSpread, 96/e.UnitTime
	if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", want); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}

	e = entries["mlperf-v5.0/llama2_70b_lora/Dell/1xXE9680Lx8B200-SXM-180GB"]
	if e.Units != 1 || e.Unit != "training" || e.Observed.GPU != "B200" || e.Observed.Batch != 8 || e.Observed.Machine != "1xXE9680Lx8B200-SXM-180GB" ||
		e.Job.Framework != "pytorch" || e.UnitCount != 10 || !(e.UnitSpread > 0) || !math.IsNaN(e.Throughput) {
		t.Errorf("MLPerf: %+v", e)
	}
}

func TestMeasurementsAreToldOnce(t *testing.T) {
	for id := range load(t) {
		if part := strings.Split(id, "/"); part[0] == "sia" && (part[2] == "aws" || part[1] == "ncf" && part[2] == "dgx-ext") {
			t.Errorf("%s is the same measurement as one of another table", id)
		}
	}
}

func TestIrregularCurves(t *testing.T) {
	entries := load(t)
	irregular := IrregularCurves(slices.Collect(maps.Values(entries)))
	for id, want := range map[string]bool{
		"gavel/resnet18/v100/1x1/b16": true, "gavel/lm/v100/8x1/b80": true, "gavel/transformer/v100/2x1/b64": true,
		"gavel/resnet18/p100/1x1/b16": false, "gavel/resnet50/v100/8x1/b128": false,
	} {
		if _, there := entries[id]; !there || irregular[id] != want {
			t.Errorf("%s (%v): irregular %v, want %v", id, there, irregular[id], want)
		}
	}
	if len(irregular) != 13*4 {
		t.Errorf("%d entries in irregular curves, want 13 curves of 4", len(irregular))
	}
}
