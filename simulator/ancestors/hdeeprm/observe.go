package hdeeprm

import (
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// quartiles are the quantiles of the requests of waiting jobs in every observation.
var quartiles = [...]float64{0, 0.25, 0.5, 0.75, 1}

// ofQueue is the number of values of an observation that describe the queue: the quantiles and the change of its
// length.
const ofQueue = 4*len(quartiles) + 1

// view computes observations. It keeps the requests of the waiting jobs sorted, and tracks the progress of running
// jobs.
type view struct {
	process *Process
	asked   [4][]float64 // requested time, cores, memory and bandwidth of the waiting jobs, each ascending
	length  int          // length of the queue at the last observation
	out     []float32

	progress []progress // by job
	unclear  []int32    // running jobs whose speed may have changed
}

// progress is the progress of a job as a scheduler can estimate it.
type progress struct {
	left    float64 // remaining requested operations
	rate    float64
	last    float64 // s
	unclear bool
}

// asks are the requests that observations contain.
var asks = [4]func(*order.Job) float64{keys[shortestJob], keys[smallestJob], keys[lowMemJob], keys[lowMemBWJob]}

// ObservationSize returns the number of values of an observation.
func (p *Process) ObservationSize() int {
	nodes, processors := len(p.tree.Nodes), len(p.tree.Processors)
	switch p.settings.View {
	case Normal:
		return nodes + processors + 3*p.tree.Cores + ofQueue
	case Small:
		return nodes + processors + ofQueue
	}
	return ofQueue
}

func (v *view) reset() {
	for i := range v.asked {
		v.asked[i] = v.asked[i][:0]
	}
	v.length, v.unclear, v.progress = 0, v.unclear[:0], v.progress[:0]
}

func (v *view) extend(jobs int) {
	if v.process.settings.View == Normal {
		known := len(v.progress)
		v.progress = slices.Grow(v.progress, jobs-known)[:jobs]
		clear(v.progress[known:])
	}
}

func (v *view) add(j *order.Job) {
	for i, ask := range asks {
		x := ask(j)
		at, _ := slices.BinarySearch(v.asked[i], x)
		v.asked[i] = slices.Insert(v.asked[i], at, x)
	}
}

func (v *view) start(job int32) {
	j := &v.process.jobs[job]
	for i, ask := range asks {
		at, _ := slices.BinarySearch(v.asked[i], ask(j))
		v.asked[i] = slices.Delete(v.asked[i], at, at+1)
	}
	if v.process.settings.View == Normal {
		r := &v.progress[job]
		*r = progress{left: j.RequestOps, last: v.process.now, unclear: r.unclear}
		v.touch(job)
	}
}

func (v *view) touch(job int32) {
	if r := &v.progress[job]; !r.unclear {
		r.unclear = true
		v.unclear = append(v.unclear, job)
	}
}

// watch implements cores.Machine.Watch: the speed of a core that serves a job is about to change.
func (v *view) watch(core, job int32) {
	if v.process.settings.Compat {
		v.pass(core, job)
	} else {
		v.touch(job)
	}
}

// pass updates the progress of a job as HDeepRM does: any core of the job may, by its own speed and in GFLOPS.
func (v *view) pass(core, job int32) {
	p, r := v.process, &v.progress[job]
	speed := p.tree.Processors[p.tree.ProcessorOf[core]].GFLOPS
	if p.machine.State(core) == queue.Slowed {
		speed *= slowed
	}
	r.left -= speed * (p.now - r.last)
	r.last = p.now
}

// settle updates progress and rate of each job whose rate, that of its slowest core, may have changed.
func (v *view) settle() {
	p := v.process
	for _, job := range v.unclear {
		r := &v.progress[job]
		r.unclear = false
		if p.settings.Compat || p.at[job] < 0 {
			continue
		}
		r.left -= r.rate * (p.now - r.last)
		r.last, r.rate = p.now, p.machine.Rate(p.cores[job])
	}
	v.unclear = v.unclear[:0]
}

// remaining returns the remaining fraction of a running job, as observed on one of its cores.
func (v *view) remaining(core, job int32) float64 {
	p, r, j := v.process, &v.progress[job], &v.process.jobs[job]
	switch {
	case p.settings.Compat && j.RequestOps > 0:
		v.pass(core, job)
		return r.left / j.RequestOps
	case j.RequestOps > 0:
		return min(1, max(0, (r.left-r.rate*(p.now-r.last))/j.RequestOps))
	case j.Request > 0: // a delay
		return min(1, max(0, 1-(p.now-r.last)/j.Request))
	}
	return 0
}

// Observe returns the observation, valid until the next one. In the order of the tree it contains, for each node, the
// free fraction of its memory; for each of its processors, the free fraction of its bandwidth; for each core, its
// speed and power relative to full load, and the remaining fraction of its job, 0 for a free core. Then, for
// requested time, cores, memory and bandwidth of the waiting jobs: minimum, quartiles and maximum, relative to the
// limits. The last value is the change of the queue's length since the last observation: 0.5 means unchanged, 0 and 1
// a relative change of at least the queue sensitivity. View Small omits the cores, Minimal everything but the queue.
// O(values).
func (p *Process) Observe() []float32 {
	v := &p.seen
	v.out = v.out[:0]
	if p.settings.View != Minimal {
		for n := range p.tree.Nodes {
			v.node(n)
		}
	}
	for i, limit := range [4]float64{p.limits.Time, p.limits.Cores, p.limits.Memory, p.limits.Bandwidth} {
		for _, q := range quartiles {
			v.out = append(v.out, float32(percentile(v.asked[i], 100*q)/limit))
		}
	}
	n, change := p.waiting.len(), 1.0
	if v.length > 0 {
		// Map a relative change of −q … q to 0 … 1.
		q := p.settings.QueueSensitivity
		change = float64(n-v.length) / float64(min(n, v.length))
		change = max(0, min(1, (change+q)/(2*q)))
	}
	v.length = n
	v.out = append(v.out, float32(change))
	return v.out
}

// node appends the values of a node, of its processors and, in view Normal, of their cores.
func (v *view) node(n int) {
	p := v.process
	t := &p.tree.Nodes[n]
	v.out = append(v.out, float32(p.machine.Memory(int32(n))/t.Memory))
	for k := t.First; k < t.First+t.Processors; k++ {
		processor := &p.tree.Processors[k]
		v.out = append(v.out, float32(max(0, p.machine.Bandwidth(int32(k)))/processor.Bandwidth))
		if p.settings.View != Normal {
			continue
		}
		for c := int32(processor.First); c < int32(processor.First+processor.Cores); c++ {
			speed, power, left := 0.0, 1.0, 0.0
			switch p.machine.State(c) {
			case queue.Serving:
				speed = 1
			case queue.Slowed:
				speed = slowed
			case queue.Ready:
				power = p.ready
			default:
				power = asleep
			}
			if job := p.machine.Owner(c); job >= 0 {
				left = v.remaining(c, job)
			}
			v.out = append(v.out, float32(speed), float32(power), float32(left))
		}
	}
}
