package history

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"gonum.org/v1/gonum/stat"

	"trainopt/cost"
	"trainopt/internal/regular"
	"trainopt/optimizer/inspect"
	"trainopt/optimizer/journal"
	"trainopt/resources"
	"trainopt/sla"
)

// runEntries returns the entries of a completed run: the run itself and each of its segments that was timed at one
// allocation. It returns nil for a run that has not ended.
func runEntries(id, dir string, rec *journal.Record) []Entry {
	if rec.State == journal.Running || rec.State == journal.Planned {
		return nil
	}
	stretches := timed(rec)
	last := regular.LastRow(filepath.Join(dir, "log.csv"))
	run := runEntry(id, dir, rec, stretches, last)
	out := []Entry{run}
	for i, s := range stretches {
		e := NewEntry(Probe, fmt.Sprintf("%s/probe-%d", id, i+1))
		e.Parent, e.Source, e.At, e.Job, e.Rates, e.Unit, e.State = id, dir, run.At, run.Job, run.Rates, run.Unit, run.State
		e.Requested = configOf(rec, s.Allocation)
		e.Observed = observed(rec, s.Allocation, nil)
		if i == len(stretches)-1 {
			e.Observed = observed(rec, s.Allocation, last)
		}
		e.Seconds, e.CostUSD, e.PeakMemoryGiB = float64(s.Seconds), float64(s.CostUSD), float64(s.PeakMemoryGiB)
		e.GPUUtil, e.Rows = float64(s.GPUUtil), s.Rows
		if !s.Contended() {
			e.CPUUtil = float64(s.CPUUtil)
		}
		if !s.LiveCut { // the pace under a live cut does not belong to the configuration in e.Observed
			e.Throughput = float64(s.SamplesPerSecond())
			e.setUnitTimes(s.UnitSeconds)
		}
		out = append(out, e)
	}
	return out
}

// runEntry returns the entry of the run itself. Observed is the configuration of the last segment without a live cut,
// and the unit times are those of all segments of that shape and batch size.
func runEntry(id, dir string, rec *journal.Record, stretches []journal.Probe, last map[string]float64) Entry {
	e := NewEntry(Run, id)
	e.Source, e.At, e.Job = dir, rec.StartedAt, jobOf(rec)
	if rec.Prices.Known() {
		e.Rates = rec.Prices.Rates.Each(rec.Host.Nodes)
	}
	e.Observed.Nodes = rec.Host.Nodes // of a run without a plan
	e.State, e.Unit = string(rec.State), rec.Training.Unit
	if rec.Exit != nil {
		e.Reason = rec.Exit.Reason
	}
	o := &rec.Outcome
	e.Seconds, e.CostUSD, e.EnergyJoules = float64(rec.RealisedSeconds()), float64(o.CostUSD), float64(o.EnergyJoules)
	e.Rows, e.Bad, e.Restarts = rec.Log.Rows, rec.Log.BadRows, o.Restarts
	e.PeakMemoryGiB, e.GPUUtil, e.Throughput = float64(o.PeakMemoryGiB), float64(o.GPUUtil), float64(o.SamplesPerSecond())
	if !o.Contended() {
		e.CPUUtil = float64(o.CPUUtil)
	}
	e.TrainLoss, e.TestAccuracy = float64(rec.Training.TrainLoss), float64(rec.Training.TestAccuracy)
	e.Startup, e.Restart = mean(rec.Overheads.StartupSeconds), mean(rec.Overheads.RestartSeconds)
	switch done := workDone(o); {
	case done.Known():
		e.Units = float64(done)
	case rec.State == journal.Done && rec.Training.Unit != "":
		e.Units = float64(rec.Training.TotalUnits)
	}
	e.Units -= o.FromUnits
	if rec.Plan != nil {
		e.Requested = configOf(rec, rec.Plan.Allocation)
		e.Observed = observed(rec, rec.Plan.Allocation, last)
		e.Predicted = forecastOf(rec.Plan, rec.Model)
		if e.Predicted != nil && rec.EndedEarly() { // another amount of work than predicted
			e.Predicted.Seconds, e.Predicted.CostUSD = unknownInterval(), unknownInterval()
		}
	}
	launched := slices.DeleteFunc(slices.Clone(stretches), func(s journal.Probe) bool { return s.LiveCut })
	if n := len(launched); n > 0 { // the last configuration is the observed one
		at := launched[n-1].Allocation
		e.Observed = observed(rec, at, last)
		var units []journal.Number
		for _, s := range launched {
			if s.Allocation.SameShape(at) && s.Allocation.BatchSize == at.BatchSize {
				units = append(units, s.UnitSeconds...)
			}
		}
		e.setUnitTimes(units)
	}
	if e.Observed.GPUs == float64(e.Observed.Nodes) { // samples.csv has the sum over the devices of the first machine
		e.GPUMemoryGiB = largest(filepath.Join(dir, "samples.csv"), "gpu_memory_gib")
	}
	return e
}

// workDone returns the epochs or else the steps of a run, which may be fewer than its total; unknown if its log has neither.
func workDone(o *journal.Outcome) journal.Number {
	if o.Epochs.Known() {
		return o.Epochs
	}
	return o.Steps
}

// timed returns the timed segments of a run without duplicates: a probe with unit times is also among the measured
// segments.
func timed(rec *journal.Record) []journal.Probe {
	out := slices.Clone(rec.Measured)
	for _, p := range rec.Probes {
		if !slices.ContainsFunc(out, func(m journal.Probe) bool { return sameStretch(m, p) }) {
			out = append(out, p)
		}
	}
	return slices.DeleteFunc(out, func(p journal.Probe) bool { return len(known(p.UnitSeconds)) == 0 })
}

