package monitor

import (
	"context"
	"errors"
	"math"
	"time"
)

// ErrNoData says that a collector works but has nothing to say now. It is not a failure, and the
// fields it would have set stay NaN.
var ErrNoData = errors.New("no data")

// Sample is one reading of the machine and of the job. An unknown number is NaN, never 0.
type Sample struct {
	At   time.Time
	Host HostSample
	Tree TreeSample
	GPUs []GPUSample
}

// HostSample is the whole machine.
type HostSample struct {
	CPUPercent float64 // 0–100 over all CPUs, since the previous sample
	MemoryGiB  float64 // used, without cache
}

// TreeSample is the job's process tree.
type TreeSample struct {
	Procs      int
	CPUSeconds float64 // user + system since the tree started, finished children included where known
	CPUPercent float64 // since the previous sample; 100 is one CPU fully used
	MemoryGiB  float64 // anonymous + shared memory, page cache excluded, shared pages counted once where the kernel can say
	ReadBytes  float64 // cumulative bytes read from storage
	WriteBytes float64 // cumulative bytes written to storage
}

// GPUSample is one accelerator.
type GPUSample struct {
	UUID        string
	UtilPercent float64
	MemoryGiB   float64 // used on the device, by anyone
	TotalGiB    float64
	PowerW      float64
	EnergyJ     float64 // cumulative since the driver loaded
	PIDs        []int   // compute processes on the device
	// Processes says more of each, in the order of PIDs.
	Processes []GPUProcess
	// MIG is true for a slice of a device; Parent is then the UUID of the whole one. Utilisation, power and energy of
	// a slice are not known to the driver.
	MIG    bool
	Parent string
}

// GPUProcess is one compute process on a GPU. Its PID is that of the driver's process namespace, which inside of
// a container need not be ours.
type GPUProcess struct {
	PID         int
	MemoryGiB   float64
	UtilPercent float64 // of the multiprocessors, since the previous sample
}

// NoSample is a Sample in which nothing is known.
func NoSample(at time.Time) Sample {
	nan := math.NaN()
	return Sample{
		At:   at,
		Host: HostSample{CPUPercent: nan, MemoryGiB: nan},
		Tree: TreeSample{CPUSeconds: nan, CPUPercent: nan, MemoryGiB: nan, ReadBytes: nan, WriteBytes: nan},
	}
}

// Collector reads one part of a Sample. Collect sets only its own fields, must return before ctx
// ends, and returns ErrNoData when there is nothing to read.
type Collector interface {
	Name() string
	Collect(ctx context.Context, s *Sample) error
}
