package workload

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode"
)

// Throughputs are measured steps per second of job types on device types, alone and beside another job, by the number of
// devices. It does not change and may be used by several goroutines.
type Throughputs struct {
	devices, types []string
	deviceIndex    map[string]int
	typeIndex      map[string]int
	counts         []int              // numbers of devices that were measured, ascending
	cells          []cell             // [device][count][type]
	work           map[string]float64 // steps of a whole training, by type; nil unknown
}

// cell is what was measured of a job type on so many devices of a type.
type cell struct {
	measured bool
	alone    float64
	beside   []neighbour // by type
}

type neighbour struct {
	other        int
	mine, others float64
}

// Devices are the device types of the table, sorted. "…_unconsolidated" are those where the devices of a job are spread over
// machines.
func (t *Throughputs) Devices() []string { return slices.Clone(t.devices) }

// Types are the job types of the table, in the order of the table.
func (t *Throughputs) Types() []string { return slices.Clone(t.types) }

// Counts are the numbers of devices on which something was measured, ascending.
func (t *Throughputs) Counts() []int { return slices.Clone(t.counts) }

// Alone is steps per second of a whole job on so many devices of a type; 0 when it does not fit or was not measured.
func (t *Throughputs) Alone(device, job string, gpus int) float64 {
	if c := t.find(device, job, gpus); c != nil {
		return c.alone
	}
	return 0
}

// Work is how many steps a whole training of a job type takes, where the table says that; NaN unknown.
func (t *Throughputs) Work(job string) float64 {
	if steps, ok := t.work[job]; ok {
		return steps
	}
	return math.NaN()
}

// Measured says whether the table has the job type on so many devices of a type, also when it did not fit there.
func (t *Throughputs) Measured(device, job string, gpus int) bool {
	c := t.find(device, job, gpus)
	return c != nil && c.measured
}

// Beside is steps per second of two jobs that share the same devices, both on so many; ok is false when the table does not
// have the pair. 0 when they do not fit together. The values are as precise as the table; Gavel's packed policies (not its
// simulation) see them rounded to 32 bits.
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

func (t *Throughputs) find(device, job string, gpus int) *cell {
	d, ok1 := t.deviceIndex[device]
	j, ok2 := t.typeIndex[job]
	n, ok3 := slices.BinarySearch(t.counts, gpus)
	if !ok1 || !ok2 || !ok3 {
		return nil
	}
	return &t.cells[(d*len(t.counts)+n)*len(t.types)+j]
}

// Rate is one measurement of a table: steps per second of a job type on so many devices of a type, alone or beside another job.
type Rate struct {
	Device, Job string
	GPUs        int
	Other       string // "" is alone
	PerSecond   float64
	OtherRate   float64 // of the other job
}

// maxCells bounds a table: device types × numbers of devices × job types.
const maxCells = 1 << 20

// NewThroughputs is a table of measurements. Devices and job types are found in rates; types are in the order in
// which they first come as Job. A pair holds in both directions and is listed in one or in both; it is an error to list it twice with different
// rates, as it is for anything else, and a rate below 0 or not a number.
func NewThroughputs(rates []Rate) (*Throughputs, error) { return newThroughputs(nil, rates) }

// newThroughputs numbers types as given, then as they come.
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

func (t *Throughputs) number(job string) {
	if _, seen := t.typeIndex[job]; !seen {
		t.typeIndex[job] = len(t.types)
		t.types = append(t.types, job)
	}
}

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

// add keeps neighbours in order.
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

func unique[T cmp.Ordered](s []T) []T {
	slices.Sort(s)
	return slices.Compact(s)
}

// Rates are the measurements of the table, in the order of devices, numbers of devices and types; each pair once.
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

// Require says in one error which job types, by the number of devices asked for, no device type of the list has a rate for,
// and which device types the table does not know. nil when a simulation of these jobs can run.
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
