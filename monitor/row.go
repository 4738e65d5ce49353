package monitor

import (
	"math"
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

	values [NumColumns]float64
	set    bool // values were initialised to NaN
}

// Value returns the value of a column and whether the row has one.
func (r *Row) Value(c Column) (float64, bool) {
	if !r.set || c < 0 || c >= NumColumns {
		return math.NaN(), false
	}
	v := r.values[c]
	return v, !math.IsNaN(v)
}

// Set stores a value; NaN clears it.
func (r *Row) Set(c Column, v float64) {
	if !r.set {
		for i := range r.values {
			r.values[i] = math.NaN()
		}
		r.set = true
	}
	r.values[c] = v
}

// known reports whether any numeric column has a value.
func (r *Row) known() bool {
	for _, v := range r.values {
		if r.set && !math.IsNaN(v) {
			return true
		}
	}
	return false
}
