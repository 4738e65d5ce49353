package cluster

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"
)

// sweepSource contains the published values as extracted.
const sweepSource = "../../../../shared/data/gavel/paper_figures.json"

// The table contains every value of the source at its position and no others.
func TestPublished(t *testing.T) {
	data, err := os.ReadFile(sweepSource)
	if err != nil {
		t.Skipf("the values of the figures are not here: %v", err)
	}
	var figures map[string]struct {
		File  string
		Lines map[string][][2]float64
	}
	if err := json.Unmarshal(data, &figures); err != nil {
		t.Fatal(err)
	}
	for _, f := range published() {
		for _, theirs := range figures {
			if theirs.File != f.file+".pdf" {
				continue
			}
			for _, l := range f.Lines {
				if !slices.ContainsFunc(keys(theirs.Lines), func(k string) bool { return same(&f, &l, theirs.Lines[k]) }) {
					t.Errorf("figure %s: %s is no line of %s", f.Name, f.name(&l), theirs.File)
				}
			}
			if len(f.Lines) != len(theirs.Lines) {
				t.Errorf("figure %s has %d lines, %s has %d", f.Name, len(f.Lines), theirs.File, len(theirs.Lines))
			}
		}
	}
}

func keys(m map[string][][2]float64) (out []string) {
	for k := range m {
		out = append(out, k)
	}
	return out
}

// same reports whether a line equals one of the source, whose last points may be continuation markers.
func same(f *figure, l *figureLine, points [][2]float64) bool {
	for i, v := range l.Hours {
		if i >= len(points) || math.Abs(points[i][0]-f.x(i)) > 1e-4 || math.Abs(points[i][1]-v) > 0.005 {
			return false
		}
	}
	for _, p := range points[min(len(l.Hours), len(points)):] {
		if at := (p[0] - f.first) / f.step; p[1] < 105 && math.Abs(at-math.Round(at)) < 1e-3 {
			return false
		}
	}
	return true
}

func TestFind(t *testing.T) {
	for in, want := range map[string]string{"8": "8", "fig9": "9", "figure 10": "10", "13a": "ideal", "single-las": "8", "makespan": "makespan", "14": "14"} {
		if f, err := FindFigure(in); err != nil || f.Name != want {
			t.Errorf("%q is %v, want %s: %v", in, f, want, err)
		}
	}
	for _, in := range []string{"", "7", "11", "single"} {
		if f, err := FindFigure(in); err == nil {
			t.Errorf("%q is %v, want an error", in, f)
		}
	}
}

// Every figure is a valid sweep over the published loads.
func TestSweeps(t *testing.T) {
	for _, f := range published() {
		s, err := f.Sweep(FigureOptions{Seeds: []uint64{0}, Compat: true})
		if err != nil {
			t.Errorf("figure %s: %v", f.Name, err)
			continue
		}
		for _, sc := range s.Scenarios {
			c := sc.Config
			for _, c.Policy = range s.Policies {
				if err := c.Validate(); err != nil {
					t.Errorf("figure %s, %s: %v", f.Name, sc.Name, err)
				}
			}
		}
		if xs := f.Xs(3); len(xs) != 3 || xs[2] != f.Xs(0)[len(f.Xs(0))-1] || !slices.IsSorted(xs) {
			t.Errorf("figure %s at three points: %v", f.Name, xs)
		}
	}
}

// A part of a figure contains the published values, ours, and their ratios.
func TestBeside(t *testing.T) {
	f, err := FindFigure("single-fifo")
	if err != nil {
		t.Fatal(err)
	}
	s, err := f.Sweep(FigureOptions{Seeds: []uint64{0}, Points: 2, Window: Window{Start: 0, End: 20}, Compat: true})
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	f.Beside(o)
	table := o.Comparison.Tables[0]
	if len(table.Lines) != 12 || !slices.Equal(table.Lines[3][:2], []string{"fifo_perf", "15.30"}) || table.Lines[4][1] == "–" {
		t.Errorf("%v", table.Lines)
	}
	if n := len(o.Comparison.Charts[0].Series); n != 7 {
		t.Errorf("%d lines in the chart, want 7", n)
	}
}

// Our best policy is run in a group of its own and compared with the published values of another policy.
func TestBestIsBeside(t *testing.T) {
	for name, want := range map[string]struct{ best, against string }{
		"makespan": {"min_total_duration_packed", "min_total_duration_packed"}, "8": {"best_match_packed", "max_min_fairness_packed"},
		"9": {"best_match_packed", "max_min_fairness_packed"}, "multi-fifo": {"best_match_packed", "fifo_packed"},
	} {
		f, err := FindFigure(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, compat := range []bool{true, false} {
			s, err := f.Sweep(FigureOptions{Seeds: []uint64{0}, Points: 1, Compat: compat})
			if err != nil {
				t.Fatal(err)
			}
			alone := false
			for _, sc := range s.Scenarios {
				if mine := sc.Group == ours; sc.Config.Compat != (compat && !mine) || mine && !slices.Equal(sc.Policies, []string{want.best}) {
					t.Errorf("figure %s, compat %v, %s: as in Gavel %v, policies %v", name, compat, sc.Name, sc.Config.Compat, sc.Policies)
				}
				alone = alone || sc.Group == ours
			}
			if alone != compat {
				t.Errorf("figure %s, compat %v: a group of our mechanism %v", name, compat, alone)
			}
			lines := f.lines(compat)
			published := f.Lines[slices.IndexFunc(f.Lines, func(l figureLine) bool { return l.Policy == want.against })]
			ours := lines[slices.IndexFunc(lines, func(l figureLine) bool { return l.Policy == want.best && (l.Group == ours) == compat })]
			if !slices.Equal(published.Hours, ours.Hours) || published.Metric != ours.Metric {
				t.Errorf("figure %s: beside ours stand %v, published are %v", name, ours.Hours, published.Hours)
			}
		}
	}
}
