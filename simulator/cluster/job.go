package cluster

import (
	"trainopt/optimizer/schedule"
	"trainopt/simulator/workload"
)

// kind contains the properties shared by all jobs of one type with the same number of devices.
type kind struct {
	number int
	name   string
	gpus   int
	rate   []float64 // steps/s alone, by device type; includes types with too few devices
	runs   bool      // on at least one type
}

// job is an active job.
type job struct {
	*workload.Job
	number   int // in order of arrival, from 0
	kind     *kind
	steps    float64 // of the job, kept close to done
	done     float64 // steps
	started  bool
	attained float64 // device-seconds
	usd      float64
	joules   float64
	gone     bool

	*leased // of roundDriver

	// Of gavel.
	alone    *entry
	chosen   int // last round in which it was chosen
	failures int // consecutive rounds without progress
}

func (j *job) remaining() float64 { return j.steps - j.done }

// pairRates contains the throughputs, in steps/s, of two co-located kinds by device type.
type pairRates struct{ a, b []float64 }

// rates looks up throughputs and caches them.
type rates struct {
	table   *workload.Throughputs
	devices []schedule.DeviceType
	kinds   map[kindName]*kind
	pairs   map[[2]int]pairRates
}

// kindName identifies a kind.
type kindName struct {
	name string
	gpus int
}

func newRates(table *workload.Throughputs, devices []schedule.DeviceType) *rates {
	return &rates{table: table, devices: devices, kinds: map[kindName]*kind{}, pairs: map[[2]int]pairRates{}}
}

// kind returns the kind of a job.
func (r *rates) kind(j *workload.Job) *kind {
	name := kindName{j.Type, j.GPUs}
	if k, ok := r.kinds[name]; ok {
		return k
	}
	k := &kind{number: len(r.kinds), name: j.Type, gpus: j.GPUs, rate: make([]float64, len(r.devices))}
	for d := range r.devices {
		k.rate[d] = r.table.Alone(r.devices[d].Name, j.Type, j.GPUs)
		k.runs = k.runs || k.rate[d] > 0 && r.devices[d].Count >= j.GPUs
	}
	r.kinds[name] = k
	return k
}

// pair returns the rates of two co-located kinds of equal size; all are 0 if the table does not contain them.
func (r *rates) pair(a, b *kind) pairRates {
	key := [2]int{a.number, b.number}
	if p, ok := r.pairs[key]; ok {
		return p
	}
	p := pairRates{make([]float64, len(r.devices)), make([]float64, len(r.devices))}
	if a.gpus == b.gpus {
		for d := range r.devices {
			if ra, rb, ok := r.table.Beside(r.devices[d].Name, a.name, b.name, a.gpus); ok {
				p.a[d], p.b[d] = ra, rb
			}
		}
	}
	r.pairs[key] = p
	return p
}

// rated is a job, or a pair of co-located jobs, with the rates that the policy sees.
type rated struct {
	a, b  *job      // b is nil for a single job
	rate  []float64 // of a, by device type; includes types with too few devices for a job alone
	rateB []float64
}
