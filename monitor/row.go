package monitor

import (
	"math"
	"slices"
	"time"
)

// Column is one known numeric column of a training log.
type Column int

// The known numeric columns, with their names in the log and units.
const (
	Epoch         Column = iota // epoch: how many are complete, from 1; a fraction where the log tells one
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
	NumColumns                  // how many there are
)

// Row is one row of a training log, normalised. An absent value is NaN, never 0.
type Row struct {
	// Line is the line number in the file (from 1, the header included); for JSON documents the index.
	Line int
	// At is when we read the row, on our clock.
	At time.Time
	// Stamp is the row's own timestamp, zero when absent or unreadable.
	Stamp time.Time
	// Model, Dataset and Device are text columns (model_name, dataset, device_type), empty when absent.
	Model, Dataset, Device string
	// GPUUtil is gpu_utilization_0…n in %, NaN where absent.
	GPUUtil []float64
	// Again is true when an earlier row had already passed this epoch or step: work done again after a
	// restart, or a second writer.
	Again bool

	values [NumColumns]float64 // of the columns in has; the others hold nothing of worth
	has    uint32              // a bit for each column
}

// Value returns the value of a column and whether the row has one.
func (r *Row) Value(c Column) (float64, bool) {
	if c < 0 || c >= NumColumns || r.has&(1<<c) == 0 {
		return math.NaN(), false
	}
	return r.values[c], true
}

// Set stores a value; NaN clears it.
func (r *Row) Set(c Column, v float64) {
	if math.IsNaN(v) {
		r.has &^= 1 << c
		return
	}
	r.values[c], r.has = v, r.has|1<<c
}

// Clone is a copy that shares nothing with r, to keep a row beyond the call that Scan made with it.
func (r *Row) Clone() Row {
	c := *r
	c.GPUUtil = slices.Clone(r.GPUUtil)
	return c
}

// begin makes r the empty row of a line; the room of its slices is used again.
func (r *Row) begin(line int) {
	r.Line, r.At, r.Stamp, r.Again, r.has = line, time.Time{}, time.Time{}, false, 0
	r.Model, r.Dataset, r.Device, r.GPUUtil = "", "", "", r.GPUUtil[:0]
}

// known reports whether any numeric column has a value.
func (r *Row) known() bool { return r.has != 0 }
