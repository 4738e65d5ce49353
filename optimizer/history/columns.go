package history

import (
	"fmt"
	"math"
	"strings"
	"time"

	"trainopt/cost"
	"trainopt/sla"
)

// Column describes one column of the runs database and of its exports, for the documentation.
type Column struct {
	Name    string
	Unit    string // "s", "USD", "GiB"; "" if dimensionless
	Meaning string
}

// Columns lists the columns of the runs database in the order of every export.
func Columns() []Column {
	out := make([]Column, len(columns))
	for i, c := range columns {
		out[i] = c.Column
	}
	return out
}

// column is a Column together with its accessor in an Entry. Storage and all exports are derived from the list of
// columns.
type column struct {
	Column
	// since is the database format that introduced the column.
	since int
	// field returns a pointer to the value within an expanded entry (see open): *string, *float64, *int or
	// *time.Time.
	field func(*Entry) any
	// zeroUnknown reports whether an int of 0 means unknown.
	zeroUnknown bool
	// constraint is the SQL column constraint that follows the type.
	constraint string
}

// columns is the only list of the fields of an entry; schema, checksums and exports follow its order.
var columns = []column{
	{Column: Column{"id", "", "unique: the run id; RUN/probe-2; for a log the SHA-256 of its content and the number of the segment"}, since: 1,
		field: func(e *Entry) any { return &e.ID }, constraint: "NOT NULL PRIMARY KEY"},
	{Column: Column{"parent", "", "the run of a probe, or the log of a segment; its work is included there"}, since: 1,
		field: func(e *Entry) any { return &e.Parent }, constraint: "REFERENCES entries(id) ON DELETE CASCADE DEFERRABLE INITIALLY DEFERRED"},
	{Column: Column{"kind", "", "run (a whole run), probe (a timed segment of a run at one allocation), log (an imported training log), table (a published measurement)"}, since: 1,
		field: func(e *Entry) any { return (*string)(&e.Kind) }, constraint: "NOT NULL"},
	text("source", "origin: the run directory, the path of the log, the publication", func(e *Entry) *string { return &e.Source }),
	{Column: Column{"started_at", "", "start, UTC"}, since: 1, field: func(e *Entry) any { return &e.At }},

	text("script", "path or name of the training script", func(e *Entry) *string { return &e.Job.Script }),
	text("script_sha256", "SHA-256 of the script", func(e *Entry) *string { return &e.Job.ScriptSHA256 }),
	text("framework", "framework of the training", func(e *Entry) *string { return &e.Job.Framework }),
	text("model", "model, as named in the log or the script", func(e *Entry) *string { return &e.Job.Model }),
	text("family", "family of models that resemble each other", func(e *Entry) *string { return &e.Job.Family }),
	text("dataset", "data set", func(e *Entry) *string { return &e.Job.Dataset }),
	number("model_params", "parameters", "trained parameters", func(e *Entry) *float64 { return &e.Job.Params }),
	number("model_layers", "layers", "layers", func(e *Entry) *float64 { return &e.Job.Layers }),
	number("data_count", "samples", "samples in one epoch", func(e *Entry) *float64 { return &e.Job.DataCount }),
	number("data_size_mb", "MB", "size of the data set", func(e *Entry) *float64 { return &e.Job.DataSizeMB }),
	number("epochs", "epochs", "epochs of the whole training", func(e *Entry) *float64 { return &e.Job.Epochs }),

	text("requested_gpu", "requested GPU model", func(e *Entry) *string { return &e.Requested.GPU }),
	number("requested_gpus", "GPUs", "requested GPUs, of all machines", func(e *Entry) *float64 { return &e.Requested.GPUs }),
	nodes("requested_nodes", "requested machines", func(e *Entry) *int { return &e.Requested.Nodes }),
	number("requested_cpus", "CPUs", "requested logical CPUs, of all machines", func(e *Entry) *float64 { return &e.Requested.CPUs }),
	number("requested_memory_gib", "GiB", "requested host memory, of all machines", func(e *Entry) *float64 { return &e.Requested.MemoryGiB }),
	number("requested_batch_size", "samples", "requested samples per step over all GPUs", func(e *Entry) *float64 { return &e.Requested.Batch }),
	text("requested_machine", "requested machine", func(e *Entry) *string { return &e.Requested.Machine }),

	text("gpu", "allocated GPU model", func(e *Entry) *string { return &e.Observed.GPU }),
	number("gpus", "GPUs", "allocated GPUs, of all machines; 0: none", func(e *Entry) *float64 { return &e.Observed.GPUs }),
	nodes("nodes", "allocated machines", func(e *Entry) *int { return &e.Observed.Nodes }),
	number("cpus", "CPUs", "allocated logical CPUs, of all machines", func(e *Entry) *float64 { return &e.Observed.CPUs }),
	number("memory_gib", "GiB", "allocated host memory, of all machines", func(e *Entry) *float64 { return &e.Observed.MemoryGiB }),
	number("batch_size", "samples", "samples per step over all GPUs", func(e *Entry) *float64 { return &e.Observed.Batch }),
	text("machine", "machine of the training, such as aws:p4d.24xlarge", func(e *Entry) *string { return &e.Observed.Machine }),

	text("state", "how a run ended: done, failed, stopped", func(e *Entry) *string { return &e.State }),
	text("reason", "why: exited, killed, oom, budget, deadline, allocation, user, cancelled, start-failed, lost", func(e *Entry) *string { return &e.Reason }),
	number("seconds", "s", "wall clock from first start to end, restarts included, without waits for places that its prediction does not include", func(e *Entry) *float64 { return &e.Seconds }),
	number("units", "units", "work done, in unit", func(e *Entry) *float64 { return &e.Units }),
	text("unit", "unit of progress: epoch or step", func(e *Entry) *string { return &e.Unit }),
	whole("rows", "rows", "accepted rows of the training log", func(e *Entry) *int { return &e.Rows }),
	whole("bad_rows", "rows", "rejected rows of the training log", func(e *Entry) *int { return &e.Bad }),
	whole("restarts", "restarts", "restarts", func(e *Entry) *int { return &e.Restarts }),
	number("unit_seconds", "s", "mean time of a unit in steady state, warm-up left out", func(e *Entry) *float64 { return &e.UnitTime }),
	number("unit_spread", "", "standard deviation of one unit, as a share of unit_seconds", func(e *Entry) *float64 { return &e.UnitSpread }),
	number("unit_count", "units", "number of units in unit_seconds", func(e *Entry) *float64 { return &e.UnitCount }),
	number("throughput", "samples/s", "samples per second in steady state", func(e *Entry) *float64 { return &e.Throughput }),
	number("startup_seconds", "s", "mean time from launch to the first work", func(e *Entry) *float64 { return &e.Startup }),
	number("restart_seconds", "s", "mean time of a restart", func(e *Entry) *float64 { return &e.Restart }),

	number("peak_memory_gib", "GiB", "peak host memory of the job", func(e *Entry) *float64 { return &e.PeakMemoryGiB }),
	number("gpu_memory_gib", "GiB", "peak memory of the fullest GPU", func(e *Entry) *float64 { return &e.GPUMemoryGiB }),
	number("gpu_util", "%", "mean utilization of the GPUs", func(e *Entry) *float64 { return &e.GPUUtil }),
	number("cpu_util", "%", "mean utilization of the allocated CPUs; empty if other programs used some of them", func(e *Entry) *float64 { return &e.CPUUtil }),
	number("energy_joules", "J", "energy of the GPUs", func(e *Entry) *float64 { return &e.EnergyJoules }),
	number("train_loss", "", "last training loss", func(e *Entry) *float64 { return &e.TrainLoss }),
	number("test_accuracy", "", "last test accuracy, as written by the script", func(e *Entry) *float64 { return &e.TestAccuracy }),

	number("cost_usd", "USD", "cost", func(e *Entry) *float64 { return &e.CostUSD }),
	number("gpu_hour", "USD/h", "price per GPU-hour", func(e *Entry) *float64 { return (*float64)(&e.Rates.GPUHour) }),
	number("cpu_hour", "USD/h", "price per CPU-hour", func(e *Entry) *float64 { return (*float64)(&e.Rates.CPUHour) }),
	number("gib_hour", "USD/h", "price per GiB-hour of host memory", func(e *Entry) *float64 { return (*float64)(&e.Rates.GiBHour) }),
	number("instance_hour", "USD/h", "price of one whole machine, where that was paid", func(e *Entry) *float64 { return (*float64)(&e.Rates.Instance) }),
	text("prices_source", "source of the prices", func(e *Entry) *string { return &e.Rates.Source }),
	text("prices_dated", "date of the prices, YYYY-MM-DD", func(e *Entry) *string { return &e.Rates.Dated }),
	text("prices_assumed", "assumptions for unknown prices", func(e *Entry) *string { return &e.Rates.Assumed }),

	number("predicted_seconds_p5", "s", "predicted length of the run, 5th percentile", func(e *Entry) *float64 { return &e.Predicted.Seconds.P5 }),
	number("predicted_seconds_p50", "s", "predicted length of the run, median", func(e *Entry) *float64 { return &e.Predicted.Seconds.P50 }),
	number("predicted_seconds_p95", "s", "predicted length of the run, 95th percentile", func(e *Entry) *float64 { return &e.Predicted.Seconds.P95 }),
	number("predicted_cost_usd_p5", "USD", "predicted cost of the run, 5th percentile", func(e *Entry) *float64 { return &e.Predicted.CostUSD.P5 }),
	number("predicted_cost_usd_p50", "USD", "predicted cost of the run, median", func(e *Entry) *float64 { return &e.Predicted.CostUSD.P50 }),
	number("predicted_cost_usd_p95", "USD", "predicted cost of the run, 95th percentile", func(e *Entry) *float64 { return &e.Predicted.CostUSD.P95 }),
	number("predicted_throughput_p5", "samples/s", "predicted throughput, 5th percentile", func(e *Entry) *float64 { return &e.Predicted.Throughput.P5 }),
	number("predicted_throughput_p50", "samples/s", "predicted throughput, median", func(e *Entry) *float64 { return &e.Predicted.Throughput.P50 }),
	number("predicted_throughput_p95", "samples/s", "predicted throughput, 95th percentile", func(e *Entry) *float64 { return &e.Predicted.Throughput.P95 }),
	text("planner", "planner of the prediction", func(e *Entry) *string { return &e.Predicted.Planner }),
	{Column: Column{"predicted_widen", "", "factor by which the log widths of the predicted intervals were widened; empty if unknown"}, since: 2,
		field: func(e *Entry) any { return &e.Predicted.Widen }},
	{Column: Column{"cpu_quota", "CPUs", "CPUs that the quota of a container grants, where it is not a whole number"}, since: 3,
		field: func(e *Entry) any { return &e.Rates.CPUQuota }},
}

