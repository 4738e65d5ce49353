package sweep

import (
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/experiment"
)

// traceFiles maps parts of file names to trace names of the published table.
var traceFiles = []struct{ part, name string }{
	{"lublin_256_new2", "Lublin-2"}, {"lublin-2", "Lublin-2"}, {"lublin_256", "Lublin-1"}, {"lublin-1", "Lublin-1"},
	{"sdsc-sp2", "SDSC-SP2"}, {"hpc2n", "HPC2N"}, {"kth-sp2", "KTH-SP2"},
}

// TraceName returns the name that the published table uses for the trace in a file, derived from the file name.
func TraceName(path string) (name string, ok bool) {
	base := strings.ToLower(filepath.Base(path))
	for _, f := range traceFiles {
		if strings.Contains(base, f.part) {
			return f.name, true
		}
	}
	return "", false
}

// TraceNames returns all names that TraceName can return.
func TraceNames() []string {
	var out []string
	for _, f := range traceFiles {
		if !slices.Contains(out, f.name) {
			out = append(out, f.name)
		}
	}
	return out
}

// asCoded is the suffix of heuristics whose published code differs from their description.
const asCoded = " as coded"

// heuristicMethods returns the heuristics of the published table and ours, under unambiguous names.
func heuristicMethods() []Named {
	var out []Named
	for _, h := range slices.Concat(rlscheduler.Published, rlscheduler.Further) {
		name := strings.TrimSuffix(h.Name, " true")
		if h.Name == "WFP3" || h.Name == "UNI" {
			name += asCoded
		}
		out = append(out, Named{Name: name, Method: Method{Policy: name, Heuristic: &h}})
	}
	return out
}

// RLSchedulerFigure returns the published evaluation on a trace, read as published: ten sequences of 1,024 jobs among the
// first 10,000, with all heuristics and the search, whose random draws depend on seed.
func RLSchedulerFigure(trace string, w *Workload, backfill bool, seed uint64) (*Sweep, error) {
	const most, length = 10000, 1024
	if len(w.Jobs) > most {
		short := *w
		short.Jobs = w.Jobs[:most]
		w = &short
	}
	s := &Sweep{Title: trace + ", without backfilling", Methods: heuristicMethods()}
	how := "none"
	if backfill {
		s.Title, how = trace+", with RLScheduler's backfilling", "rlscheduler"
	}
	s.Methods = append(s.Methods, Named{Name: Rollout, Method: Method{Policy: Rollout}})
	for i := range s.Methods {
		s.Methods[i].Backfill = how
	}
	for k, start := range rlscheduler.Starts1024 {
		if start+length > len(w.Jobs) {
			return nil, fmt.Errorf("%s: the sequence from job %d on needs %d jobs, the trace has %d", trace, start, start+length, len(w.Jobs))
		}
		s.Cases = append(s.Cases, Case{Name: Window{Start: start, Length: length}.String(), Workload: w, Window: Window{Start: start, Length: length},
			Seed: seed, Group: uint64(k)})
	}
	s.Notes = []string{"sequences may overlap, as the published ones do: intervals are narrower than they should be",
		"as coded: WFP3 and UNI of the published code compute the wait from a start time that is not set yet; without it, the true wait is taken"}
	return s, nil
}

// AddPublished adds a table to an outcome of RLScheduler: for each heuristic, the published and the reproduced mean bounded
// slowdown and utilization, and in the last line the published values of RLScheduler's agent.
func (o *Outcome) AddPublished(trace string, backfill bool) {
	t := experiment.Table{Title: "published (Zhang et al., SC 2020, Tables V and VI) and ours", Head: []string{"policy", "slowdown published", "ours", "utilization published", "ours"}}
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
