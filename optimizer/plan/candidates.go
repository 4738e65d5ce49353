package plan

import (
	"math"
	"slices"

	"trainopt/resources"
)

const (
	denseCPUs  = 32  // every CPU count up to here is a candidate
	cpuStep    = 1.2 // ratio between CPU counts beyond
	manyCounts = 12  // with several GPU counts or batches, CPU counts are thinned to about this many
)

// Allocations lists what is allowed, in ascending order of GPUs, CPUs and batch:
//
//   - every GPU count;
//   - every CPU count to 32 (about a dozen in geometric steps when GPU counts or batches multiply them), then geometric
//     steps of 1.2; always both ends, what was measured, Current and Baseline;
//   - the baseline's batch; and the powers of two in the range when one is given (its ends when it holds none), up to
//     twice the largest batch per GPU that was measured (that of the baseline while none was), as a larger one may not
//     fit in the device; always the smallest;
//   - one thread a process, beside the job's own default, at the baseline's GPUs, CPUs and batch where ThreadKnob is set;
//   - one memory: what the job needs by measurement, within the limits; when not measured, the baseline's, or else
//     the most that is allowed, as less might kill the job.
//
// Loader workers are the baseline's, and at the baseline's GPUs, CPUs and batch also those that were measured within Workers.
func Allocations(s Snapshot) []resources.Allocation {
	gpus := counts(s.Limits.GPUs, 0)
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
				a := resources.Allocation{GPUs: g, CPUs: c, Memory: memory, BatchSize: b, NumWorkers: s.Baseline.NumWorkers}
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

// workerCounts are the numbers of workers in Workers, beside that of the baseline, that were measured or hold now, ascending.
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

// counts lists a range; Max below Min counts as Min alone, and nothing below least.
func counts(r resources.Range, least int) []int {
	lo := max(r.Min, least)
	var out []int
	for n := lo; n <= max(r.Max, lo); n++ {
		out = append(out, n)
	}
	return out
}

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

// largestBatch is the largest batch per GPU (in all, on CPUs) that may be tried.
func largestBatch(s Snapshot, batches []int) float64 {
	largest := 0.0
	if s.Model != nil {
		for _, a := range s.Model.Measured() {
			largest = max(largest, 2*perGPU(a.BatchSize, a.GPUs))
		}
	}
	if largest == 0 {
		largest = perGPU(s.Baseline.BatchSize, s.Baseline.GPUs)
	}
	for _, b := range batches {
		if largest == 0 {
			largest = float64(b)
		}
	}
	return largest
}

func perGPU(batch, gpus int) float64 { return float64(batch) / float64(max(gpus, 1)) }

// memoryFor is the memory that every candidate gets; see Allocations.
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

// clip puts an allocation within the limits.
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
	if l.BatchSize.Max > 0 && a.BatchSize > 0 {
		a.BatchSize = min(max(a.BatchSize, l.BatchSize.Min), l.BatchSize.Max)
	}
	return a
}
