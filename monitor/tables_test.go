package monitor

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"trainopt/monitor/trainlog"
)

func TestTablesOfARun(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "runs", "r1")
	tables, err := OpenTables(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, table := range tables.All() {
		first := table.columns[0]
		if err := table.Append(Values{first: 1.5}); err != nil {
			t.Error(err)
		}
		seen := map[string]bool{}
		for _, c := range table.columns {
			if seen[c] || c == "" {
				t.Errorf("%s has column %q twice", table.path, c)
			}
			seen[c] = true
		}
	}
	if err := tables.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"samples", "log", "rl_metrics", "allocation_history", "reward_components", "sla_metrics", "pareto_front", "performance_metrics", "optimization_metrics"} {
		rows := readTable(t, filepath.Join(dir, name+".csv"))
		if len(rows) != 2 || rows[1][0] != "1.5" && name != "optimization_metrics" {
			t.Errorf("%s.csv has %q", name, rows)
		}
	}
}

// Every column that a sample or a training row fills exists in its table, and survives a round trip.
func TestTablesTakeSamplesAndRows(t *testing.T) {
	dir := t.TempDir()
	tables, err := OpenTables(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := NoSample(time.Unix(1, 0))
	s.Tree.Procs = 3
	s.GPUs = []GPUSample{{UtilPercent: 50, MemoryGiB: 1, PowerW: 100, EnergyJ: math.NaN()}, {UtilPercent: 70, MemoryGiB: 2, PowerW: 110, EnergyJ: 5}}
	if err := tables.Samples.Append(s.Values()); err != nil {
		t.Error(err)
	}
	rows, _, err := trainlog.ReadLog("trainlog/testdata/formats/csv.csv", trainlog.TailOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range rows {
		v := rows[i].Values()
		v["time_s"] = i
		if err := tables.Log.Append(v); err != nil {
			t.Error(err)
		}
	}
	tables.Close()
	sample := readTable(t, filepath.Join(dir, "samples.csv"))
	got := map[string]string{}
	for i, name := range sample[0] {
		got[name] = sample[1][i]
	}
	want(t, "sample", []string{got["procs"], got["gpu_util_percent"], got["gpu_memory_gib"], got["gpu_power_w"], got["gpu_energy_j"], got["host_cpu_percent"]},
		[]string{"3", "60", "3", "210", "", ""})
	back, stats, err := trainlog.ReadLog(filepath.Join(dir, "log.csv"), trainlog.TailOptions{})
	if err != nil || stats.Bad+stats.Noted > 0 {
		t.Fatalf("our own log.csv: %v, %+v", err, stats)
	}
	for i := range rows {
		rows[i].Line, back[i].Line = 0, 0
		for len(back[i].GPUUtil) > 0 && math.IsNaN(back[i].GPUUtil[len(back[i].GPUUtil)-1]) {
			back[i].GPUUtil = back[i].GPUUtil[:len(back[i].GPUUtil)-1]
		}
		for len(rows[i].GPUUtil) > 0 && math.IsNaN(rows[i].GPUUtil[len(rows[i].GPUUtil)-1]) {
			rows[i].GPUUtil = rows[i].GPUUtil[:len(rows[i].GPUUtil)-1]
		}
		want(t, "row", back[i].Values(), rows[i].Values())
	}
}

func TestWriteExtended(t *testing.T) {
	dir := t.TempDir()
	if err := WriteExtended(dir); !errors.Is(err, ErrNoData) {
		t.Errorf("without a log: %v", err)
	}
	tables, err := OpenTables(dir)
	if err != nil {
		t.Fatal(err)
	}
	for i, at := range []float64{5, 10, 15, 30} {
		if err := tables.Log.Append(Values{"time_s": at, "epoch": i + 1, "model_name": `net "a", 2 layers`}); err != nil {
			t.Fatal(err)
		}
	}
	if err := WriteExtended(dir); err != nil {
		t.Fatal(err)
	}
	for i, at := range []float64{10, 20, 29.5} {
		err := tables.RL.Append(Values{"time_s": at, "action": i, "state": []float64{1, math.NaN(), 0.1}, "action_description": "a, b"})
		if err != nil {
			t.Fatal(err)
		}
	}
	tables.Close()
	f, _ := os.OpenFile(filepath.Join(dir, "log.csv"), os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString("40,7,") // a crash
	f.Close()
	if err := WriteExtended(dir); err != nil {
		t.Fatal(err)
	}
	rows := readTable(t, filepath.Join(dir, "extended.csv"))
	want(t, "columns", len(rows[0]), 1+len(trainlog.TableColumns())+len(rlColumns))
	epoch, action, state := slices.Index(rows[0], "epoch"), slices.Index(rows[0], "rl_action"), slices.Index(rows[0], "rl_state")
	got := []string{}
	for _, r := range rows[1:] {
		got = append(got, r[epoch]+":"+r[action])
	}
	want(t, "epoch:action", got, []string{"1:", "2:0", "3:0", "4:2"})
	want(t, "state", rows[4][state], "1 nan 0.1")
	want(t, "model", rows[4][slices.Index(rows[0], "model_name")], `net "a", 2 layers`)
	left, _ := filepath.Glob(filepath.Join(dir, ".*"))
	want(t, "temporary files", len(left), 0)
}
