package analysis

import (
	"cmp"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/resources"
)

// TestUnknownWorkIsNotCompared: runs of unknown trainings are the same work only if they come from one source.
func TestUnknownWorkIsNotCompared(t *testing.T) {
	unnamed := func(id, source string, unit float64) history.Entry {
		return ran(id, "", 1, 8, 10, unit, func(e *history.Entry) { e.Kind, e.State, e.Source, e.Job.Dataset = history.Log, "", source, "" })
	}
	for name, c := range map[string]struct {
		change  func(first, second *history.Entry)
		configs int // compared in the group of the first
		says    bool
	}{
		"two logs":          {nil, 1, true},
		"one log":           {func(_, b *history.Entry) { b.Source = "/a/results.csv" }, 2, false},
		"same name":         {func(_, b *history.Entry) { b.Source = "/b/results.csv" }, 1, true},
		"same data set":     {func(a, b *history.Entry) { a.Job.Dataset, b.Job.Dataset = "coco", "coco" }, 2, false},
		"same script":       {func(a, b *history.Entry) { a.Job.ScriptSHA256, b.Job.ScriptSHA256 = "abc", "abc" }, 2, false},
		"other script":      {func(a, b *history.Entry) { a.Job.ScriptSHA256, b.Job.ScriptSHA256 = "abc", "abd" }, 1, false},
		"one model known":   {func(_, b *history.Entry) { b.Job.Model = "yolo" }, 1, false},
		"both models known": {func(a, b *history.Entry) { a.Job.Model, b.Job.Model = "yolo", "yolo" }, 2, false},
	} {
		a, b := unnamed("a", "/a/results.csv", 100), unnamed("b", "/a/events.out.tfevents.1", 12)
		b.Observed.CPUs = 4
		if c.change != nil {
			c.change(&a, &b)
		}
		r := analyze([]history.Entry{a, b}, Options{})
		if got := r.Models[0].Best[0].Configs; got != c.configs {
			t.Errorf("%s: %d configurations compared, want %d", name, got, c.configs)
		}
		if says := strings.Contains(fmt.Sprint(r.Notes), "not compared with each other"); says != c.says {
			t.Errorf("%s: notes %q", name, r.Notes)
		}
	}
}

// TestNoteOnTrainingsOfOneName: parameters are said to differ only if they do.
func TestNoteOnTrainingsOfOneName(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		params float64
		want   string // in the note; empty: no note
	}{
		"same":              {"a", 25e6, ""},
		"other script":      {"b", 25e6, ": 2 scripts: not surely the same training"},
		"other size":        {"a", 50e6, ": 1 script with parameters that differ by a factor of 2.00: not surely"},
		"other of unknown":  {"b", math.NaN(), ": 2 scripts: not surely the same training"},
		"other script, big": {"b", 50e6, ": 2 scripts with parameters that differ by a factor of 2.00: not surely"},
	} {
		entry := func(id, script string, params float64) history.Entry {
			return ran(id, "resnet50", 1, 16, 20, 100, func(e *history.Entry) { e.Job.ScriptSHA256, e.Job.Params = script, params })
		}
		report := analyze([]history.Entry{entry("1", "a", 25e6), entry("2", c.script, c.params)}, Options{})
		found := slices.ContainsFunc(report.Notes, func(n string) bool { return strings.Contains(n, cmp.Or(c.want, "not surely")) })
		if found != (c.want != "") {
			t.Errorf("%s: notes %q, want %q", name, report.Notes, c.want)
		}
	}
}

// TestRunOnSeveralMachinesIsPricedOnce: the record of a run on two machines of $3 an hour has their common price.
func TestRunOnSeveralMachinesIsPricedOnce(t *testing.T) {
	each := resources.Allocation{GPUs: 4, CPUs: 8, Memory: 32}
	units := cost.Rates{GPUHour: 0.5, CPUHour: 0.1, Source: "the test", Dated: "2026-02-01"}
	machine := units
	machine.Instance = 3
	for name, c := range map[string]struct {
		rates           cost.Rates // of one machine
		hourly, gpuPart float64
	}{"by machine": {machine, 6, 4}, "by unit": {units, 5.6, 4}} {
		t.Run(name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			dir, err := journal.Create(state, journal.NewRunID(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC), "train"))
			if err != nil {
				t.Fatal(err)
			}
			rec := journal.NewRecord()
			rec.RunID, rec.State, rec.Outcome.Seconds = dir.ID(), journal.Done, 3600
			rec.Host = journal.Host{Host: resources.Host{CPUs: 8, GPUs: []resources.GPU{{Name: "Tesla T4"}}, Nodes: 2}}
			rec.Prices = journal.Prices{Rates: c.rates.Times(2)}
			rec.Plan = &journal.Plan{Plan: plan.Plan{Allocation: each, Planner: "model"}}
			if err := dir.WriteRecord(rec); err != nil {
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
			entries, err := db.Entries(history.Filter{})
			if err != nil || len(entries) != 1 {
				t.Fatalf("%d entries, %v", len(entries), err)
			}
			r := newRun(entries[0], nil)
			if !near(r.HourUSD, c.hourly) || !near(r.GPUShare, c.gpuPart/c.hourly) || r.On.GPUs != 8 {
				t.Errorf("$%v an hour for %v GPUs, %v for GPUs; want $%v for 8, %v", r.HourUSD, r.On.GPUs, r.GPUShare, c.hourly, c.gpuPart/c.hourly)
			}
		})
	}
}
