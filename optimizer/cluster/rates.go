package cluster

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"trainopt/optimizer/inspect"
	"trainopt/optimizer/schedule"
)

// learner derives the rates that policies see from what is measured while jobs run.
//
// A job that ran on a type has its own measured rate there. On another type its rate is that times the ratio of the two
// types: the mean of the log-ratios of all jobs that ran on both, shrunk towards the prior (stated speeds; published
// measurements of similar trainings; data sheets; else equal), and raised by one standard deviation of its uncertainty,
// maxOptimism at most, so that a type that may be better is tried once and no longer than it is uncertain (the upper
// confidence bound rule; Auer et al. 2002). A job that has not run has the rates of one of the same command.
// Numbers of devices that were not measured scale with exponent gpuScaling. The remaining time of a job that never ran is assumed to be one round on its fastest type, so
// that policies by remaining time give it a first round, and it grows with the time for which it has run without a
// measurement. Without a known total, a job is assumed to have as much work left as it has done.
type learner struct {
	devices []schedule.DeviceType
	stated  []float64 // relative speeds of the types; 0: not stated
	// hostGiB is the memory of the machine that belongs to a device, by type, deviceGiB that of a device; 0: unknown.
	hostGiB, deviceGiB []float64
	round              float64
	jobs               map[int]*learned
	speeds             speeds
	ratios             map[ratioKey]logRatio // cached
	paired             map[string][]*learned // jobs with rates beside others, by kind
	table              map[[2]string]float64 // see Config.Pairs
}

// ratioKey is the model of a training and two device types.
type ratioKey struct {
	model string
	a, b  int
}

// learned is what is known of a job.
type learned struct {
	*Job
	spec    *Spec
	version int
	kind    string   // of script
	model   string   // that the job trains; empty: unknown
	like    *learned // the latest job of the same command that ran before; nil: none
}

const (
	gpuScaling    = 0.9  // exponent of the rate over the number of devices, without a measurement
	maxOptimism   = 0.35 // largest increase of a log-ratio for its uncertainty
	unknownSpread = 0.35 // standard deviation of the log-ratio of two types of which nothing is known
	statedSpread  = 0.05 // and of a stated one
	jobSpread     = 0.3  // standard deviation of the log-ratios of jobs
	rateChange    = 0.02 // relative change of a rate that is recorded
)

func newLearner(devices []Device, round float64) *learner {
	l := &learner{round: round, jobs: map[int]*learned{}, ratios: map[ratioKey]logRatio{}, paired: map[string][]*learned{}}
	for _, d := range devices {
		l.devices = append(l.devices, d.typeOf())
		l.stated, l.hostGiB, l.deviceGiB = append(l.stated, d.Speed), append(l.hostGiB, d.MemoryGiB), append(l.deviceGiB, 0)
	}
	return l
}

// typeOf returns the form of a device type that policies use.
func (d Device) typeOf() schedule.DeviceType {
	price := d.USDHour
	if price <= 0 {
		price = math.NaN()
	}
	return schedule.DeviceType{Name: d.Name, Count: d.Count, PerServer: max(d.PerServer, 1), USDHour: price, Watts: math.NaN()}
}

// add adds a job.
func (l *learner) add(j *Job, spec *Spec) {
	model := ""
	if len(l.devices) > 1 && !j.State.Ended() {
		if _, ins, err := inspect.Resolve(spec.Config.Train, spec.Config.Args, inspect.ResolveOptions{Python: spec.Config.Python, Dir: spec.Config.Dir}); err == nil {
			model = ins.Model.Value
		}
	}
	l.enter(j, spec, model)
}

// enter adds a job that trains a model; empty: unknown.
func (l *learner) enter(j *Job, spec *Spec, model string) {
	n := &learned{Job: j, spec: spec, kind: kindOf(j, spec), model: model}
	for _, o := range l.jobs {
		if o.ID < j.ID && len(o.Rates) > 0 && sameCommand(o.spec, spec) && (n.like == nil || o.ID > n.like.ID) {
			n.like = o
		}
	}
	l.jobs[j.ID] = n
	if len(j.Pairs) > 0 {
		l.remember(n)
	}
}

// evidence returns the rates that are known of a job: its own or, before its first, those of a job of the same command, or
// what its rates beside other jobs suggest.
func (l *learner) evidence(j *learned) []Rate {
	switch {
	case len(j.Rates) > 0:
		return j.Rates
	case j.like != nil:
		return j.like.Rates
	}
	return l.aloneBeside(j)
}

// Kind implements rates.
func (l *learner) Kind(job int) string { return fmt.Sprintf("%d.%d", job, l.jobs[job].version) }

// Alone implements rates.
func (l *learner) Alone(job, device, gpus int) (rate float64, measured bool) {
	j := l.jobs[job]
	least := max(j.spec.Min, 1)
	if device < 0 || gpus < least || gpus > max(j.spec.Max, least) || gpus > l.devices[device].Count || !j.spec.spans(gpus, l.devices[device].PerServer) {
		return 0, false
	}
	best := -1.0
	known := l.evidence(j)
	for i := range known {
		r := &known[i]
		from := l.typeOf(r.Device)
		if from < 0 {
			continue
		}
		nearness := 0.0
		if from == device {
			nearness = 2
		}
		if r.GPUs == gpus {
			nearness++
		}
		if nearness > best {
			best = nearness
			rate = r.PerSec * math.Pow(float64(gpus)/float64(r.GPUs), gpuScaling)
			if from != device {
				rate *= l.ratio(j.model, device, from).optimistic()
			}
		}
	}
	if best >= 0 {
		return rate, true
	}
	return l.assumed(j, device, gpus), false
}

