package history

import (
	"fmt"
	"math"

	"trainopt/monitor"
	"trainopt/resources"
	"trainopt/simulator/training"
)

// ReadLogs turns training logs of earlier runs, written by any framework that monitor can read, into
// observations. A log must say at which GPU and CPU count it was made (gpu_count, cpu_count); one that does not
// is taken to be made at fallback, and a note says so. A log that cannot be read or has no epoch times is named
// in the notes and left out.
func ReadLogs(paths []string, aliases map[string]string, fallback resources.Allocation) ([]training.Observation, []string) {
	var out []training.Observation
	var notes []string
	for _, path := range paths {
		rows, stats, err := monitor.ReadLog(path, monitor.TailOptions{Aliases: aliases})
		if err != nil {
			notes = append(notes, fmt.Sprintf("offline log: %v", err))
			continue
		}
		if stats.Bad > 0 {
			notes = append(notes, fmt.Sprintf("offline log %s: %d of %d rows skipped, first: %s", path, stats.Bad, stats.Rows+stats.Bad, stats.FirstBad[0]))
		}
		obs, assumed := observe(rows, fallback)
		if len(obs) == 0 {
			notes = append(notes, fmt.Sprintf("offline log %s: no column with the time of an epoch (epoch_time or time_so_far): not used", path))
			continue
		}
		if assumed {
			notes = append(notes, fmt.Sprintf("offline log %s does not say cpu_count: taken to be made with %s", path, fallback))
		}
		out = append(out, obs...)
	}
	return out, notes
}

// observe groups the rows of one log by allocation; the first row of each group is warm-up when there are others.
func observe(rows []monitor.Row, fallback resources.Allocation) (out []training.Observation, assumed bool) {
	index := map[[3]int]int{}
	before := math.NaN()
	for i := range rows {
		row := &rows[i]
		seconds, ok := row.Value(monitor.EpochTime)
		sofar, hasSofar := row.Value(monitor.TimeSoFar)
		if !ok && hasSofar && sofar > before {
			seconds, ok = sofar-before, true
		}
		before = sofar
		if !ok || !(seconds > 0) || math.IsInf(seconds, 0) {
			continue
		}
		a := fallback
		if v, ok := row.Value(monitor.GPUCount); ok && v >= 0 {
			a.GPUs, a.GPUIDs = int(v), nil
		}
		if v, ok := row.Value(monitor.CPUCount); ok && v >= 1 {
			a.CPUs = int(v)
		} else {
			assumed = true
		}
		batch, _ := row.Value(monitor.BatchSize)
		key := [3]int{a.GPUs, a.CPUs, int(math.Max(0, batch))}
		at, seen := index[key]
		if !seen {
			at = len(out)
			index[key] = at
			out = append(out, training.Observation{Allocation: a, PeakMemoryGiB: math.NaN(), Recalled: true})
		}
		o := &out[at]
		o.UnitSeconds = append(o.UnitSeconds, seconds)
		if n, ok := row.Value(monitor.DataCount); ok && n > 0 {
			o.UnitSamples = n
		}
		if m, ok := row.Value(monitor.MemoryUsed); ok && !(m <= o.PeakMemoryGiB) {
			o.PeakMemoryGiB = m
		}
	}
	for i := range out {
		if len(out[i].UnitSeconds) > 1 {
			out[i].UnitSeconds = out[i].UnitSeconds[1:]
		}
	}
	return out, assumed
}

// Epochs is the largest epoch count of the logs; 0 when none says.
func Epochs(paths []string, aliases map[string]string) float64 {
	most := 0.0
	for _, path := range paths {
		rows, _, err := monitor.ReadLog(path, monitor.TailOptions{Aliases: aliases})
		if err != nil {
			continue
		}
		for i := range rows {
			if v, ok := rows[i].Value(monitor.TotalEpochs); ok {
				most = math.Max(most, v)
			} else if v, ok := rows[i].Value(monitor.Epoch); ok {
				most = math.Max(most, v)
			}
		}
	}
	return most
}
