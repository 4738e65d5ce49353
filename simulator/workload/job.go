// Package workload is what a cluster is asked to run: jobs, from traces (LoadTrace) and from generators (NewGenerator, GenerateFile),
// and how fast each kind of job runs on each kind of device (Throughputs). It does not run them.
//
//	trace, err := workload.LoadTrace("jobs.trace.gz", "") // its format is told by its contents
//	table := workload.GavelTable()
//	err = workload.Complete(trace.Jobs, table, "v100") // durations from steps
//	rate := table.Alone("k80", trace.Jobs[0].Type, trace.Jobs[0].GPUs)
package workload

// Job is one training that is submitted to a cluster. A number that a trace does not say is NaN.
type Job struct {
	ID      int     // from 0 in order of arrival, unless the trace numbers them
	Type    string  // what is trained, as throughput tables name it: "ResNet-18 (batch size 64)"
	Arrival float64 // seconds from the start of the trace
	GPUs    int     // asked for; Gavel's scale factor
	Steps   float64 // of work, whole job; generated jobs have fractions
	Seconds float64 // alone on the reference device
	Weight  float64 // priority weight, 1 is normal
	SLO     float64 // deadline as a multiple of Seconds after arrival; NaN none
	// Deadline is absolute, seconds from the start of the trace; NaN none.
	Deadline float64
	// User and Queue (virtual cluster) where a trace names them.
	User, Queue string
	// Mode is how the batch size changes while the job runs, where a trace says it (Shockwave: static, accordion, gns).
	Mode string
}
