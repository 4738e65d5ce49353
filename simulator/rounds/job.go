package rounds

import (
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
	done     float64 // steps
	failures int     // consecutive rounds without progress
	started  bool
	attained float64 // device-seconds
	usd      float64
	joules   float64
	alone    *entry
	chosen   int     // last round in which it was chosen
	last     spot    // devices held before it was stopped
	stopped  float64 // time at which it was stopped
	gone     bool
}

func (j *job) remaining() float64 { return j.Steps - j.done }

// pairRates contains the throughputs, in steps/s, of two co-located kinds by device type.
type pairRates struct{ a, b []float64 }

// rates looks up throughputs and caches them.
type rates struct {
	table   *workload.Throughputs
	devices []DeviceType
	kinds   map[kindName]*kind
	pairs   map[[2]int]pairRates
}

// kindName identifies a kind.
type kindName struct {
	name string
	gpus int
}

func newRates(table *workload.Throughputs, devices []DeviceType) *rates {
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

// entry is a job, or a pair of co-located jobs: the unit that a mechanism schedules.
type entry struct {
	a, b    *job // b is nil for a single job
	gpus    int
	rate    []float64 // of a, by device type; includes types with too few devices for a job alone
	rateB   []float64
	x       []float64 // shares of the last decision
	got     []float64 // seconds since the last decision, plus half a round
	deficit []float64 // seconds
	known   bool      // present at the last decision
	turn    int       // position in the order in which entries were created
	spot              // devices in this round
	next    spot      // devices in the next round, while it is computed
	begun   int       // last round in which it ran
	stays   bool      // on the same devices as in the previous round
}

// spot is the devices of an entry in a round (its slot).
type spot struct {
	device int     // type; −1: none
	where  []int32 // indices of the devices
}

// settleDown makes the computed slot the current one.
func (e *entry) settleDown() {
	e.spot, e.next = e.next, e.spot
}

// newEntry returns an entry without devices that has received got seconds on every type.
func newEntry(a, b *job, rate, rateB []float64, got float64) *entry {
	n := len(rate)
	f := make([]float64, 3*n)
	e := &entry{a: a, b: b, gpus: a.GPUs, rate: rate, rateB: rateB, x: f[:n:n], got: f[n : 2*n : 2*n], deficit: f[2*n:], spot: spot{device: -1}}
	for d := range e.got {
		e.got[d] = got
	}
	return e
}

// runs reports whether all jobs of the entry make progress on a device type.
func (e *entry) runs(device int) bool {
	return e.rate[device] > 0 && (e.b == nil || e.rateB[device] > 0)
}

// gone reports whether a job of the entry has left the cluster.
func (e *entry) gone() bool { return e.a.gone || e.b != nil && e.b.gone }

// chosen reports whether a job of the entry was chosen in a round.
func (e *entry) chosen(round int) bool {
	return e.a.chosen == round || e.b != nil && e.b.chosen == round
}

func (e *entry) choose(round int) {
	e.a.chosen = round
	if e.b != nil {
		e.b.chosen = round
	}
}
