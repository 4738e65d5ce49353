package analysis

import (
	"fmt"
	"strings"
	"testing"

	"trainopt/optimizer/history"
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