func sameStretch(a, b journal.Probe) bool {
	return a.Allocation.Same(b.Allocation) && a.LiveCut == b.LiveCut && a.Rows == b.Rows && slices.Equal(known(a.UnitSeconds), known(b.UnitSeconds))
}

// known returns the numbers that are known and above 0.
func known(v []journal.Number) []float64 {
	var out []float64
	for _, x := range v {
		if x.Known() && x > 0 {
			out = append(out, float64(x))
		}
	}
	return out
}

// mean returns the mean of the known numbers; NaN if there are none.
func mean(v []journal.Number) float64 {
	sum, n := 0.0, 0.0
	for _, x := range v {
		if x.Known() {
			sum, n = sum+float64(x), n+1
		}
	}
	return sum / n
}

// setUnitTimes sets the unit times from those in a record, which exclude warm-up. A single unit has no spread.
func (e *Entry) setUnitTimes(units []journal.Number) {
	v := known(units)
	if len(v) == 0 {
		return
	}
	e.UnitTime, e.UnitCount = stat.Mean(v, nil), float64(len(v))
	if len(v) > 1 {
		e.UnitSpread = stat.StdDev(v, nil) / e.UnitTime
	}
}

// jobOf returns the job of a run. Values reported by the training take precedence over those found in the script.
func jobOf(rec *journal.Record) Job {
	said := func(s *string) string {
		if s == nil {
			return ""
		}
		return *s
	}
	t := &rec.Training
	j := Job{Script: rec.Script.Path, ScriptSHA256: rec.Script.SHA256, Framework: said(rec.Script.Framework),
		Family:  cmp.Or(inspect.Family(said(t.Model)), said(rec.Script.Model)),
		Model:   cmp.Or(said(t.Model), said(rec.Script.Model)),
		Dataset: cmp.Or(said(t.Dataset), rec.Handed.Dataset, said(rec.Script.Dataset)),
		Params:  float64(t.ModelParams), Layers: float64(t.ModelLayers), DataCount: float64(t.DataCount), DataSizeMB: float64(t.DataSizeMB), Epochs: math.NaN()}
	switch {
	case rec.Handed.Epochs > 0:
		j.Epochs = float64(rec.Handed.Epochs)
	case t.Unit == "epoch":
		j.Epochs = float64(t.TotalUnits)
	}
	return j
}

// configOf returns an allocation, which is that of each machine of a run, as a Config: the amounts of all of them.
func configOf(rec *journal.Record, a resources.Allocation) Config {
	positive := func(v float64) float64 {
		if v > 0 {
			return v
		}
		return math.NaN()
	}
	nodes := max(1, rec.Host.Nodes)
	c := Config{GPUs: float64(a.GPUs * nodes), Nodes: nodes, CPUs: positive(float64(a.CPUs * nodes)), MemoryGiB: positive(float64(a.Memory) * float64(nodes)),
		Batch: positive(float64(a.BatchSize)), Machine: rec.Host.Described}
	if a.GPUs > 0 && len(rec.Host.GPUs) > 0 {
		c.GPU = cost.GPUModel(rec.Host.GPUs[0].Name)
		for _, g := range rec.Host.GPUs {
			if slices.Contains(a.GPUIDs, g.UUID) {
				c.GPU = cost.GPUModel(g.Name)
				break
			}
		}
	}
	return c
}

// observed returns the configuration that a segment actually used: its allocation, reduced to the GPU and CPU counts
// of the script's own log where those are smaller. Of a run on several machines the log counts those of one, or of all,
// which reduces nothing. The batch size is the logged one, if any.
func observed(rec *journal.Record, a resources.Allocation, logged map[string]float64) Config {
	c := configOf(rec, a)
	nodes := float64(c.Nodes)
	if n, ok := logged["gpu_count"]; ok && n >= 0 && n*nodes < c.GPUs {
		if c.GPUs = n * nodes; n == 0 {
			c.GPU = ""
		}
	}
	if n, ok := logged["cpu_count"]; ok && n >= 1 && n*nodes < c.CPUs {
		c.CPUs = n * nodes
	}
	if b := rec.Training.BatchSize; b.Known() && b > 0 {
		c.Batch = float64(b)
	}
	if n, ok := logged["batch_size"]; ok && n > 0 {
		c.Batch = n
	}
	return c
}

// forecastOf returns the prediction recorded for a run. An interval of zeros means not predicted and becomes NaN.
func forecastOf(p *journal.Plan, m *journal.Model) *forecast {
	if p.Prediction == nil {
		return nil
	}
	said := func(i sla.Interval) sla.Interval {
		if i == (sla.Interval{}) {
			return unknownInterval()
		}
		return i
	}
	return &forecast{Seconds: said(p.Prediction.Seconds), CostUSD: said(p.Prediction.CostUSD), Throughput: said(p.Prediction.Throughput), Planner: p.Planner, Widen: m.Widen()}
}

// largest returns the largest number in a column of a CSV file; NaN if none exists. Unparsable rows and cells are
// skipped.
func largest(path, column string) float64 {
	most := math.NaN()
	f, err := os.Open(path)
	if err != nil {
		return most
	}
	defer f.Close()
	at := -1
	for row, err := range regular.Rows(f, nil) {
		if err != nil {
			break
		}
		if at < 0 {
			if at = slices.Index(row, column); at < 0 {
				break
			}
			continue
		}
		if v, err := strconv.ParseFloat(row[at], 64); err == nil && !(v <= most) {
			most = v
		}
	}
	return most
}
