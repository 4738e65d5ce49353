package tracker

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/journal"
)

// Run is a run as trackers store it.
type Run struct {
	Record *journal.Record
	// Points are the values over time, in order of time.
	Points []point
	// Params and Tags describe the run; unknown values are absent.
	Params, Tags map[string]string
}

// point is one value at one time. Step is the step of the training, its epoch if it counts no steps, or for samples of the
// machine the second of the run.
type point struct {
	Name  string
	At    time.Time
	Step  int64
	Value float64
}

// ended returns the end of the run; zero while it continues.
func (r *Run) ended() time.Time {
	if r.Record.FinishedAt == nil {
		return time.Time{}
	}
	return *r.Record.FinishedAt
}

// trained lists the columns of log.csv that are exported, under their names.
var trained = []string{"epoch", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "epoch_time", "throughput"}

// sampled maps the columns of samples.csv that are exported to their names.
var sampled = map[string]string{"cost_usd": "optimize/cost_usd", "projected_s": "optimize/projected_seconds", "projected_cost_usd": "optimize/projected_cost_usd",
	"tree_cpu_percent": "optimize/cpu_percent", "tree_memory_gib": "optimize/memory_gib", "gpu_util_percent": "optimize/gpu_util_percent",
	"gpu_memory_gib": "optimize/gpu_memory_gib", "gpus": "optimize/gpus", "cpus": "optimize/cpus"}

// Load reads a run directory.
func Load(dir string) (*Run, error) {
	rec, err := journal.ReadRecord(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Record: rec}
	if err := errors.Join(r.table(filepath.Join(dir, "log.csv"), r.trainingRow), r.table(filepath.Join(dir, "samples.csv"), r.sample)); err != nil {
		return nil, fmt.Errorf("read run %s: %w", rec.RunID, err)
	}
	slices.SortStableFunc(r.Points, func(a, b point) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Name, b.Name)) })
	r.describe()
	return r, nil
}

// table calls row for each row of a table of the run, with the numbers by column; a missing table has none.
func (r *Run) table(path string, row func(at time.Time, seconds float64, values map[string]float64)) error {
	f, err := regular.Open(path, regular.NoLimit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	var header []string
	for fields, err := range regular.Rows(f, nil) {
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		if header == nil {
			header = slices.Clone(fields)
			continue
		}
		values := map[string]float64{}
		var stamp time.Time // of the training's own row, more exact than the time at which it was read
		for i, text := range fields {
			if v, err := strconv.ParseFloat(text, 64); err == nil && !math.IsNaN(v) && !math.IsInf(v, 0) {
				values[header[i]] = v
			} else if header[i] == "timestamp" {
				stamp, _ = time.Parse(time.RFC3339Nano, text)
			}
		}
		if seconds, ok := values["time_s"]; ok && seconds >= 0 && seconds < 1e9 {
			at := r.Record.StartedAt.Add(time.Duration(seconds * float64(time.Second)))
			if stamp.After(r.Record.StartedAt) && stamp.Before(at) {
				at = stamp
			}
			row(at, seconds, values)
		}
	}
	return nil
}

func (r *Run) trainingRow(at time.Time, _ float64, values map[string]float64) {
	position, ok := values["step"]
	if !ok {
		position, ok = values["epoch"]
	}
	if !ok || math.Abs(position) > 1e15 {
		return
	}
	for _, name := range trained {
		if v, ok := values[name]; ok {
			r.Points = append(r.Points, point{name, at, int64(position), v})
		}
	}
}

func (r *Run) sample(at time.Time, seconds float64, values map[string]float64) {
	for column, name := range sampled {
		if v, ok := values[column]; ok {
			r.Points = append(r.Points, point{name, at, int64(seconds), v})
		}
	}
}

// describe sets Params and Tags.
func (r *Run) describe() {
	rec := r.Record
	r.Params, r.Tags = map[string]string{}, map[string]string{}
	number := func(into map[string]string, name string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			into[name] = strconv.FormatFloat(v, 'g', 9, 64)
		}
	}
	limit := func(name string, v float64) {
		if v > 0 {
			number(r.Params, name, v)
		}
	}
	text := func(name string, v *string) {
		if v != nil && *v != "" {
			r.Params[name] = *v
		}
	}
	text("model_name", cmp.Or(rec.Training.Model, rec.Script.Model))
	text("dataset", cmp.Or(rec.Training.Dataset, rec.Script.Dataset))
	text("framework", rec.Script.Framework)
	number(r.Params, "batch_size", float64(rec.Training.BatchSize))
	number(r.Params, "model_params", float64(rec.Training.ModelParams))
	number(r.Params, map[string]string{"epoch": "epochs", "step": "total_steps"}[rec.Training.Unit], float64(rec.Training.TotalUnits))
	delete(r.Params, "") // a total of an unknown unit
	limit("deadline_s", rec.SLA.TimeMax.Seconds())
	limit("budget_usd", rec.SLA.CostMaxUSD)
	if p := rec.Plan; p != nil {
		r.Params["planner"] = p.Planner
		number(r.Params, "gpus", float64(p.Allocation.GPUs))
		number(r.Params, "cpus", float64(p.Allocation.CPUs))
		if p.Allocation.Memory > 0 {
			number(r.Params, "memory_gib", float64(p.Allocation.Memory))
		}
	}
	r.Tags["optimize.run_id"], r.Tags["optimize.state"] = rec.RunID, string(rec.State)
	for _, v := range rec.SLA.Verdicts {
		r.Tags["optimize.sla."+string(v.Objective)] = string(v.Status)
	}
	o := &rec.Outcome
	number(r.Tags, "optimize.seconds", float64(o.Seconds))
	number(r.Tags, "optimize.cost_usd", float64(o.CostUSD))
	number(r.Tags, "optimize.restarts", float64(o.Restarts))
	if o.Throughput.Known() {
		unit := strings.ReplaceAll(cmp.Or(o.ThroughputUnit, journal.SamplesPerSecond), "/s", "_per_second")
		number(r.Tags, "optimize."+unit, float64(o.Throughput))
	}
}
