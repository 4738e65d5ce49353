package history

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/resources"
)

var onEightCPUs = resources.Allocation{CPUs: 8}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestRecall covers the observations from logs of several formats, and the notes on missing columns.
func TestRecall(t *testing.T) {
	type seen struct {
		gpus, cpus int
		seconds    []float64
		samples    float64
		peak       float64 // 0: unknown
	}
	for name, c := range map[string]struct {
		file, text string
		aliases    map[string]string
		want       []seen
		notes      []string
	}{
		"our own columns": {"a.csv", "epoch,epoch_time,cpu_count,gpu_count,data_count,memory_used_gb\n1,9,4,1,500,2\n2,5,4,1,500,2.5\n3,6,4,1,500,2.4\n", nil,
			[]seen{{1, 4, []float64{5, 6}, 500, 2.5}}, nil},
		"two allocations in one": {"a.csv", "epoch,epoch_time,cpu_count\n1,9,4\n2,5,4\n3,8,2\n4,7,2\n", nil,
			[]seen{{2, 4, []float64{5}, 0, 0}, {2, 2, []float64{7}, 0, 0}}, nil},
		"a single row is not only warm-up": {"a.csv", "epoch,epoch_time,cpu_count\n1,9,4\n", nil, []seen{{2, 4, []float64{9}, 0, 0}}, nil},
		"ultralytics: a running time, no allocation": {"results.csv", "  epoch,   time, train/box_loss\n  1,  12,  1.5\n  2,  20,  1.3\n  3,  29,  1.2\n", nil,
			[]seen{{2, 8, []float64{9}, 0, 0}}, []string{"does not record cpu_count"}},
		"a running time that began again": {"a.csv", "epoch,elapsed_s,cpu_count\n1,10,4\n2,20,4\n1,9,4\n2,18,4\n", nil, []seen{{2, 4, []float64{9}, 0, 0}}, nil},
		"keras: no times":                 {"history.csv", "epoch,accuracy,loss,val_loss\n0,0.8,0.5,0.4\n1,0.9,0.4,0.3\n", nil, nil, []string{"no column with the time of an epoch"}},
		"json lines": {"a.jsonl", `{"epoch": 1, "epoch_time": 9, "cpu_count": 4}` + "\n" + `{"epoch": 2, "epoch_time": 5, "cpu_count": 4}` + "\n", nil,
			[]seen{{2, 4, []float64{5}, 0, 0}}, nil},
		"the user's names": {"a.csv", "epoch,dauer,kerne\n1,9,4\n2,5,4\n", map[string]string{"dauer": "epoch_time", "kerne": "cpu_count"}, []seen{{2, 4, []float64{5}, 0, 0}}, nil},
		"steps":            {"a.csv", "step,time_so_far,cpu_count,batch_size\n1,9,4,32\n2,14,4,32\n3,20,4,32\n", nil, []seen{{2, 4, []float64{6}, 32, 0}}, nil},
		"timestamps":       {"a.csv", "timestamp,epoch,cpu_count\n2025-07-01 10:00:00,1,4\n2025-07-01 10:00:05,2,4\n2025-07-01 10:00:11,3,4\n", nil, []seen{{2, 4, []float64{6}, 0, 0}}, nil},
		"bad rows":         {"a.csv", "epoch,epoch_time,cpu_count\n1,9,4\nrubbish\n2,5,4\n", nil, []seen{{2, 4, []float64{5}, 0, 0}}, []string{"1 of 3 rows skipped"}},
		"impossible times": {"a.csv", "epoch,epoch_time,cpu_count\n1,9,4\n2,0,4\n3,inf,4\n4,nan,4\n5,5,4\n", nil, []seen{{2, 4, []float64{5}, 0, 0}}, nil},
		"empty":            {"a.csv", "", nil, nil, []string{"no data in it"}},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, c.file, c.text)
			found := RecallLogs([]string{path}, LogOptions{Aliases: c.aliases}, resources.Allocation{GPUs: 2, GPUIDs: []string{"a", "b"}, CPUs: 8})
			got, notes := found.Observations, found.Notes
			if len(got) != len(c.want) {
				t.Fatalf("%d observations %+v, want %d; notes %q", len(got), got, len(c.want), notes)
			}
			for i, o := range got {
				w := c.want[i]
				if o.Allocation.GPUs != w.gpus || o.Allocation.CPUs != w.cpus || !slices.EqualFunc(o.UnitSeconds, w.seconds, func(a, b float64) bool { return math.Abs(a-b) < 1e-9 }) || o.UnitSamples != w.samples || !o.Recalled {
					t.Errorf("observation %d: %+v, want %+v", i, o, w)
				}
				if math.IsNaN(o.PeakMemoryGiB) != (w.peak == 0) || w.peak > 0 && o.PeakMemoryGiB != w.peak {
					t.Errorf("peak memory %g GiB, want %g (0: unknown)", o.PeakMemoryGiB, w.peak)
				}
			}
			for _, want := range c.notes {
				if !slices.ContainsFunc(notes, func(n string) bool { return strings.Contains(n, want) && strings.Contains(n, path) }) {
					t.Errorf("notes %q, want one of %s with %q", notes, path, want)
				}
			}
			if len(c.notes) == 0 && len(notes) > 0 {
				t.Errorf("notes %q, want none", notes)
			}
		})
	}
}

// TestRecallSeveral requires that a missing log does not prevent reading the others.
func TestRecallSeveral(t *testing.T) {
	a := write(t, "a.csv", "epoch,epoch_time,cpu_count,total_epochs\n1,9,4,12\n2,5,4,12\n")
	b := write(t, "b.csv", "epoch,epoch_time,cpu_count\n29,9,2\n30,8,2\n")
	absent := filepath.Join(t.TempDir(), "absent.csv")
	found := RecallLogs([]string{a, absent, b}, LogOptions{}, onEightCPUs)
	got, notes := found.Observations, found.Notes
	if len(got) != 2 || got[0].Allocation.CPUs != 4 || got[1].Allocation.CPUs != 2 {
		t.Errorf("observations %+v, want one of each log", got)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "absent.csv") {
		t.Errorf("notes %q, want one on the log that is absent", notes)
	}
	for want, paths := range map[float64][]string{12: {a}, 30: {a, absent, b}, 0: {absent}} {
		if n := RecallLogs(paths, LogOptions{}, onEightCPUs).Epochs; n != want {
			t.Errorf("%g epochs in %v, want %g", n, paths, want)
		}
	}
}