// assumed returns the rate of a job of which nothing was measured.
func (l *learner) assumed(j *learned, device, gpus int) float64 {
	fastest := math.Inf(-1)
	for d := range l.devices {
		fastest = max(fastest, l.ratio(j.model, d, 0).mean)
	}
	least := float64(max(j.spec.Min, 1))
	left := max(l.round, j.Attained/least) // seconds on the fastest type
	total, done := l.Work(j.ID)
	return (total - done) / left * math.Exp(l.ratio(j.model, device, 0).mean-fastest) * math.Pow(float64(gpus)/least, gpuScaling)
}

// Work implements rates.
func (l *learner) Work(job int) (total, done float64) {
	j := l.jobs[job]
	switch {
	case j.Total > 0:
		return j.Total, min(j.Done, j.Total)
	case j.like != nil && j.like.State == Done && j.like.Total > j.Done:
		return j.like.Total, j.Done
	}
	if known := l.evidence(j); len(known) > 0 {
		return j.Done + max(j.Done, known[len(known)-1].PerSec*l.round), j.Done
	}
	return j.Done + max(j.Done, 1), j.Done
}

func (l *learner) typeOf(name string) int {
	return slices.IndexFunc(l.devices, func(d schedule.DeviceType) bool { return d.Name == name })
}

// observe takes the rate of a life of a job. first is true for the first measurement there, changed for a change of
// more than rateChange since the last one.
func (l *learner) observe(job int, device string, gpus int, perSec float64, blocks int) (first, changed bool) {
	j := l.jobs[job]
	at := slices.IndexFunc(j.Rates, func(r Rate) bool { return r.Device == device && r.GPUs == gpus })
	if at < 0 {
		r := Rate{Device: device, GPUs: gpus, PerSec: perSec, Blocks: blocks}
		if predicted, measured := l.Alone(job, l.typeOf(device), gpus); measured {
			r.Predicted = predicted
		}
		j.Rates = append(j.Rates, r)
		j.version++
		l.follow(j)
		clear(l.ratios)
		if len(l.paired[j.kind]) > 0 {
			l.outdate(j)
		}
		return true, true
	}
	r := &j.Rates[at]
	r.Blocks = blocks
	if math.Abs(perSec/r.PerSec-1) <= rateChange {
		return false, false
	}
	r.PerSec = perSec
	j.version++
	clear(l.ratios)
	if len(l.paired[j.kind]) > 0 {
		l.outdate(j)
	}
	return false, true
}

// follow gives the rates of a job to those of the same command that have not run.
func (l *learner) follow(j *learned) {
	for _, o := range l.jobs {
		if len(o.Rates) == 0 && (o.like == nil || o.like == j) && o != j && !o.State.Ended() && sameCommand(o.spec, j.spec) {
			o.like = j
			o.version++
		}
	}
}

// logRatio is the distribution of the logarithm of the ratio of the speeds of two types.
type logRatio struct{ mean, sd float64 }

// optimistic returns the ratio at one standard deviation above the mean.
func (r logRatio) optimistic() float64 { return math.Exp(r.mean + min(r.sd, maxOptimism)) }

// ratio returns the speed of type a relative to type b for trainings of a model: the posterior of a normal distribution
// after the jobs that ran on both. O(jobs · rates) once after a measurement.
func (l *learner) ratio(model string, a, b int) logRatio {
	key := ratioKey{model, a, b}
	if r, ok := l.ratios[key]; ok {
		return r
	}
	if a == b {
		return logRatio{}
	}
	prior := logRatio{0, unknownSpread}
	if l.stated[a] > 0 && l.stated[b] > 0 {
		prior = logRatio{math.Log(l.stated[a] / l.stated[b]), statedSpread}
	} else if known, ok := l.speeds.between(model, l.devices[a].Name, l.devices[b].Name); ok {
		prior = known
	}
	weight := 1 / (prior.sd * prior.sd)
	sum := prior.mean * weight
	for _, id := range slices.Sorted(maps.Keys(l.jobs)) { // sums depend on the order
		j := l.jobs[id]
		ra, rb := j.on(l.devices[a].Name), j.on(l.devices[b].Name)
		if ra > 0 && rb > 0 {
			sum += math.Log(ra/rb) / (jobSpread * jobSpread)
			weight += 1 / (jobSpread * jobSpread)
		}
	}
	r := logRatio{sum / weight, 1 / math.Sqrt(weight)}
	l.ratios[key] = r
	return r
}

// on returns the measured rate of a job on one device of a type; 0 without one.
func (j *learned) on(device string) float64 {
	for i := range j.Rates {
		if r := &j.Rates[i]; r.Device == device {
			return r.PerSec / math.Pow(float64(r.GPUs), gpuScaling)
		}
	}
	return 0
}
