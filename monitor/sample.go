package monitor

import (
	"context"
	"errors"
	"math"
	"time"
)

// ErrNoData reports that a collector works but currently has no data. It is not a failure; the fields that the
// collector would have set remain NaN.
var ErrNoData = errors.New("no data")

// Sample is one reading of the machine and of the job. An unknown number is NaN, never 0.
type Sample struct {
	At   time.Time
	Host hostSample
	Tree treeSample
	GPUs []GPUSample
}

// hostSample describes the whole machine.
type hostSample struct {
	CPUPercent float64 // 0–100 over all CPUs, since the previous sample
	MemoryGiB  float64 // used, without cache
	CPUEnergyJ float64 // of all processor packages since the first sample
}

// treeSample describes the job's process tree.
type treeSample struct {
	Procs      int
	CPUSeconds float64 // user + system since the tree started, including ended children where known
	CPUPercent float64 // since the previous sample; 100 is one fully used CPU
	MemoryGiB  float64 // anonymous + shared memory without page cache; shared pages count once where the kernel reports them
	ReadBytes  float64 // cumulative bytes read from storage
	WriteBytes float64 // cumulative bytes written to storage
}

// GPUSample describes one accelerator: a device or a MIG slice, of which the driver does not report utilization, power
// and energy.
type GPUSample struct {
	UUID        string
	UtilPercent float64
	MemoryGiB   float64 // used on the device, by all processes
	TotalGiB    float64
	PowerW      float64
	EnergyJ     float64 // cumulative since the driver was loaded
	PIDs        []int   // compute processes on the device, in the PID namespace of the driver
}

// NoSample returns a Sample in which every number is unknown.
func NoSample(at time.Time) Sample {
	nan := math.NaN()
	return Sample{
		At:   at,
		Host: hostSample{CPUPercent: nan, MemoryGiB: nan, CPUEnergyJ: nan},
		Tree: treeSample{CPUSeconds: nan, CPUPercent: nan, MemoryGiB: nan, ReadBytes: nan, WriteBytes: nan},
	}
}

// Collector reads one part of a Sample. Collect sets only its own fields, must return before ctx ends, and returns
// ErrNoData if there is nothing to read.
type Collector interface {
	Name() string
	Collect(ctx context.Context, s *Sample) error
}
