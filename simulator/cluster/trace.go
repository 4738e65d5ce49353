package cluster

import (
	"fmt"

	"trainopt/simulator/workload"
)

// TraceOptions defines the treatment of the jobs of a trace for which the throughput table has no rate. By default they
// are an error.
type TraceOptions struct {
	Reference string // device type on which durations hold
	Skip      bool   // leave such jobs out
	Draw      *int64 // seed to draw types for such jobs, see DrawTypes; nil: none are drawn
}

// CompleteTrace returns the jobs of a trace with steps and durations from a throughput table, and notes on all changes.
func CompleteTrace(jobs []workload.Job, table *workload.Throughputs, o TraceOptions) (out []workload.Job, notes []string, err error) {
	out = jobs
	if o.Skip {
		out = workload.Measured(jobs, table, o.Reference)
		if len(out) == 0 {
			return nil, nil, fmt.Errorf("the throughput table has no rate for any of its %d jobs", len(jobs))
		}
		if left := len(jobs) - len(out); left > 0 {
			notes = append(notes, fmt.Sprintf("%d of %d jobs are left out because their throughput was not measured: the simulated load is lower than that of the trace", left, len(jobs)))
		}
	}
	if o.Draw == nil {
		return out, notes, workload.Complete(out, table, o.Reference)
	}
	out, note, err := DrawTypes(out, table, o.Reference, *o.Draw)
	if note != "" {
		notes = append(notes, note)
	}
	return out, notes, err
}
