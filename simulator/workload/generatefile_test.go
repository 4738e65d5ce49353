package workload

import (
	"errors"
	"fmt"
	"math"
)

// FileOptions configure Gavel's generator of trace files. The zero value of a field is the default of that generator.
type FileOptions struct {
	Seed int64
	Jobs int // at least 1
	// Lambda is the mean time between arrivals in seconds; 0 means that all jobs arrive at time 0.
	Lambda float64
	// MultiGPU draws 1, 2 or 4 GPUs for 70, 10 and 20 % of the jobs that can run on several.
	MultiGPU bool
	// Durations are drawn with equal probability from that number of evenly spaced values from MinHours to MaxHours,
	// both included: 1, 2, 3 and 4 hours if all three fields are 0.
	MinHours, MaxHours float64
	Durations          int
	// Reference is the device type of the durations; "" means v100.
	Reference string
}

func (o FileOptions) withDefaults() FileOptions {
	if o.MinHours == 0 && o.MaxHours == 0 {
		o.MinHours, o.MaxHours = 1, 4
	}
	if o.Durations == 0 {
		o.Durations = 4
	}
	if o.Reference == "" {
		o.Reference = "v100"
	}
	return o
}

// Validate joins all problems.
func (o FileOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	if o.Jobs < 1 || o.Jobs > maxJobs {
		errs = append(errs, fmt.Errorf("%d jobs: want 1 to %d", o.Jobs, maxJobs))
	}
	if !(o.Lambda >= 0) || o.Lambda > maxSeconds {
		errs = append(errs, fmt.Errorf("mean time between arrivals %v s: want a number from 0", o.Lambda))
	}
	if !(o.MinHours > 0) || !(o.MaxHours >= o.MinHours) || o.MaxHours > maxSeconds/3600 {
		errs = append(errs, fmt.Errorf("durations of %v to %v hours: want numbers above 0, the smaller one first", o.MinHours, o.MaxHours))
	}
	if o.Durations < 1 || o.Durations > maxJobs {
		errs = append(errs, fmt.Errorf("%d different durations: want at least 1", o.Durations))
	}
	return errors.Join(errs...)
}

// GenerateFile draws the jobs that Gavel's scripts/utils/generate_trace.py writes into a trace file, from the streams
// seed for types, +1 for arrivals, +2 for durations and +3 for GPUs. Steps and arrivals are integers.
func GenerateFile(o FileOptions, table *Throughputs) ([]Job, error) {
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("generate a trace: %w", err)
	}
	o = o.withDefaults()
	counts := []int{1}
	if o.MultiGPU {
		counts = []int{1, 2, 4}
	}
	if err := requireTemplates(table, o.Reference, counts); err != nil {
		return nil, err
	}
	kinds, arrivals, durations, sizes := NewPython(o.Seed), NewPython(o.Seed+1), NewPython(o.Seed+2), NewPython(o.Seed+3)
	hours := evenly(o.MinHours, o.MaxHours, o.Durations)
	jobs := make([]Job, o.Jobs)
	at := 0.0
	for i := range jobs {
		t := Choice(kinds, Templates)
		j := Job{ID: i, Type: t.Type, GPUs: 1, Weight: 1, SLO: math.NaN(), Deadline: math.NaN()}
		if o.MultiGPU && t.Distributed {
			j.GPUs = min(gpusOf(sizes.Uniform(0, 1)), 4)
		}
		j.Seconds = Choice(durations, hours) * 3600
		j.Steps = max(1, math.Floor(table.Alone(o.Reference, j.Type, j.GPUs)*j.Seconds))
		if i > 0 && o.Lambda > 0 {
			at += float64(-math.Log(1-arrivals.Random()) * o.Lambda)
		}
		j.Arrival = math.Floor(at)
		jobs[i] = j
	}
	return jobs, nil
}

// evenly implements linspace of NumPy.
func evenly(from, to float64, n int) []float64 {
	out := make([]float64, n)
	step := (to - from) / float64(max(n-1, 1))
	for i := range out {
		out[i] = float64(float64(i)*step) + from
	}
	if n > 1 {
		out[n-1] = to
	}
	return out
}
