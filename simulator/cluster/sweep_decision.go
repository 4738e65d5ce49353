package cluster

// Measure times single decisions of a policy on a large drawn cluster: the first, with all jobs waiting, and
// the next, after some jobs ended and others arrived while the rest hold devices. It simulates no time between them
// beyond the progress of the jobs.
//
//	result, err := cluster.Measure(cluster.DecisionConfig{Policy: "srtf", Devices: 100_000, Types: 8, Jobs: 1_000_000, Kinds: 200, Changes: 100})

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"time"

	"trainopt/optimizer/report/page"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
)

// DecisionConfig is a drawn cluster with jobs.
type DecisionConfig struct {
	Policy  string // see share.New
	Seed    uint64
	Devices int // in total, divided evenly among the types; at least one of each
	Types   int // 1 to 26
	Jobs    int
	Kinds   int // jobs of a kind have equal rates; 0: all jobs are different
	Changes int // number of jobs that end, and of jobs that arrive, before the second decision; at most Jobs
	// Clock is a monotonic clock, CPU the processor time of the process so far; nil: times are unknown.
	Clock, CPU func() time.Duration
}

// Limits of a Config.
const (
	maxTypes        = 26
	maxDecisionJobs = 5_000_000
	maxDevices      = 5_000_000
)

// Validate returns all problems of the configuration, or nil.
func (c DecisionConfig) Validate() error {
	var errs []error
	if _, err := share.New(c.Policy, share.Options{}); err != nil {
		errs = append(errs, err)
	}
	within := func(what string, v, lo, hi int) {
		if v < lo || v > hi {
			errs = append(errs, fmt.Errorf("%d %s: want %d to %d", v, what, lo, hi))
		}
	}
	within("types of device", c.Types, 1, maxTypes)
	within("devices", c.Devices, max(1, c.Types), maxDevices)
	within("jobs", c.Jobs, 1, maxDecisionJobs)
	within("kinds of jobs", c.Kinds, 0, maxDecisionJobs)
	within("changes", c.Changes, 0, max(c.Jobs, 0))
	return errors.Join(errs...)
}

// decisionStep is the measurement of one decision.
type decisionStep struct {
	Seconds    page.Exact `json:"seconds"`     // real time; unknown without a clock
	CPUSeconds page.Exact `json:"cpu_seconds"` // processor time, including that of memory management
	Placed     int        `json:"placed_jobs"` // jobs with a share of a device
	// MaxLoss is the most by which the policy's objective can be below its optimum, relative to it: a proven bound, not
	// an estimate. Unknown if the policy proves none.
	MaxLoss page.Exact `json:"max_loss"`
}

// decisionResult is the outcome of Measure.
type decisionResult struct {
	Schema  int    `json:"schema"`
	Policy  string `json:"policy"`
	Seed    uint64 `json:"seed"`
	Devices int    `json:"devices"`
	Types   int    `json:"types"`
	Jobs    int    `json:"jobs"`
	Kinds   int    `json:"kinds"` // 0: all jobs are different
	Changes int    `json:"changes"`
	// Updates: the policy decides from what changed; otherwise from all jobs.
	Updates bool         `json:"updates"`
	First   decisionStep `json:"first"`
	Next    decisionStep `json:"next"`
	PeakGiB page.Exact   `json:"peak_gib"` // of the process, with the jobs; unknown if not measured
}

// elapsed is the time in seconds between the two decisions, during which jobs make progress.
const elapsed = 600

// Measure draws the cluster and measures both decisions.
func (c DecisionConfig) Measure() (*decisionResult, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	policy, err := share.New(c.Policy, share.Options{})
	if err != nil {
		return nil, err
	}
	r := &decisionResult{
		Schema: 1, Policy: c.Policy, Seed: c.Seed, Devices: c.Devices, Types: c.Types, Jobs: c.Jobs, Kinds: c.Kinds, Changes: c.Changes,
		PeakGiB: page.Exact(math.NaN()),
	}
	d := newDrawn(c)
	_, r.Updates = policy.(schedule.Incremental)
	if r.First, err = d.measure(policy); err != nil {
		return nil, fmt.Errorf("first decision of %s: %w", c.Policy, err)
	}
	d.advance()
	if r.Next, err = d.measure(policy); err != nil {
		return nil, fmt.Errorf("next decision of %s: %w", c.Policy, err)
	}
	return r, nil
}

