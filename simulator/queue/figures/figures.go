// Package figures reproduces the evaluations of papers on batch queues and adds the published values to the results.
// The traces are not included; files are recognised by name.
//
//	name, ok := figures.TraceName("lublin_256.swf.gz") // Lublin-1
//	s, err := figures.RLScheduler(name, workload, true, 0)
//	outcome, err := sweep.Compare(ctx, s)
//	figures.Beside(outcome, name, true)
package figures

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
	"trainopt/simulator/queue/sweep"
)

// files maps parts of file names to trace names of the published table.
var files = []struct{ part, name string }{
	{"lublin_256_new2", "Lublin-2"}, {"lublin-2", "Lublin-2"}, {"lublin_256", "Lublin-1"}, {"lublin-1", "Lublin-1"},
	{"sdsc-sp2", "SDSC-SP2"}, {"hpc2n", "HPC2N"}, {"kth-sp2", "KTH-SP2"},
}

// TraceName returns the name that the published table uses for the trace in a file, derived from the file name.
func TraceName(path string) (name string, ok bool) {
	base := strings.ToLower(filepath.Base(path))
	for _, f := range files {
		if strings.Contains(base, f.part) {
			return f.name, true
		}
	}
	return "", false
}

// TraceNames returns all names that TraceName can return.
func TraceNames() []string {
	var out []string
	for _, f := range files {
		if !slices.Contains(out, f.name) {
			out = append(out, f.name)
		}
	}
	return out
}

// asCoded is the suffix of heuristics whose published code differs from their description.
const asCoded = " as coded"

// heuristics returns the heuristics of the published table and ours, under unambiguous names.
func heuristics() []sweep.Named {
	var out []sweep.Named
	for _, h := range slices.Concat(rlscheduler.Published, rlscheduler.Further) {
		name := strings.TrimSuffix(h.Name, " true")
		if h.Name == "WFP3" || h.Name == "UNI" {
			name += asCoded
		}
		out = append(out, sweep.Named{Name: name, Method: sweep.Method{Policy: name, Heuristic: &h}})
	}
	return out
}

// RLScheduler returns the published evaluation on a trace, read as published: ten sequences of 1,024 jobs among the
// first 10,000, with all heuristics and the search, whose random draws depend on seed.
func RLScheduler(trace string, w *sweep.Workload, backfill bool, seed uint64) (*sweep.Sweep, error) {
	p := rlscheduler.Published1024
	if len(w.Jobs) > p.First {
		short := *w
		short.Jobs = w.Jobs[:p.First]
		w = &short
	}
	s := &sweep.Sweep{Title: trace + ", without backfilling", Methods: heuristics()}
	how := "none"
	if backfill {
		s.Title, how = trace+", with RLScheduler's backfilling", "rlscheduler"
	}
	s.Methods = append(s.Methods, sweep.Named{Name: sweep.Rollout, Method: sweep.Method{Policy: sweep.Rollout}})
	for i := range s.Methods {
		s.Methods[i].Backfill = how
	}
	for k, start := range p.Begin {
		if start+p.Length > len(w.Jobs) {
			return nil, fmt.Errorf("%s: the sequence from job %d on needs %d jobs, the trace has %d", trace, start, start+p.Length, len(w.Jobs))
		}
		s.Cases = append(s.Cases, sweep.Case{Name: sweep.Window{Start: start, Length: p.Length}.String(), Workload: w, Window: sweep.Window{Start: start, Length: p.Length},
			Seed: seed, Group: uint64(k)})
	}
	s.Notes = []string{"sequences may overlap, as the published ones do: intervals are narrower than they should be",
		"as coded: WFP3 and UNI of the published code compute the wait from a start time that is not set yet; without it, the true wait is taken"}
	return s, nil
}

// Beside adds a table to an outcome of RLScheduler: for each heuristic, the published and the reproduced mean bounded
// slowdown and utilisation, and in the last line the published values of RLScheduler's agent.
func Beside(o *sweep.Outcome, trace string, backfill bool) {
	t := experiment.Table{Title: "published (Zhang et al., SC 2020, Tables V and VI) and ours", Head: []string{"policy", "slowdown published", "ours", "utilisation published", "ours"}}
	cell := func(v float64, digits int) string {
		if math.IsNaN(v) {
			return "–"
		}
		return strconv.FormatFloat(v, 'f', digits, 64)
	}
	mean := func(policy, metric string) float64 {
		if row, ok := o.Comparison.Row(policy, metric); ok && row.N > 0 {
			return float64(row.Mean)
		}
		return math.NaN()
	}
	line := func(name, column string, ran bool) {
		line := []string{name, "–", "–", "–", "–"}
		if e, ok := rlscheduler.Find(trace, backfill, column); ok && !e.Ours {
			line[1], line[3] = cell(e.BoundedSlowdown, 2), cell(e.Utilization, 3)
		}
		if ran {
			line[2], line[4] = cell(mean(name, "mean_bounded_slowdown"), 2), cell(mean(name, "published_utilization"), 3)
		}
		t.Lines = append(t.Lines, line)
	}
	for _, h := range o.Methods {
		column := strings.TrimSuffix(h.Name, asCoded)
		if h.Name == "WFP3" || h.Name == "UNICEP" {
			column = "" // no values with the true wait were published
		}
		line(h.Name, column, true)
	}
	line("RLScheduler's agent", "RL", false)
	o.Comparison.Tables = append(o.Comparison.Tables, t)
}
