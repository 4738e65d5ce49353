package cluster

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"trainopt/simulator/workload"
)

// drawTypes assigns a type to the jobs of a trace for which a throughput table has no rate. It makes traces usable
// that contain only durations and numbers of devices (Philly) or types of jobs that were not measured (gavel-msr).
// The result is no longer that trace; note describes the changes and must accompany every figure.
//
// Types are drawn uniformly, by seed, from Gavel's templates that the table contains on reference with the same
// number of devices. A number of devices that was not measured is replaced by the next larger one that was, or by the
// largest. Durations are kept and determine the steps. A job with steps of a type that the table contains with fewer
// devices receives the duration of these steps on the largest measured number. Jobs in the table and the given list
// are not modified. The error names a job with neither steps nor a duration, as in the traces of Sia.
func drawTypes(jobs []workload.Job, table *workload.Throughputs, reference string, seed int64) (out []workload.Job, note string, err error) {
	d := drawing{table: table, reference: reference, python: workload.NewPython(seed), choices: map[int][]string{}}
	for g := range maxDevicesOfJob(table) {
		if types := d.typesFor(g + 1); len(types) > 0 {
			d.counts = append(d.counts, g+1)
		}
	}
	if len(d.counts) == 0 {
		return nil, "", fmt.Errorf("draw types: the throughput table has none of Gavel's on %s", reference)
	}
	out = slices.Clone(jobs)
	for i := range out {
		if table.Alone(reference, out[i].Type, out[i].GPUs) > 0 {
			continue
		}
		if err := d.draw(&out[i]); err != nil {
			return nil, "", fmt.Errorf("draw types: %w", err)
		}
	}
	if err := workload.Complete(out, table, reference); err != nil {
		return nil, "", fmt.Errorf("draw types: %w", err)
	}
	return out, d.note(len(out), seed), nil
}

// maxDevicesOfJob returns the largest number of devices for which a table contains rates.
func maxDevicesOfJob(table *workload.Throughputs) int {
	most := 0
	for _, n := range table.Counts() {
		most = max(most, n)
	}
	return most
}

// drawing is the state of drawTypes.
type drawing struct {
	table     *workload.Throughputs
	reference string
	python    *workload.Python
	counts    []int            // measured numbers of devices, ascending
	choices   map[int][]string // types by number of devices

	drawn, resized int
}

// typesFor returns the templates that the table contains with a number of devices.
func (d *drawing) typesFor(gpus int) []string {
	types, known := d.choices[gpus]
	if !known {
		for _, t := range workload.Templates {
			if d.table.Alone(d.reference, t.Type, gpus) > 0 {
				types = append(types, t.Type)
			}
		}
		d.choices[gpus] = types
	}
	return types
}

// draw assigns a measured number of devices and a type to a job.
func (d *drawing) draw(j *workload.Job) error {
	if math.IsNaN(j.Seconds) {
		if math.IsNaN(j.Steps) {
			return fmt.Errorf("job %d (%s): neither its steps nor its duration are known", j.ID, j.Type)
		}
		for g := min(j.GPUs, d.counts[len(d.counts)-1]); g > 0 && math.IsNaN(j.Seconds); g-- {
			if rate := d.table.Alone(d.reference, j.Type, g); rate > 0 {
				j.Seconds = j.Steps / rate
			}
		}
		if math.IsNaN(j.Seconds) {
			return fmt.Errorf("job %d (%s) on %d: it has no duration, and the table no rate to turn its steps into one", j.ID, j.Type, j.GPUs)
		}
	}
	// The smallest measured number of devices that suffices, or the largest one.
	gpus := d.counts[len(d.counts)-1]
	for _, n := range slices.Backward(d.counts) {
		if n >= j.GPUs {
			gpus = n
		}
	}
	if gpus != j.GPUs {
		d.resized++
		j.GPUs = gpus
	}
	d.drawn++
	j.Type, j.Steps = workload.Choice(d.python, d.typesFor(gpus)), math.NaN()
	return nil
}

func (d *drawing) note(jobs int, seed int64) string {
	if d.drawn == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the types of %d of %d jobs were drawn with seed %d from those of Gavel: what is simulated is not this trace", d.drawn, jobs, seed)
	if d.resized > 0 {
		fmt.Fprintf(&b, "; %d of them ask for a number of devices that was not measured, and have another", d.resized)
	}
	return b.String()
}