// measure measures one decision.
func (d *drawn) measure(policy schedule.Policy) (decisionStep, error) {
	read := func(clock func() time.Duration) float64 {
		if clock == nil {
			return math.NaN()
		}
		return clock().Seconds()
	}
	real, cpu := read(d.Clock), read(d.CPU)
	apply, err := d.decide(policy)
	step := decisionStep{Seconds: page.Exact(read(d.Clock) - real), CPUSeconds: page.Exact(read(d.CPU) - cpu), MaxLoss: page.Exact(math.NaN())}
	if err != nil {
		return step, err
	}
	step.Placed = apply()
	if p, ok := policy.(schedule.Certified); ok {
		step.MaxLoss = page.Exact(p.MaxLoss())
	}
	return step, nil
}

// drawn is a drawn cluster with its jobs and what they hold.
type drawn struct {
	DecisionConfig
	random   *rand.Rand
	kinds    []decisionKind
	snapshot schedule.Snapshot
	changes  schedule.Changes
	number   []int     // index in the snapshot by number of the job
	rate     []float64 // by index: steps/s since the last decision
}

// decisionKind is what jobs of a kind have in common.
type decisionKind struct {
	name    string
	rate    []float64 // on one device, by type
	scaling float64   // exponent of the speedup with the number of devices
}

// mostDevices is the largest number of devices on which a job runs.
const mostDevices = 16

func newDrawn(c DecisionConfig) *drawn {
	d := &drawn{DecisionConfig: c, random: rand.New(rand.NewPCG(c.Seed, 1))}
	for t := range c.Types {
		count := c.Devices / c.Types
		if t < c.Devices%c.Types {
			count++
		}
		d.snapshot.Devices = append(d.snapshot.Devices, schedule.DeviceType{
			Name: "type-" + string(rune('a'+t)), Count: count, PerServer: 8, USDHour: 1, Watts: math.NaN(),
		})
	}
	speed := make([]float64, c.Types) // of the types, in steps of about a factor of 1.5
	for t := range speed {
		speed[t] = math.Pow(1.5, float64(t)*min(1, 8/float64(c.Types)))
	}
	kinds := cmp.Or(c.Kinds, c.Jobs+c.Changes)
	for k := range kinds {
		kd := decisionKind{name: "kind " + strconv.Itoa(k), scaling: 0.6 + 0.4*d.random.Float64()}
		base := math.Exp(4 * d.random.Float64())
		for t := range speed {
			kd.rate = append(kd.rate, base*speed[t]*(0.6+0.8*d.random.Float64()))
		}
		d.kinds = append(d.kinds, kd)
	}
	kindOf := make(map[string]*decisionKind, len(d.kinds))
	for k := range d.kinds {
		kindOf[d.kinds[k].name] = &d.kinds[k]
	}
	d.snapshot.SizedRate = func(j *schedule.Job, device, gpus int) float64 {
		if gpus > mostDevices {
			return 0
		}
		k := kindOf[j.Type]
		return k.rate[device] * math.Pow(float64(gpus), k.scaling)
	}
	d.snapshot.Jobs, d.changes.Arrived = make([]schedule.JobState, 0, c.Jobs), make([]schedule.Arrival, 0, c.Jobs)
	d.number, d.rate = make([]int, c.Jobs+c.Changes), make([]float64, 0, c.Jobs)
	d.changes.Devices = d.snapshot.Devices
	d.changes.Remaining = func(number int) float64 { return d.snapshot.Jobs[d.number[number]].Remaining }
	for i := range c.Jobs {
		d.arrive(i)
	}
	return d
}

