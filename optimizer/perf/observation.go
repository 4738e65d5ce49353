package perf

import "trainopt/resources"

// Effect is an unknown difference between two runs. Observations that name the same effect share it, each in its own measure, so
// that two other values of an argument show what a third one does.
type Effect struct {
	Name string // observations of one fit that share it
	// Level is the standard deviation of the logarithm of the seconds per unit against the run that is predicted, with a sign:
	// effects of one name act in proportion to it. Offset is the part of that difference that is known.
	Level, Offset float64
	// Slope is the same for each doubling of the GPUs, or CPUs where there are none, against Reference.
	Slope     float64
	Reference resources.Allocation
}

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
	// Effects are what may make a unit cost otherwise in the run that is predicted than where this was measured: other
	// arguments, another version of the script. Empty: nothing but what Recalled stands for.
	Effects []Effect
	// LiveCut is true where the CPUs of a running process were changed: its thread pools keep their size, so the pace is
	// no evidence for a launch at that allocation, and Fit uses the peak of the memory alone.
	LiveCut bool
}
