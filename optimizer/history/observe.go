package history

import (
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/perf"
	"trainopt/resources"
)

// logObservations returns the measured unit times of a log, one observation per allocation and batch size, for the
// performance model. Missing GPU or CPU counts are taken from fallback. Segments without unit times yield no
// observation.
func logObservations(log trainingLog, fallback resources.Allocation) []perf.Observation {
	type key struct{ gpus, cpus, batch int }
	var out []perf.Observation
	var firsts [][]float64
	index := map[key]int{}
	for _, m := range log.stretches {
		if m.times.n == 0 {
			continue
		}
		e := &log.Entries[m.entry]
		a := fallback
		if e.Observed.GPUs >= 0 {
			a.GPUs, a.GPUIDs = int(e.Observed.GPUs), nil
		}
		if e.Observed.CPUs >= 1 {
			a.CPUs = int(e.Observed.CPUs)
		}
		k := key{gpus: a.GPUs, cpus: a.CPUs}
		if e.Observed.Batch >= 1 {
			k.batch = int(e.Observed.Batch)
		}
		at, seen := index[k]
		if !seen {
			at = len(out)
			index[k] = at
			out = append(out, perf.Observation{Allocation: a, PeakMemoryGiB: math.NaN(), Recalled: true})
			firsts = append(firsts, nil)
		}
		ob := &out[at]
		ob.UnitSeconds = append(ob.UnitSeconds, m.times.kept...)
		firsts[at] = append(firsts[at], m.times.first)
		switch {
		case m.unit == byEpoch && e.Job.DataCount > 0:
			ob.UnitSamples = e.Job.DataCount
		case m.unit == byStep && e.Observed.Batch > 0:
			ob.UnitSamples = e.Observed.Batch
		}
		if !(e.PeakMemoryGiB <= ob.PeakMemoryGiB) && !math.IsNaN(e.PeakMemoryGiB) {
			ob.PeakMemoryGiB = e.PeakMemoryGiB
		}
	}
	for i := range out {
		if len(out[i].UnitSeconds) > 0 {
			continue
		}
		out[i].UnitSeconds = firsts[i] // warm-up times are better than none
		if len(firsts[i]) > 1 {
			out[i].UnitSeconds = firsts[i][1:]
		}
	}
	return out
}

// recalledLogs holds what the logs of earlier runs contribute to a new run.
type recalledLogs struct {
	Observations []perf.Observation
	// Epochs is the largest epoch count of the logs; 0 if no log contains one.
	Epochs float64
	// Notes name the logs that were not used, and the skipped rows and assumed values of the others.
	Notes []string
}

// RecallLogs reads the logs of earlier runs of a job. Logs that are unreadable or lack times are named in the notes and
// left out.
func RecallLogs(paths []string, o LogOptions, fallback resources.Allocation) recalledLogs {
	var out recalledLogs
	for _, path := range paths {
		log, err := ReadLog(path, o)
		if err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("offline log: %v", err))
			continue
		}
		note := func(format string, args ...any) {
			out.Notes = append(out.Notes, fmt.Sprintf("offline log %s", path)+fmt.Sprintf(format, args...))
		}
		out.Epochs = math.Max(out.Epochs, log.epochs)
		if log.Bad > 0 {
			note(": %s", log.skipped())
		}
		found := logObservations(log, fallback)
		if len(found) == 0 {
			note(": %s: not used", noTimes)
			continue
		}
		if log.lacksCPUCount() {
			note(" does not record cpu_count: %s assumed", fallback)
		}
		out.Observations = append(out.Observations, found...)
	}
	return out
}

// lacksCPUCount reports whether a segment with unit times has no CPU count.
func (log *trainingLog) lacksCPUCount() bool {
	return slices.ContainsFunc(log.stretches, func(m measured) bool {
		return m.times.n > 0 && math.IsNaN(log.Entries[m.entry].Observed.CPUs)
	})
}
