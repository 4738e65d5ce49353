package rounds

import (
	"trainopt/simulator/workload"
)

// kind is what all jobs of a type that ask for the same number of devices have in common.
type kind struct {
	number int
	name   string
	gpus   int
	rate   []float64 // steps/s alone, by device type; 0 where there are too few devices
	runs   bool      // on some type
}

// job is a job in the cluster.
type job struct {
	*workload.Job
	number   int // in the order of arrival, from 0
	kind     *kind
	done     float64 // steps
	failures int     // rounds in a row in which nothing got done
	started  bool
	attained float64 // device-seconds
	usd      float64
	joules   float64
	alone    *entry
	chosen   int     // round in which it was last chosen
	last     spot    // that it had before it was stopped
	stopped  float64 // when
	gone     bool
}

func (j *job) remaining() float64 { return j.Steps - j.done }

// pairRates are steps/s of two kinds that share devices, by device type.
type pairRates struct{ a, b []float64 }

// rates finds throughputs, and remembers what it has found.
type rates struct {
	table   *workload.Throughputs
	devices []DeviceType
	kinds   map[kindName]*kind
	pairs   map[[2]int]pairRates
}

type kindName struct {
	name string
	gpus int
}

func newRates(table *workload.Throughputs, devices []DeviceType) *rates {
	return &rates{table: table, devices: devices, kinds: map[kindName]*kind{}, pairs: map[[2]int]pairRates{}}
}

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

// pair are the rates of two kinds of equal size; all 0 when the table does not have them.
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

// entry is a job, or a pair of jobs that share devices: what a mechanism chooses from.
type entry struct {
	a, b    *job // b is nil for a job alone
	gpus    int
	rate    []float64 // of a, by device type; those of a job alone on a type with too few devices are there too
	rateB   []float64
	x       []float64 // share that the last decision gave
	got     []float64 // seconds since the last decision, and half a round
	deficit []float64 // seconds
	known   bool      // to the last decision
	turn    int       // place in the order in which entries became possible
	spot              // in this round
	next    spot      // in the next one, while it is worked out
	begun   int       // round in which it ran last
	stays   bool      // on the same devices as in the last round
}

// spot are the devices that an entry has in a round.
type spot struct {
	device int     // type; −1 none
	where  []int32 // which ones
}

// settleDown makes the spot that was worked out that of this round.
func (e *entry) settleDown() {
	e.spot, e.next = e.next, e.spot
}

func newEntry(a, b *job, rate, rateB []float64, got float64) *entry {
	n := len(rate)
	f := make([]float64, 3*n)
	e := &entry{a: a, b: b, gpus: a.GPUs, rate: rate, rateB: rateB, x: f[:n:n], got: f[n : 2*n : 2*n], deficit: f[2*n:], spot: spot{device: -1}}
	for d := range e.got {
		e.got[d] = got
	}
	return e
}

// runs says whether everyone in it gets something done on a device type.
func (e *entry) runs(device int) bool {
	return e.rate[device] > 0 && (e.b == nil || e.rateB[device] > 0)
}

// gone says whether one of its jobs has left the cluster.
func (e *entry) gone() bool { return e.a.gone || e.b != nil && e.b.gone }

func (e *entry) chosen(round int) bool {
	return e.a.chosen == round || e.b != nil && e.b.chosen == round
}

func (e *entry) choose(round int) {
	e.a.chosen = round
	if e.b != nil {
		e.b.chosen = round
	}
}