// text returns a column of format 1 that holds a string; "" is unknown.
func text(name, meaning string, field func(*Entry) *string) column {
	return column{Column: Column{name, "", meaning}, since: 1, field: func(e *Entry) any { return field(e) }}
}

// number returns a column of format 1 that holds a float64; NaN is unknown.
func number(name, unit, meaning string, field func(*Entry) *float64) column {
	return column{Column: Column{name, unit, meaning}, since: 1, field: func(e *Entry) any { return field(e) }}
}

// whole returns a column of format 1 that holds an int; 0 is a value.
func whole(name, unit, meaning string, field func(*Entry) *int) column {
	return column{Column: Column{name, unit, meaning}, since: 1, field: func(e *Entry) any { return field(e) }}
}

// nodes returns a column of format 1 that holds a number of machines; 0 is unknown.
func nodes(name, meaning string, field func(*Entry) *int) column {
	c := whole(name, "machines", meaning, field)
	c.zeroUnknown = true
	return c
}

// expand returns an expanded copy of the entry in which every column has a field to point to: a missing prediction, its
// factor, missing prices and a missing quota become NaN.
func (e Entry) expand() *Entry {
	f := forecast{Seconds: unknownInterval(), CostUSD: unknownInterval(), Throughput: unknownInterval()}
	if e.Predicted != nil {
		f = *e.Predicted
	}
	if f.Widen == 0 {
		f.Widen = math.NaN()
	}
	e.Predicted = &f
	r := &e.Rates
	n := cost.USD(math.NaN())
	if *r == (cost.Rates{}) { // no prices at all; a single price of 0 is valid
		r.GPUHour, r.CPUHour, r.GiBHour = n, n, n
	}
	if r.Instance == 0 {
		r.Instance = n
	}
	if r.CPUQuota == 0 {
		r.CPUQuota = math.NaN()
	}
	return &e
}

