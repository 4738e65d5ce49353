package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Throughputs contains measured steps per second of job types on device types, alone and paired with another job, by
// number of devices. It is immutable and safe for concurrent use.
type Throughputs struct {
	devices, types []string
	deviceIndex    map[string]int
	typeIndex      map[string]int
	counts         []int              // measured numbers of devices, ascending
	cells          []cell             // [device][count][type]
	work           map[string]float64 // steps of a whole training, by type; nil if unknown
}

// cell contains the measurements of a job type on a number of devices of a type.
type cell struct {
	measured bool
	alone    float64
	beside   []neighbour // by type
}

// neighbour is the pair of rates of a job type with another one.
type neighbour struct {
	other        int
	mine, others float64
}

// Devices returns the device types of the table, sorted. In types named "…_unconsolidated" the devices of a job are
// spread over machines.
func (t *Throughputs) Devices() []string { return slices.Clone(t.devices) }

// Types returns the job types of the table, in the order of the table.
func (t *Throughputs) Types() []string { return slices.Clone(t.types) }

// Counts returns the measured numbers of devices, ascending.
func (t *Throughputs) Counts() []int { return slices.Clone(t.counts) }

// Alone returns the steps per second of a whole job on a number of devices of a type; 0 if it does not fit or was not
// measured.
func (t *Throughputs) Alone(device, job string, gpus int) float64 {
	if c := t.find(device, job, gpus); c != nil {
		return c.alone
	}
	return 0
}

// Work returns the steps of a whole training of a job type, NaN if the table does not contain them.
func (t *Throughputs) Work(job string) float64 {
	if steps, ok := t.work[job]; ok {
		return steps
	}
	return math.NaN()
}

// Measured reports whether the table contains the job type on a number of devices of a type, including a measurement
// that it does not fit.
func (t *Throughputs) Measured(device, job string, gpus int) bool {
	c := t.find(device, job, gpus)
	return c != nil && c.measured
}

// Beside returns the steps per second of two jobs sharing the same number of devices; ok is false if the table does
// not contain the pair. The rates are 0 if the two do not fit together. Values have the precision of the table;
// Gavel's packed policies (not its simulation) round them to 32 bits.
func (t *Throughputs) Beside(device, a, b string, gpus int) (ra, rb float64, ok bool) {
	c := t.find(device, a, gpus)
	other, known := t.typeIndex[b]
	if c == nil || !known {
		return 0, 0, false
	}
	i, ok := slices.BinarySearchFunc(c.beside, other, func(n neighbour, o int) int { return cmp.Compare(n.other, o) })
	if !ok {
		return 0, 0, false
	}
	return c.beside[i].mine, c.beside[i].others, true
}

// find returns the cell of a measurement, nil if the table has no such device, job type or number of devices.
func (t *Throughputs) find(device, job string, gpus int) *cell {
	d, ok1 := t.deviceIndex[device]
	j, ok2 := t.typeIndex[job]
	n, ok3 := slices.BinarySearch(t.counts, gpus)
	if !ok1 || !ok2 || !ok3 {
		return nil
	}
	return &t.cells[(d*len(t.counts)+n)*len(t.types)+j]
}

// Rate is one measurement of a table: steps per second of a job type on a number of devices of a type, alone or paired
// with another job.
type Rate struct {
	Device, Job string
	GPUs        int
	Other       string // "" if alone
	PerSecond   float64
	OtherRate   float64 // of the other job
}

// maxCells bounds a table: device types × numbers of devices × job types.
const maxCells = 1 << 20

// NewThroughputs returns a table of measurements. Devices and job types are collected from rates; types are in the
// order of their first occurrence as Job. A pair applies in both directions and may be listed in one or both. A
// measurement listed twice with different rates, a negative rate and NaN are errors.
func NewThroughputs(rates []Rate) (*Throughputs, error) { return newThroughputs(nil, rates) }

