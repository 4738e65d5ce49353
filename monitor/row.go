package monitor

import (
	"math"
	"slices"
	"time"
)

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
	// Again is true if an earlier row had already passed this epoch or step: work repeated after a restart, or a
	// second writer.
	Again bool

	values [NumColumns]float64 // valid only for columns in has
	has    uint32              // bit set of columns
}

// Value returns the value of a column and whether the row has one; without one the value is NaN.
func (r *Row) Value(c Column) (float64, bool) {
	if c < 0 || c >= NumColumns || r.has&(1<<c) == 0 {
		return math.NaN(), false
	}
	return r.values[c], true
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

// begin resets r to the empty row of a line and reuses the capacity of its slices.
func (r *Row) begin(line int) {
	r.Line, r.At, r.Stamp, r.Again, r.has = line, time.Time{}, time.Time{}, false, 0
	r.Model, r.Dataset, r.Device, r.GPUUtil = "", "", "", r.GPUUtil[:0]
}

// known reports whether any numeric column has a value.
func (r *Row) known() bool { return r.has != 0 }