func unknownInterval() sla.Interval {
	n := math.NaN()
	return sla.Interval{P5: n, P50: n, P95: n}
}

// collapse is the inverse of expand.
func (e *Entry) collapse() Entry {
	f := e.Predicted
	known := f.Planner != ""
	for _, i := range []sla.Interval{f.Seconds, f.CostUSD, f.Throughput} {
		known = known || !math.IsNaN(i.P5) || !math.IsNaN(i.P50) || !math.IsNaN(i.P95)
	}
	if !known {
		e.Predicted = nil
	}
	if math.IsNaN(f.Widen) {
		f.Widen = 0
	}
	for _, p := range []*cost.USD{&e.Rates.GPUHour, &e.Rates.CPUHour, &e.Rates.GiBHour, &e.Rates.Instance} {
		if math.IsNaN(float64(*p)) {
			*p = 0
		}
	}
	if math.IsNaN(e.Rates.CPUQuota) {
		e.Rates.CPUQuota = 0
	}
	return *e
}

// value returns the content of a column of an expanded entry: a string, float64, int64 or time.Time, or nil if
// unknown. Non-finite numbers and years outside 1…9999 are unknown.
func (c *column) value(e *Entry) any {
	switch p := c.field(e).(type) {
	case *string:
		if *p != "" {
			return strings.ToValidUTF8(*p, "\uFFFD")
		}
	case *float64:
		if !math.IsNaN(*p) && !math.IsInf(*p, 0) {
			return *p + 0 // no negative zero
		}
	case *int:
		if *p != 0 || !c.zeroUnknown {
			return int64(*p)
		}
	case *time.Time:
		if t := p.UTC(); !p.IsZero() && t.Year() > 0 && t.Year() < 10000 {
			return t
		}
	}
	return nil
}

// set stores a result of value in an expanded entry.
func (c *column) set(e *Entry, v any) error {
	ok := false
	switch p := c.field(e).(type) {
	case *string:
		if *p = ""; v != nil {
			*p, ok = v.(string)
		}
	case *float64:
		if *p = math.NaN(); v != nil {
			*p, ok = v.(float64)
		}
	case *int:
		if *p = 0; v != nil {
			var n int64
			n, ok = v.(int64)
			*p = int(n)
		}
	case *time.Time:
		if *p = (time.Time{}); v != nil {
			*p, ok = v.(time.Time)
		}
	}
	if v != nil && !ok {
		return fmt.Errorf("column %s holds %v (%T)", c.Name, v, v)
	}
	return nil
}