// newThroughputs numbers the given types first, then those of the rates.
func newThroughputs(types []string, rates []Rate) (*Throughputs, error) {
	t := &Throughputs{deviceIndex: map[string]int{}, typeIndex: map[string]int{}}
	for _, job := range types {
		t.number(job)
	}
	for _, r := range rates {
		if err := r.check(); err != nil {
			return nil, err
		}
		t.devices = append(t.devices, r.Device)
		t.counts = append(t.counts, r.GPUs)
		t.number(r.Job)
	}
	for _, r := range rates {
		if r.Other != "" {
			t.number(r.Other)
		}
	}
	t.devices, t.counts = unique(t.devices), unique(t.counts)
	for i, d := range t.devices {
		t.deviceIndex[d] = i
	}
	size := len(t.devices) * len(t.counts) * len(t.types)
	if size > maxCells {
		return nil, fmt.Errorf("%d device types × %d numbers of devices × %d job types: a table has at most %d combinations",
			len(t.devices), len(t.counts), len(t.types), maxCells)
	}
	t.cells = make([]cell, size)
	for _, r := range rates {
		if err := t.put(r); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// number assigns the next index to a job type unless it has one.
func (t *Throughputs) number(job string) {
	if _, seen := t.typeIndex[job]; !seen {
		t.typeIndex[job] = len(t.types)
		t.types = append(t.types, job)
	}
}

// check validates names, number of devices and rates.
func (r Rate) check() error {
	switch {
	case r.Device == "" || r.Job == "":
		return fmt.Errorf("a rate of job type %q on device type %q: a name is missing", r.Job, r.Device)
	case strings.ContainsFunc(r.Device+r.Job+r.Other, unicode.IsControl):
		return fmt.Errorf("a rate of job type %q beside %q on device type %q: a name has control characters", r.Job, r.Other, r.Device)
	case r.GPUs < 1:
		return fmt.Errorf("%s on %s: %d devices, want at least 1", r.Job, r.Device, r.GPUs)
	case !(r.PerSecond >= 0) || !(r.OtherRate >= 0) || math.IsInf(r.PerSecond, 1) || math.IsInf(r.OtherRate, 1):
		return fmt.Errorf("%s on %d %s: steps per second of %v and %v, want numbers from 0", r.Job, r.GPUs, r.Device, r.PerSecond, r.OtherRate)
	}
	return nil
}

// put enters a measurement; a pair is entered in both directions.
func (t *Throughputs) put(r Rate) error {
	c := t.find(r.Device, r.Job, r.GPUs)
	if r.Other == "" {
		if c.measured && c.alone != r.PerSecond {
			return fmt.Errorf("%s on %d %s: listed twice, with %v and %v steps/s", r.Job, r.GPUs, r.Device, c.alone, r.PerSecond)
		}
		c.measured, c.alone = true, r.PerSecond
		return nil
	}
	if err := c.add(neighbour{t.typeIndex[r.Other], r.PerSecond, r.OtherRate}); err != nil {
		return fmt.Errorf("%s beside %s on %d %s: %w", r.Job, r.Other, r.GPUs, r.Device, err)
	}
	if r.Job == r.Other {
		return nil
	}
	back := t.find(r.Device, r.Other, r.GPUs)
	if err := back.add(neighbour{t.typeIndex[r.Job], r.OtherRate, r.PerSecond}); err != nil {
		return fmt.Errorf("%s beside %s on %d %s: %w", r.Other, r.Job, r.GPUs, r.Device, err)
	}
	return nil
}

// add inserts a neighbour in order.
func (c *cell) add(n neighbour) error {
	i, found := slices.BinarySearchFunc(c.beside, n.other, func(a neighbour, o int) int { return cmp.Compare(a.other, o) })
	if found {
		if c.beside[i] != n {
			return fmt.Errorf("listed twice, with %v and %v steps/s, then %v and %v", c.beside[i].mine, c.beside[i].others, n.mine, n.others)
		}
		return nil
	}
	c.beside = slices.Insert(c.beside, i, n)
	return nil
}

// unique sorts values and removes duplicates.
func unique[T cmp.Ordered](s []T) []T {
	slices.Sort(s)
	return slices.Compact(s)
}

// Rates returns the measurements of the table, ordered by devices, numbers of devices and types; each pair once.
func (t *Throughputs) Rates() []Rate {
	var out []Rate
	for d, device := range t.devices {
		for n, gpus := range t.counts {
			for j, job := range t.types {
				c := t.cells[(d*len(t.counts)+n)*len(t.types)+j]
				if c.measured {
					out = append(out, Rate{Device: device, Job: job, GPUs: gpus, PerSecond: c.alone})
				}
				for _, b := range c.beside {
					if b.other >= j {
						out = append(out, Rate{device, job, gpus, t.types[b.other], b.mine, b.others})
					}
				}
			}
		}
	}
	return out
}

// Require returns an error that lists the job types, by number of devices, without a rate on any of the device types,
// and the unknown device types. It returns nil if these jobs can be simulated.
func (t *Throughputs) Require(jobs []Job, devices []string) error {
	var problems []string
	for _, d := range devices {
		if _, ok := t.deviceIndex[d]; !ok {
			problems = append(problems, fmt.Sprintf("device type %q (it has %s)", d, strings.Join(t.devices, ", ")))
		}
	}
	type kind struct {
		job  string
		gpus int
	}
	seen := map[kind]bool{}
	for i := range jobs {
		k := kind{jobs[i].Type, jobs[i].GPUs}
		if seen[k] {
			continue
		}
		seen[k] = true
		if !slices.ContainsFunc(devices, func(d string) bool { return t.Alone(d, k.job, k.gpus) > 0 }) {
			problems = append(problems, fmt.Sprintf("%q on %d", k.job, k.gpus))
		}
	}
	if len(problems) == 0 {
		return nil
	}
	slices.Sort(problems)
	return fmt.Errorf("the throughput table has no rate on %s for: %s", strings.Join(devices, ", "), strings.Join(problems, "; "))
}
