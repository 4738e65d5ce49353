package plan

import (
	"cmp"
	"math"
	"slices"

	"trainopt/resources"
)

const (
	denseCPUs  = 32  // every CPU count up to this one is a candidate
	cpuStep    = 1.2 // ratio between larger CPU counts
	manyCounts = 12  // approximate number of CPU counts when combined with several GPU counts or batch sizes
)

// Allocations enumerates the allowed allocations, in ascending order of GPUs, CPUs and batch size:
//
//   - every GPU count;
//   - every CPU count up to 32 (about a dozen in geometric steps when combined with several GPU counts or batch
//     sizes), then geometric steps of 1.2; always both ends, the measured counts, Current and Baseline;
//   - the baseline's batch size; with a range, also the powers of two within it (its ends when it contains none), up
//     to twice the largest measured batch per GPU (that of the baseline when none is measured), since a larger one
//     may not fit in device memory; always the smallest;
//   - when ThreadKnob is set, one thread per process as an alternative to the job's default, at the baseline's GPUs,
//     CPUs and batch size;
//   - the memory that is charged, if it follows from GPUs and CPUs; otherwise one size: the measured requirement,
//     within the limits; when not measured, the baseline's, or else the maximum allowed, since less might kill the job.
//
// Loader workers are the baseline's; at the baseline's GPUs, CPUs and batch size also the measured counts within
// Workers.
func Allocations(s Snapshot) []resources.Allocation {
	gpus := counts(s.Limits.GPUs)
	batches := batchSizes(s)
	cpus := cpuCounts(s, len(gpus)*len(batches) > 1)
	memory, largest := memoryFor(s), largestBatch(s, batches)
	out := make([]resources.Allocation, 0, len(gpus)*len(cpus)*len(batches))
	for _, g := range gpus {
		for _, c := range cpus {
			for _, b := range batches {
				own := b == s.Baseline.BatchSize && g == s.Baseline.GPUs
				if b != batches[0] && !own && perGPU(b, g) > largest {
					continue
				}
				a := withCharged(resources.Allocation{GPUs: g, CPUs: c, Memory: memory, BatchSize: b, NumWorkers: s.Baseline.NumWorkers}, s)
				out = append(out, a)
				if own && c == s.Baseline.CPUs {
					for _, n := range workerCounts(s) {
						with := a
						with.NumWorkers = n
						out = append(out, with)
					}
				}
				if s.ThreadKnob && own && c == s.Baseline.CPUs && (c > 1 || g > 0) {
					a.Threads = 1
					out = append(out, a)
				}
			}
		}
	}
	return out
}

