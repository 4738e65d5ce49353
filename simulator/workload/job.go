// Package workload provides the load of a cluster: jobs, from traces (LoadTrace) and from generators (NewGenerator,
// GenerateFile), and the speed of each type of job on each type of device (Throughputs). It does not simulate.
//
//	trace, err := workload.LoadTrace("jobs.trace.gz", "") // the format is detected from the contents
//	table := workload.GavelTable()
//	err = workload.Complete(trace.Jobs, table, "v100") // durations from steps
//	rate := table.Alone("k80", trace.Jobs[0].Type, trace.Jobs[0].GPUs)
package workload

// Job is one training submitted to a cluster. Numbers missing in a trace are NaN.
type Job struct {
	ID      int     // from 0 in order of arrival, unless the trace contains ids
	Type    string  // model name in throughput tables: "ResNet-18 (batch size 64)"
	Arrival float64 // seconds from the start of the trace
	GPUs    int     // requested; Gavel's scale factor
	Steps   float64 // total steps of work; generated jobs have fractions
	Seconds float64 // duration alone on the reference device
	Weight  float64 // priority weight, 1 is normal
	SLO     float64 // deadline as a multiple of Seconds after arrival; NaN none
	// Deadline is in seconds from the start of the trace; NaN if none.
	Deadline float64
	// User and Queue (virtual cluster), if the trace contains them.
	User, Queue string
	// Mode is the adaptation of the batch size during the run, if the trace contains it (Shockwave: static, accordion,
	// gns).
	Mode string
}