// arrive adds a job. Lengths differ by a factor of a thousand, as in Gavel.
func (d *drawn) arrive(number int) {
	k := &d.kinds[number%len(d.kinds)]
	steps := k.rate[0] * math.Pow(10, 3+3*d.random.Float64())
	j := &schedule.Job{ID: number, Type: k.name, Arrival: d.snapshot.Now, GPUs: 1, Steps: steps, Weight: 1, SLO: math.NaN(), Deadline: math.NaN()}
	state := schedule.JobState{Job: j, Rate: k.rate, Remaining: steps, Seconds: math.NaN(), Device: -1}
	d.number[number] = len(d.snapshot.Jobs)
	d.rate = append(d.rate, 0)
	d.snapshot.Jobs = append(d.snapshot.Jobs, state)
	d.changes.Arrived = append(d.changes.Arrived, schedule.Arrival{Number: number, JobState: state})
}

// decide asks the policy, from what changed if it can. apply records what the jobs hold and returns the number of those
// with devices.
func (d *drawn) decide(policy schedule.Policy) (apply func() int, err error) {
	if p, ok := policy.(schedule.Incremental); ok {
		d.changes.Now = d.snapshot.Now
		moves, ok := p.Update(&d.changes)
		if !ok {
			return nil, errors.New("it needs all jobs")
		}
		return func() int { return d.move(moves) }, nil
	}
	a, err := policy.Decide(&d.snapshot)
	if err != nil {
		return nil, err
	}
	_, err = a.Check(&d.snapshot, policy.Traits())
	return func() int { return d.share(a) }, err
}

// move applies the changes of an update.
func (d *drawn) move(moves []schedule.Place) (placed int) {
	for _, m := range moves {
		i := d.number[m.Number]
		j := &d.snapshot.Jobs[i]
		j.Held, j.Device, d.rate[i] = 0, m.Device, 0
		if m.Device >= 0 {
			j.Held, d.rate[i] = 1, j.Rate[m.Device]
		}
	}
	for i := range d.snapshot.Jobs {
		placed += d.snapshot.Jobs[i].Held
	}
	return placed
}

// share applies shares.
func (d *drawn) share(a schedule.Allocation) (placed int) {
	clear(d.rate)
	for i := range a.Entries {
		e := &a.Entries[i]
		j := &d.snapshot.Jobs[e.A]
		for t, x := range e.X {
			if x <= 0 {
				continue
			}
			j.Held, j.Device = j.GPUs, t
			if a.GPUs != nil {
				j.Held = a.GPUs[i]
			}
			d.rate[e.A] += x * d.snapshot.SizedRate(j.Job, t, j.Held)
		}
		if d.rate[e.A] > 0 {
			placed++
		}
	}
	return placed
}

// advance lets the jobs make progress, ends some of them, evenly over all, and adds as many.
func (d *drawn) advance() {
	d.snapshot.Now += elapsed
	d.changes.Arrived, d.changes.Ended = d.changes.Arrived[:0], d.changes.Ended[:0]
	jobs, rate := d.snapshot.Jobs[:0], d.rate[:0]
	every := len(d.snapshot.Jobs)
	if d.Changes > 0 {
		every = len(d.snapshot.Jobs) / d.Changes
	}
	for i, j := range d.snapshot.Jobs {
		if i%every == every-1 && len(d.changes.Ended) < d.Changes {
			d.changes.Ended = append(d.changes.Ended, j.ID)
			continue
		}
		done := min(d.rate[i]*elapsed, 0.99*j.Remaining)
		j.Remaining -= done
		if done > 0 {
			j.Attained += elapsed * float64(j.Held)
		}
		d.number[j.ID] = len(jobs)
		jobs, rate = append(jobs, j), append(rate, d.rate[i])
	}
	d.snapshot.Jobs, d.rate = jobs, rate
	for i := range d.Changes {
		d.arrive(d.Jobs + i)
	}
}
