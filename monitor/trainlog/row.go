package trainlog

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"
	"strconv"
	"time"
)

// ErrNoData reports a log without rows, or one whose format cannot be recognised yet.
var ErrNoData = errors.New("no data")

// Column is a numeric column of a training log that the package recognises.
type Column int

// The recognised numeric columns, with their canonical names and units.
const (
	Epoch         Column = iota // epoch: completed epochs, counted from 1; fractional where the log records fractions
	TotalEpochs                 // total_epochs
	Step                        // step
	TotalSteps                  // total_steps
	ModelParams                 // model_params, count
	ModelLayers                 // model_layers, count
	DataCount                   // data_count, samples in one epoch
	DataSizeMB                  // data_size_mb, MB
	BatchSize                   // batch_size, samples
	CPUCount                    // cpu_count
	GPUCount                    // gpu_count
	TrainLoss                   // train_loss
	TrainAccuracy               // train_accuracy, as the script writes it (0–1 or %)
	TestLoss                    // test_loss
	TestAccuracy                // test_accuracy
	EpochTime                   // epoch_time, s
	TimeSoFar                   // time_so_far, s
	Throughput                  // throughput, samples/s
	GPUMemoryUsed               // gpu_memory_used_gb, GB
	MemoryUsed                  // memory_used_gb, GB
	CPUPercent                  // cpu_percent, %
	CostSoFar                   // cost_so_far, USD
	NumColumns                  // number of columns
)

// Row is one normalised row of a training log. An absent value is NaN, never 0.
type Row struct {
	// Line is the line number in the file, from 1 and including the header; for JSON documents the index of the
	// entry.
	Line int
	// At is the time at which the row was read, by the local clock.
	At time.Time
	// Stamp is the row's own timestamp; zero if absent or unreadable.
	Stamp time.Time
	// Model, Dataset and Device are text columns (model_name, dataset, device_type); empty if absent.
	Model, Dataset, Device string
	// GPUUtil is gpu_utilization_0…n in %; NaN where absent.
	GPUUtil []float64
	// Repeated is true if an earlier row had already passed this epoch or step: work repeated after a restart, or a
	// second writer.
	Repeated bool

	open      float64             // part of the epoch in Epoch that is not complete
	undecided bool                // see Undecided
	values    [NumColumns]float64 // valid only for columns in has
	has       uint32              // bit set of columns
}

// Value returns the value of a column and whether the row has one; without one the value is NaN.
func (r *Row) Value(c Column) (float64, bool) {
	if c < 0 || c >= NumColumns || r.has&(1<<c) == 0 {
		return math.NaN(), false
	}
	return r.values[c], true
}

// Completed returns the number of completed epochs, and whether the row has one. In a log with several rows per epoch, Epoch is
// that of the epoch in progress, which counts by its part, as far as that is known from the steps.
func (r *Row) Completed() (float64, bool) {
	epoch, ok := r.Value(Epoch)
	return math.Max(0, epoch-r.open), ok
}

// Undecided reports whether the log has not shown yet if it has one row per epoch or several. Completed counts the epoch of such
// a row as complete.
func (r *Row) Undecided() bool { return r.undecided }

// Next returns the first column from c on that has a value; NumColumns if none has.
func (r *Row) Next(c Column) Column {
	return c + Column(bits.TrailingZeros32((r.has|1<<NumColumns)>>c))
}

// Set stores the value of a column; NaN removes it.
func (r *Row) Set(c Column, v float64) {
	if math.IsNaN(v) {
		r.has &^= 1 << c
		return
	}
	r.values[c], r.has = v, r.has|1<<c
}

// Clone returns a deep copy of r, to keep a row after the callback of Scan returns.
func (r *Row) Clone() Row {
	c := *r
	c.GPUUtil = slices.Clone(r.GPUUtil)
	return c
}

// Values returns the values of the row by the names of TableColumns: numbers and texts. Absent numbers are missing.
func (r *Row) Values() map[string]any {
	v := map[string]any{"line": r.Line, modelName: r.Model, datasetName: r.Dataset, deviceName: r.Device}
	if !r.Stamp.IsZero() {
		v[timestampName] = r.Stamp.Format("2006-01-02T15:04:05.999999Z07:00")
	}
	for c := Column(0); c < NumColumns; c++ {
		if x, ok := r.Value(c); ok {
			v[c.String()] = x
		}
	}
	for i, u := range r.GPUUtil {
		if i < tableGPUs {
			v[gpuUtilPrefix+strconv.Itoa(i)] = u
		}
	}
	return v
}

// begin resets r to the empty row of a line and reuses the capacity of its slices.
func (r *Row) begin(line int) {
	r.Line, r.At, r.Stamp, r.Repeated, r.has, r.open, r.undecided = line, time.Time{}, time.Time{}, false, 0, 0, false
	r.Model, r.Dataset, r.Device, r.GPUUtil = "", "", "", r.GPUUtil[:0]
}

// text returns the field of a text column.
func (r *Row) text(kind targetKind) *string {
	switch kind {
	case toModel:
		return &r.Model
	case toDataset:
		return &r.Dataset
	}
	return &r.Device
}

// known reports whether any numeric column has a value.
func (r *Row) known() bool { return r.has != 0 }

// fill copies the columns of o that r lacks.
func (r *Row) fill(o *Row) {
	for c := Column(0); c < NumColumns; c++ {
		if v, ok := o.Value(c); ok && r.has&(1<<c) == 0 {
			r.Set(c, v)
		}
	}
}

// complete merges o into r if both have the same step, and the same epoch or none. It returns false, and leaves r
// unchanged, if they are separate rows, differ in a common column or contain GPU utilization.
func (r *Row) complete(o *Row) bool {
	if (r.has^o.has)&(1<<Epoch|1<<Step) != 0 || r.has&(1<<Step) == 0 || len(r.GPUUtil)+len(o.GPUUtil) > 0 {
		return false
	}
	for c := Column(0); c < NumColumns; c++ {
		a, inR := r.Value(c)
		if b, inO := o.Value(c); inR && inO && a != b {
			return false
		}
	}
	r.fill(o)
	r.Repeated = r.Repeated || o.Repeated
	r.Model, r.Dataset, r.Device = cmp.Or(r.Model, o.Model), cmp.Or(r.Dataset, o.Dataset), cmp.Or(r.Device, o.Device)
	if o.Stamp.After(r.Stamp) {
		r.Stamp = o.Stamp
	}
	return true
}
