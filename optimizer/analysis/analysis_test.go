package analysis

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/sla"
)

var update = flag.Bool("update", false, "write the golden files again")

// a100 prices a GPU at $2 and a CPU at 5 cents, for simple arithmetic.
var a100 = cost.Rates{GPUHour: 2, CPUHour: .05, Source: "a price list", Dated: "2026-03-01"}

// ran is a finished run of a model with the given GPUs, CPUs, epochs and steady-state seconds per epoch; 10 s of
// start-up, 50,000 samples per epoch.
func ran(id, model string, gpus, cpus, epochs, unit float64, change func(*history.Entry)) history.Entry {
	e := history.NewEntry(history.Run, id)
	e.At = time.Date(2026, 4, 1, 8, 0, 0, 0, time.UTC)
	e.Job.Model, e.Job.Dataset, e.Job.DataCount, e.Job.Params = model, "cifar10", 50_000, 25e6
	e.Observed.GPUs, e.Observed.CPUs, e.Observed.Batch, e.Observed.MemoryGiB = gpus, cpus, 256, 64
	if gpus > 0 {
		e.Observed.GPU = "A100 40GB"
		e.GPUUtil, e.GPUMemoryGiB = 80, 12
	}
	e.State, e.Reason = "done", "exited"
	e.Unit, e.Units, e.UnitTime = "epoch", epochs, unit
	e.Seconds = 10 + epochs*unit
	e.Throughput = 50_000 / unit
	e.Rates, e.CPUUtil, e.PeakMemoryGiB = a100, 60, 9
	e.CostUSD = e.Seconds / 3600 * (2*gpus + .05*cpus)
	if change != nil {
		change(&e)
	}
	return e
}

// fleet is the input of the golden files: a model that scales, one that does not, a CPU job with failed runs, and a
// log in two segments with few fields.
func fleet() []history.Entry {
	var list []history.Entry
	for i, unit := range []float64{100, 104, 97} {
		list = append(list, ran(fmt.Sprintf("resnet-1-%d", i), "resnet50", 1, 16, 20, unit, nil))
	}
	for i, unit := range []float64{54, 52} {
		list = append(list, ran(fmt.Sprintf("resnet-2-%d", i), "resnet50", 2, 16, 15, unit, nil))
	}
	list = append(list, ran("resnet-4-0", "resnet50", 4, 16, 20, 29, func(e *history.Entry) { e.EnergyJoules = 2.4e6 }))
	for i, gpus := range []float64{1, 4} {
		list = append(list, ran(fmt.Sprintf("vit-%d", i), "vit", gpus, 8, 10, 200-float64(i)*8, func(e *history.Entry) {
			e.At = e.At.Add(24 * time.Hour)
			e.GPUUtil, e.CPUUtil = 38-20*float64(i), 97
		}))
	}
	for i, state := range []string{"done", "failed", "stopped"} {
		list = append(list, ran(fmt.Sprintf("mlp-%d", i), "mlp", 0, 8, 5, 12, func(e *history.Entry) {
			e.State = state
			if state == "failed" {
				e.Reason, e.Units, e.Seconds, e.CostUSD = "oom", 2, 36, .004
			}
		}))
	}
	probe := ran("resnet-4-0/probe-1", "resnet50", 8, 16, 1, 18, nil)
	probe.Kind, probe.Parent = history.Probe, "resnet-4-0"
	list = append(list, probe)
	log := history.NewEntry(history.Log, "abc")
	log.Source, log.Job.Model, log.Unit, log.Units, log.Seconds, log.Rows, log.Bad = "old.csv", "gru", "epoch", 6, 57, 6, 1
	list = append(list, log)
	for i := range 2 {
		e := history.NewEntry(history.Log, fmt.Sprintf("abc/%d", i+1))
		e.Parent, e.Source, e.Job.Model, e.Unit, e.Units, e.Seconds, e.UnitTime = "abc", "old.csv", "gru", "epoch", 3, 30, 10-float64(i)
		e.Observed.CPUs, e.Observed.GPUs = float64(4*(i+1)), 0
		list = append(list, e)
	}
	return list
}

func analyze(entries []history.Entry, o Options) *Report {
	a := New(o)
	a.AddEntries(entries)
	return a.Analyze()
}

func render(t *testing.T, r *Report, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Render(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

var strict = sla.Spec{TimeMax: 20 * time.Minute, CostMaxUSD: 2, ThroughputMin: 400, GPUUtilMinPct: 50}

func TestGolden(t *testing.T) {
	r := analyze(fleet(), Options{Limits: strict})
	for format, file := range map[string]string{"text": "fleet.txt", "csv": "fleet.csv", "json": "fleet.json"} {
		path := filepath.Join("testdata", file)
		got := render(t, r, format)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (-update writes it again):\n%s", format, path, got)
		}
	}
}

func TestTextFitsATerminal(t *testing.T) {
	entries := fleet()
	entries[0].Job.Model = strings.Repeat("a-very-long-name-of-a-model-", 6)
	entries[0].ID = strings.Repeat("x", 150)
	for i, line := range strings.Split(render(t, analyze(entries, Options{Limits: strict}), "text"), "\n") {
		if n := utf8.RuneCountInString(line); n > 100 {
			t.Errorf("line %d has %d columns: %s", i+1, n, line)
		}
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line %d ends in blanks", i+1)
		}
	}
}
