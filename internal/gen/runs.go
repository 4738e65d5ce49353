package main

import (
	"fmt"
	"io"
	"math"
	"slices"

	"trainopt/cost"
	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/perf"
	"trainopt/resources"
	"trainopt/sla"
)

// carried is the prediction of the seconds per unit of a run from other runs of its script.
type carried struct {
	run       string
	predicted sla.Interval
	measured  float64
	runs      int // number of runs used for the prediction
}

// leaveOutRuns predicts each run of a state directory, at the allocation with the most timed units, from the similar
// runs among the others; with exact, also from those that did the same work.
func leaveOutRuns(stateDir string, exact bool) ([]carried, error) {
	entries, err := journal.List(stateDir)
	if err != nil {
		return nil, err
	}
	var out []carried
	for _, e := range entries {
		if e.Err != nil || e.Record.State == journal.Running {
			continue
		}
		at, measured := longest(e.Record)
		if !(measured > 0) {
			continue
		}
		found, _ := history.Recall(stateDir, keyOf(e.Record))
		obs := transfer.Carry(found.Similar, transfer.CarryTarget{Config: onMachineOf(e.Record), Reference: at})
		runs := len(found.Similar)
		if exact {
			obs, runs = append(obs, found.Observations...), runs+len(found.Runs)
		}
		m, err := perf.Fit(obs, perf.FitOptions{})
		if err != nil {
			continue // no other run of the same script
		}
		out = append(out, carried{e.ID, m.UnitSeconds(at), measured, runs})
	}
	return out, nil
}

// longest returns the allocation with the most timed units of a run, and its median seconds per unit; 0 if none was
// timed.
func longest(rec *journal.Record) (at resources.Allocation, seconds float64) {
	most := 0
	for _, s := range rec.Measured {
		var units []float64
		for _, u := range s.UnitSeconds {
			if u.Known() && u > 0 {
				units = append(units, float64(u))
			}
		}
		if len(units) > most {
			slices.Sort(units)
			most, at, seconds = len(units), s.Allocation, units[len(units)/2]
		}
	}
	return at, seconds
}

// keyOf returns the key with which a run would recall its history.
func keyOf(rec *journal.Record) history.Key {
	k := history.Key{ScriptSHA256: rec.Script.SHA256, Likeness: rec.Script.Likeness, FilesDigest: rec.Script.FilesDigest, Script: rec.Script.Path, Command: rec.Command, Dir: rec.Dir,
		Handed: rec.Handed, CPUs: rec.Host.CPUs, CPUModel: rec.Host.CPUModel, Described: rec.Host.Described, ExcludeRun: rec.RunID}
	for _, g := range rec.Host.GPUs {
		k.GPUs = append(k.GPUs, g.Name)
	}
	return k
}

// onMachineOf returns a function that maps allocations on the machine of a run to configurations.
func onMachineOf(rec *journal.Record) func(resources.Allocation) history.Config {
	return func(a resources.Allocation) history.Config {
		c := history.Config{GPUs: float64(a.GPUs), Nodes: 1, CPUs: float64(a.CPUs), MemoryGiB: float64(a.Memory), Batch: math.NaN()}
		if a.GPUs > 0 && len(rec.Host.GPUs) > 0 {
			c.GPU = cost.GPUModel(rec.Host.GPUs[0].Name)
		}
		return c
	}
}

// writeRuns prints the coverage, the median error and the median half-width; with each, also every prediction.
func writeRuns(w io.Writer, list []carried, each bool) {
	inside, errors, widths := 0, []float64{}, []float64{}
	for _, c := range list {
		held := c.measured >= c.predicted.P5 && c.measured <= c.predicted.P95
		if held {
			inside++
		}
		errors = append(errors, math.Abs(c.measured/c.predicted.P50-1))
		widths = append(widths, math.Sqrt(c.predicted.P95/c.predicted.P5)-1)
		if each {
			fmt.Fprintf(w, "%-40s from %d runs: measured %8.3g s, predicted %8.3g (%.3g…%.3g) %t\n", c.run, c.runs, c.measured, c.predicted.P50, c.predicted.P5, c.predicted.P95, held)
		}
	}
	if len(list) == 0 {
		fmt.Fprintln(w, "no run has another run of its script")
		return
	}
	slices.Sort(errors)
	slices.Sort(widths)
	fmt.Fprintf(w, "%d runs, %d in the 90 %% interval; error: median %.0f %%; half-width: median %.0f %%\n", len(list), inside, 100*errors[len(list)/2], 100*widths[len(list)/2])
}
