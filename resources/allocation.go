package resources

import (
	"encoding/json"
	"fmt"
	"strings"
)

// GiB is an amount of memory in gibibytes (2^30 bytes).
type GiB float64

// Bytes returns the amount in bytes, rounded down; 0 for negative amounts.
func (g GiB) Bytes() uint64 {
	if g <= 0 {
		return 0
	}
	return uint64(float64(g) * (1 << 30))
}

// Allocation contains the resources and knobs of one training job. The zero value allocates nothing and is not valid;
// see Limits.Check.
type Allocation struct {
	// GPUs is the number of accelerators; 0 means a CPU job.
	GPUs int
	// GPUIDs are the devices by NVML UUID (or MIG UUID), in the job's order. Empty if the devices are not yet chosen.
	GPUIDs []string
	// CPUs is the number of logical CPUs, at least 1.
	CPUs int
	// Memory is host memory.
	Memory GiB
	// BatchSize is the total batch size offered to the script; 0 keeps the script's own.
	BatchSize int
	// NumWorkers is the number of data-loader workers offered; 0 keeps the script's own.
	NumWorkers int
	// Threads is the size of the thread pools (OpenMP, BLAS) of each process; 0 keeps the job's default.
	Threads int
}

// Same reports whether two allocations are equal in counts, memory, batch, workers and threads. The physical devices
// are ignored.
func (a Allocation) Same(b Allocation) bool {
	return a.SameShape(b) && a.Memory == b.Memory
}

// SameShape compares the fields that affect the speed of a job with sufficient memory: GPUs, CPUs, batch, threads and
// loader workers. Memory and the physical devices are ignored.
func (a Allocation) SameShape(b Allocation) bool {
	return a.GPUs == b.GPUs && a.CPUs == b.CPUs && a.BatchSize == b.BatchSize && a.Threads == b.Threads && a.NumWorkers == b.NumWorkers
}

// String returns a short phrase for the user, such as "2 GPU, 8 CPU, 16 GiB, batch 256".
func (a Allocation) String() string {
	parts := []string{}
	if a.GPUs > 0 {
		parts = append(parts, fmt.Sprintf("%d GPU", a.GPUs))
	}
	parts = append(parts, fmt.Sprintf("%d CPU", a.CPUs), a.Memory.size())
	if a.BatchSize > 0 {
		parts = append(parts, fmt.Sprintf("batch %d", a.BatchSize))
	}
	if a.Threads > 0 {
		parts = append(parts, fmt.Sprintf("%d thread%s", a.Threads, map[bool]string{true: "s"}[a.Threads > 1]))
	}
	if a.NumWorkers > 0 {
		parts = append(parts, fmt.Sprintf("%d loader worker%s", a.NumWorkers, map[bool]string{true: "s"}[a.NumWorkers > 1]))
	}
	return strings.Join(parts, ", ")
}

// size formats the memory with three significant digits, whole GiB from 100 up: "0.25 GiB", "22.2 GiB", "1152 GiB".
func (g GiB) size() string {
	if g >= 99.95 {
		return fmt.Sprintf("%.0f GiB", float64(g))
	}
	return fmt.Sprintf("%.3g GiB", float64(g))
}

// allocationJSON is the JSON form of an Allocation.
type allocationJSON struct {
	GPUs       int      `json:"gpus"`
	GPUIDs     []string `json:"gpu_ids"`
	CPUs       int      `json:"cpus"`
	Memory     GiB      `json:"memory_gib"`
	BatchSize  *int     `json:"batch_size"`
	NumWorkers *int     `json:"num_workers"`
	Threads    int      `json:"threads,omitempty"`
}

// MarshalJSON encodes batch_size and num_workers as null, and omits threads, if the script's own values apply.
func (a Allocation) MarshalJSON() ([]byte, error) {
	j := allocationJSON{GPUs: a.GPUs, GPUIDs: a.GPUIDs, CPUs: a.CPUs, Memory: a.Memory, Threads: max(a.Threads, 0)}
	if j.GPUIDs == nil {
		j.GPUIDs = []string{}
	}
	if a.BatchSize > 0 {
		j.BatchSize = &a.BatchSize
	}
	if a.NumWorkers > 0 {
		j.NumWorkers = &a.NumWorkers
	}
	return json.Marshal(j)
}

// UnmarshalJSON decodes the encoding of MarshalJSON.
func (a *Allocation) UnmarshalJSON(data []byte) error {
	var j allocationJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	*a = Allocation{GPUs: j.GPUs, CPUs: j.CPUs, Memory: j.Memory, Threads: j.Threads}
	if len(j.GPUIDs) > 0 {
		a.GPUIDs = j.GPUIDs
	}
	if j.BatchSize != nil {
		a.BatchSize = *j.BatchSize
	}
	if j.NumWorkers != nil {
		a.NumWorkers = *j.NumWorkers
	}
	return nil
}

// Range is an inclusive range of integers; Min ≤ Max in a valid one.
type Range struct {
	Min int `json:"min"`
	Max int `json:"max"`
}

// Limits bounds the allocations of a job.
type Limits struct {
	GPUs Range `json:"gpus"`
	CPUs Range `json:"cpus"`
	// MemoryMin and MemoryMax bound host memory; MemoryMax is also the enforced hard limit.
	MemoryMin GiB `json:"memory_min_gib"`
	MemoryMax GiB `json:"memory_max_gib"`
	// BatchSize is the range that the script supports; the zero Range keeps the script's own.
	BatchSize Range `json:"batch_size"`
}