// workerCounts returns the worker counts within Workers, other than the baseline's, that are measured or current,
// ascending.
func workerCounts(s Snapshot) []int {
	var out []int
	add := func(a resources.Allocation) {
		if n := a.NumWorkers; n != s.Baseline.NumWorkers && n >= s.Workers.Min && n <= s.Workers.Max && n > 0 {
			out = append(out, n)
		}
	}
	if s.Current != nil {
		add(*s.Current)
	}
	if s.Model != nil {
		for _, a := range s.Model.Measured() {
			add(a)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// counts returns the integers of a range that are not negative. A Max below Min yields Min alone.
func counts(r resources.Range) []int {
	lo := max(r.Min, 0)
	var out []int
	for n := lo; n <= max(r.Max, lo); n++ {
		out = append(out, n)
	}
	return out
}

// cpuCounts returns the candidate CPU counts within the limits, ascending. With thin, about manyCounts geometric
// steps replace the dense part. Limits, Baseline, Current and the measured counts are always included.
func cpuCounts(s Snapshot, thin bool) []int {
	lo := max(s.Limits.CPUs.Min, 1)
	hi := max(s.Limits.CPUs.Max, lo)
	out := []int{lo, hi}
	add := func(n int) {
		if n >= lo && n <= hi {
			out = append(out, n)
		}
	}
	dense, ratio := min(denseCPUs, hi), cpuStep
	if thin && hi-lo >= manyCounts {
		dense, ratio = 0, max(cpuStep, math.Pow(float64(hi)/float64(lo), 1.0/manyCounts))
	}
	for n := lo; n <= dense; n++ {
		add(n)
	}
	for x := float64(max(lo, dense)); x <= float64(hi); x *= ratio {
		add(int(math.Round(x)))
	}
	add(s.Baseline.CPUs)
	if s.Current != nil {
		add(s.Current.CPUs)
	}
	if s.Model != nil {
		for _, a := range s.Model.Measured() {
			add(a.CPUs)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// batchSizes returns the candidate batch sizes, ascending; 0 is the default of the script.
func batchSizes(s Snapshot) []int {
	r := s.Limits.BatchSize
	if r.Max <= 0 {
		return []int{s.Baseline.BatchSize}
	}
	var out []int
	for b := 1; b <= r.Max; b *= 2 {
		if b >= r.Min {
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		out = []int{max(r.Min, 1), r.Max}
	}
	if b := s.Baseline.BatchSize; b == 0 || b >= r.Min && b <= r.Max {
		out = append(out, b)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// largestBatch returns the largest batch per GPU (on CPUs, in total) that may be tried.
func largestBatch(s Snapshot, batches []int) float64 {
	largest := 0.0
	if s.Model != nil {
		for _, a := range s.Model.Measured() {
			largest = max(largest, 2*perGPU(a.BatchSize, a.GPUs))
		}
	}
	largest = cmp.Or(largest, perGPU(s.Baseline.BatchSize, s.Baseline.GPUs))
	for _, b := range batches {
		largest = cmp.Or(largest, float64(b))
	}
	return largest
}

func perGPU(batch, gpus int) float64 { return float64(batch) / float64(max(gpus, 1)) }

// memoryFor returns the memory size of every candidate; see Allocations.
func memoryFor(s Snapshot) resources.GiB {
	m := s.Memory
	if m <= 0 {
		m = s.Baseline.Memory
	}
	if m <= 0 {
		m = s.Limits.MemoryMax
	}
	return clipMemory(m, s)
}

// clipMemory restricts a memory size to the limits and to the SLA maximum.
func clipMemory(m resources.GiB, s Snapshot) resources.GiB {
	m = max(m, s.Limits.MemoryMin)
	if s.Limits.MemoryMax > 0 {
		m = min(m, s.Limits.MemoryMax)
	}
	if limit := resources.GiB(s.Spec.MemoryMaxGiB); limit > 0 {
		m = min(m, limit)
	}
	return m
}

// withCharged returns the allocation with the memory that is charged for it, if that follows from its GPUs and CPUs.
func withCharged(a resources.Allocation, s Snapshot) resources.Allocation {
	if s.Charged != nil {
		a.Memory = clipMemory(s.Charged(a).Memory, s)
	}
	return a
}

// clip returns the allocation restricted to the limits.
func clip(a resources.Allocation, s Snapshot) resources.Allocation {
	l := s.Limits
	gpus := min(max(a.GPUs, l.GPUs.Min, 0), max(l.GPUs.Max, l.GPUs.Min, 0))
	if gpus != a.GPUs {
		a.GPUIDs = nil
	}
	a.GPUs = gpus
	a.CPUs = min(max(a.CPUs, l.CPUs.Min, 1), max(l.CPUs.Max, l.CPUs.Min, 1))
	if a.Memory <= 0 {
		a.Memory = memoryFor(s)
	}
	a.Memory = clipMemory(a.Memory, s)
	a = withCharged(a, s)
	if l.BatchSize.Max > 0 && a.BatchSize > 0 {
		a.BatchSize = min(max(a.BatchSize, l.BatchSize.Min), l.BatchSize.Max)
	}
	return a
}
