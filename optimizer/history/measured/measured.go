// Package measured holds published measurements of trainings as entries of the runs database.
package measured

import "trainopt/optimizer/history"

// Embedded are the measurements in the binary, a fresh slice.
func Embedded() []history.Entry { return nil }

// Load reads the tables themselves below dir (sia-profiles, pollux-profiles, gavel, elasticflow, mlperf; those that are
// there): for evaluation only.
func Load(dir string) ([]history.Entry, error) { return nil, nil }

// Device is the published peak of a GPU model.
type Device struct {
	Name         string  // as package cost names it
	TFLOPS       float64 // dense, of the number format that trainings of its day use: tensor cores FP16/BF16, else FP32
	FP32         float64 // TFLOPS
	BandwidthGBs float64 // memory, GB/s
	MemoryGiB    float64
	LinkGBs      float64 // GPU to GPU in one machine, GB/s, 0 unknown
	Year         int
	Source       string
}

// Devices are all known GPU models by name.
func Devices() map[string]Device { return nil }
