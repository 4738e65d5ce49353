package training

import "trainopt/resources"

// Observation is what was measured of a job at one allocation, over a stretch without restarts.
// A unit is one unit of the job's own progress (an epoch, or a step where it counts steps).
type Observation struct {
	Allocation resources.Allocation
	// UnitSeconds are the measured seconds of each unit, warm-up excluded; at least one.
	UnitSeconds []float64
	// UnitSamples is the number of training samples in a unit, 0 when unknown.
	UnitSamples float64
	// PeakMemoryGiB is the measured peak of the job's memory, NaN when unknown.
	PeakMemoryGiB float64
	// Recalled is true for observations of an earlier run: they weigh less than this run's own.
	Recalled bool
	// LiveCut is true where the CPUs of a running process were changed: its thread pools keep their size, so the pace is
	// no evidence for a launch at that allocation, and Fit uses the peak of the memory alone.
	LiveCut bool
}
