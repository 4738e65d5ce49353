package perf

import "trainopt/resources"

// Effect is an unknown difference between two runs. Observations that name the same effect share it, each scaled by
// its Level, so that runs with two other values of an argument inform the prediction for a third.
type Effect struct {
	Name string // shared by the observations of one fit
	// Level is the signed standard deviation of the log seconds per unit against the predicted run; effects of one
	// name act in proportion to it. Offset is the known part of that difference.
	Level, Offset float64
	// Slope is the level of a second effect, per doubling of the GPUs (of the CPUs for a job without GPUs) against
	// Reference.
	Slope     float64
	Reference resources.Allocation
}

// Observation is a measurement of a job at one allocation, over a segment without restarts. A unit is one unit of the
// job's own progress (an epoch or a step).
type Observation struct {
	Allocation resources.Allocation
	// UnitSeconds are the measured seconds of each unit, warm-up excluded; at least one.
	UnitSeconds []float64
	// UnitSamples is the number of training samples in a unit, 0 when unknown.
	UnitSamples float64
	// PeakMemoryGiB is the measured peak of the job's memory, NaN when unknown.
	PeakMemoryGiB float64
	// Used is further evidence about the curve.
	Used Utilization
	// Recalled is true for observations of an earlier run; they weigh less than this run's own.
	Recalled bool
	// Effects are possible causes of a different pace in the predicted run than in this observation: other arguments,
	// another version of the script. Empty means none besides the offset implied by Recalled.
	Effects []Effect
	// Inferred is true for a value predicted from other trainings. It informs the curve with the width of its Effects,
	// but its allocation does not count as measured.
	Inferred bool
	// LiveCut is true when the CPUs of a running process were changed. Its thread pools keep their size, so the pace
	// is no evidence for a launch at that allocation, and Fit uses only the peak memory.
	LiveCut bool
}
