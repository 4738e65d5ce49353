// Package workload provides the load of a cluster: jobs, from traces (LoadTrace) and from generators (NewGenerator,
// GenerateFile), and the speed of each type of job on each type of device (Throughputs). It does not simulate.
//
//	trace, err := workload.LoadTrace("jobs.trace.gz", "") // the format is detected from the contents
//	table := workload.GavelTable()
//	err = workload.Complete(trace.Jobs, table, "v100") // durations from steps
//	rate := table.Alone("k80", trace.Jobs[0].Type, trace.Jobs[0].GPUs)
package workload

import "trainopt/optimizer/schedule"

// Job is one training submitted to a cluster. Numbers missing in a trace are NaN.
type Job = schedule.Job
