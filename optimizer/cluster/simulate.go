package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule"
)

// Simulation runs a Scheduler on a virtual clock, with jobs that progress at given rates: a day again, or what is to
// come. It is deterministic.
type Simulation struct {
	Devices  []Device  // sorted by name
	Absent   [][]int32 // numbers of further devices by type, whose nodes are down; nil: none
	Round    float64   // seconds
	Seed     int64
	From     float64 // Unix seconds that policies see as 0
	Policies []Span  // in force one after the other; the first from the start
	Jobs     []Trial // in the order in which the scheduler has them
	// State is that of a Scheduler (State) whose jobs are the Jobs that have arrived by From; nil: none have.
	State   []byte
	Resizes []Resizing // in order of time
	// Crowding is by how much a start takes longer, relative to one alone, for each other job that starts at the same time.
	Crowding float64
	// Known gives policies the rates of the jobs from the start; by default they learn them as live ones do.
	Known bool
	// Failing lets jobs keep their devices in a decision in which the policy fails, as a server does; by default that is an error.
	Failing bool
	// Until ends the simulation with an error; 0: never.
	Until float64
	Log   func(Event) // nil: none
}

// Span is the time in Unix seconds from which a policy is in force.
type Span struct {
	From   float64
	Policy string
}

// Resizing is a change of the number of devices that a job receives. It has no effect on a job that is not present.
type Resizing struct {
	At        float64 // Unix seconds
	Job, GPUs int
}

// Trial is a job of a Simulation. The simulation changes copies of Job and Spec.
type Trial struct {
	Job   Job     // Total: 0 if it is known only when progress is measured
	Spec  Spec    // Submitted: its arrival
	Delay float64 // seconds from then until the scheduler has it
	Steps float64
	// Rate returns the steps/s on a number of devices of a type; 0: it does not run there.
	Rate func(device, gpus int) float64
	// Beside returns the rate beside another job on the same devices, relative to Rate; nil: 1.
	Beside func(job, device int) float64
	// First and Again are the seconds from receiving devices to progress, at the first and at later starts, Save those
	// from the request to leave until the devices are free, Measured those of progress until the rate, and the start-up,
	// are known, Exit those from the last step until its devices are free.
	First, Again, Save, Measured, Exit float64
	// Lives are the first lives, where they are known one by one: those with Seen as long as the simulation follows their day.
	Lives []LifeCosts
	// Other returns the costs of the n-th life, from 1, if none of Lives holds; nil: First or Again, Save and Measured.
	Other  func(n int) LifeCosts
	Pinned bool // it keeps no work when it is stopped
}

// LifeCosts are the seconds of one life of a Trial: Start takes the place of First or Again. NaN: as for all lives.
// Startup is the part of Start that the scheduler measures; NaN: all of it. Keeps are the seconds from the start until it
// is known whether the job keeps its work; NaN: Start.
type LifeCosts struct {
	Start, Startup, Keeps, Save, Measured float64
	Useful                                float64 // seconds of Save in which it still makes progress: it saves at the end of a step or epoch
	// Rates are what the scheduler learns of it, relative to the pace, some seconds after Measured; nil: the pace. What was Seen
	// takes its place.
	Rates []Measurement
	Seen  *Seen // what was measured in it; nil: nothing
}

// Seen is what was measured in a life. It holds as long as a simulation follows the day of it: every life since the
// beginning has started on the same devices at about the same time.
type Seen struct {
	At     float64 // start in Unix seconds
	Device string
	GPUs   int
	PerSec float64 // pace of the job alone, in place of Rate; 0: Rate
	// Rates are what the scheduler learned of it, in order of time. A first measurement may differ from the pace by a few
	// percent, and decides between nearly equal jobs. nil: the pace, after Measured; empty: no more than it knew before.
	Rates []Measurement
	// Known are the steps that policies knew at decisions, some seconds after the start of the life: what a training has reported
	// is a moment old.
	Known []struct{ After, Done float64 }
}

// sameTime is the part of a round by which starts may differ in a simulation that follows a day.
const sameTime = 0.1

// Measurement is a rate in steps/s that the scheduler has learned some seconds after the start of a life.
type Measurement struct{ After, PerSec float64 }

// Arrival returns the time at which the scheduler has the job.
func (t *Trial) Arrival() float64 { return unix(t.Spec.Submitted) + t.Delay }

// keepsKnown returns the time at which it is known whether the job keeps its work.
func (t *virtualJob) keepsKnown() float64 {
	if v := t.life.Keeps; v >= 0 {
		return t.began + v
	}
	return t.works
}

// Outcome is the result of a simulation, by job.
type Outcome struct {
	End   map[int]float64 // Unix seconds
	Cost  map[int]float64 // USD; NaN: a price is unknown
	Moves int             // starts after the first
}

// virtualCluster is a running simulation.
type virtualCluster struct {
	*Simulation
	s       *scheduler
	learner *learner
	now     float64
	jobs    map[int]*virtualJob
	order   []*virtualJob // by arrival
	out     Outcome
	failure error

	arrivals []*virtualJob // that have not arrived, at the end of order
	policies []Span        // to come
	resizes  []Resizing    // to come
	active   int           // jobs that have arrived and not ended
	first    bool          // the state at the beginning was not decided on yet
	follows  bool          // the day that the lives of the jobs are from, so far
}

// virtualJob is a job in a virtualCluster.
type virtualJob struct {
	*Trial
	job         *Job
	done, pace  float64
	alone       float64 // pace without another job on the devices
	device      int
	gpus        int
	began       float64       // of the life
	works       float64       // from which it makes progress
	since       float64       // up to which progress is counted
	saved       float64       // seconds of the save before this life; NaN: none
	reported    bool          // whether it keeps its work was reported
	measured    bool          // its start-up was reported
	rated       bool          // its rate was reported, since its pace changed
	paced       float64       // when that was; while the life has had no partner, works
	slow        float64       // by how much the others slow its start at present; 0: its start is that of the day
	life        LifeCosts     // of the present life
	learned     []Measurement // to come, of a life whose measurements are known
	with        int           // job beside it that makes progress; 0: none
	paid        float64       // up to which it has paid for its devices
	left        float64       // when its devices will be free; +Inf: it was not asked to leave
	ended, runs bool
}

// Run simulates until all jobs have ended. A job that never gets devices is an error, and so is a policy that fails, unless Failing.
func (s *Simulation) Run(ctx context.Context) (*Outcome, error) {
	w, err := s.open()
	for n := 0; err == nil && !w.over(); n++ {
		if n%256 == 0 && ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		err = w.event()
	}
	if err != nil {
		return nil, fmt.Errorf("simulate cluster: %w", err)
	}
	return &w.out, nil
}

// open returns the cluster at the beginning.
func (s *Simulation) open() (*virtualCluster, error) {
	w := &virtualCluster{Simulation: s, now: s.From, follows: true, jobs: map[int]*virtualJob{}, out: Outcome{End: map[int]float64{}, Cost: map[int]float64{}}}
	if err := w.begin(); err != nil {
		return nil, err
	}
	w.active = w.arrived()
	w.arrivals, w.policies, w.resizes, w.first = w.order[w.active:], s.Policies[1:], s.Resizes, s.State != nil
	return w, nil
}

// over reports whether all jobs have ended.
func (w *virtualCluster) over() bool { return len(w.arrivals) == 0 && w.active == 0 }

// event advances to the next event, and carries it out.
func (w *virtualCluster) event() error {
	next := min(w.s.Next(), w.next())
	if w.first {
		next, w.first = w.From, false
	}
	if len(w.arrivals) > 0 {
		next = min(next, w.arrivals[0].Arrival())
	}
	if len(w.resizes) > 0 {
		next = min(next, w.resizes[0].At)
	}
	if math.IsInf(next, 1) {
		return fmt.Errorf("%d jobs never get devices", w.active)
	}
	if w.Until > 0 && next > w.Until {
		return errors.New("it does not end in time")
	}
	w.now = max(w.now, next)
	w.crowd()
	for _, t := range w.order {
		if w.advance(t) {
			w.active--
		}
	}
	for ; len(w.arrivals) > 0 && w.arrivals[0].Arrival() <= w.now; w.arrivals = w.arrivals[1:] {
		t := w.arrivals[0]
		w.learner.enter(t.job, &t.Spec, "") // now: the latest job of the same command may have been measured since
		if err := w.s.Admit(w.now, t.job, &t.Spec); err != nil {
			return fmt.Errorf("job %d: %w", t.job.ID, err)
		}
		w.active++
	}
	for ; len(w.policies) > 0 && w.policies[0].From <= w.now; w.policies = w.policies[1:] {
		if err := w.s.SetPolicy(w.now, w.policies[0].Policy); err != nil {
			return err
		}
	}
	for ; len(w.resizes) > 0 && w.resizes[0].At <= w.now; w.resizes = w.resizes[1:] {
		w.learner.assume(w.resizes[0].Job, w.s.gpusOf(w.resizes[0].Job), w.resizes[0].GPUs)
		w.s.Resize(w.now, w.resizes[0].Job, w.resizes[0].GPUs)
	}
	if err := w.step(); err != nil {
		return err
	}
	w.order = slices.DeleteFunc(w.order, func(t *virtualJob) bool { return t.ended })
	w.arrivals = w.order[len(w.order)-len(w.arrivals):]
	return nil
}

// arrived returns the number of jobs that are part of the initial state.
func (w *virtualCluster) arrived() int {
	return stat.Count(w.order, func(t *virtualJob) bool { return w.State != nil && t.job.Counted > 0 })
}

// begin creates the scheduler and the jobs.
func (w *virtualCluster) begin() error {
	w.learner = newLearner(w.Devices, w.Round)
	o := options{Devices: w.learner.devices, Absent: w.Absent, Policy: w.Policies[0].Policy, Seed: w.Seed, Round: w.Round, Rates: w, Log: func(e Event) {
		if e.Kind == EventDecide && e.Reason != "" && w.failure == nil && !w.Failing {
			w.failure = errors.New(e.Reason)
		}
		if w.Log != nil {
			w.Log(e)
		}
	}}
	var err error
	if w.s, err = newScheduler(o, w.From); err != nil {
		return err
	}
	var jobs []*Job
	var specs []*Spec
	for i := range w.Jobs {
		copied := w.Jobs[i]
		copied.Job.Rates, copied.Job.Pairs = slices.Clone(copied.Job.Rates), slices.Clone(copied.Job.Pairs)
		copied.Job.Starts, copied.Job.Saves = slices.Clip(copied.Job.Starts), slices.Clip(copied.Job.Saves)
		t := &virtualJob{Trial: &copied, job: &copied.Job, saved: math.NaN(), done: copied.Job.Done, left: math.Inf(1)}
		w.jobs[t.job.ID] = t
		w.order = append(w.order, t)
		if w.State != nil && t.job.Counted > 0 {
			w.learner.enter(t.job, &t.Spec, "")
			jobs, specs = append(jobs, t.job), append(specs, &t.Spec)
			w.resume(t)
		}
	}
	if w.State == nil {
		return nil
	}
	return w.s.Restore(w.State, jobs, specs)
}

// resume continues a life that had begun before the simulation.
func (w *virtualCluster) resume(t *virtualJob) {
	if !t.job.State.holds() {
		return
	}
	t.device = slices.IndexFunc(w.learner.devices, func(d schedule.DeviceType) bool { return d.Name == t.job.Device })
	t.gpus, t.began, t.runs, t.reported, t.measured = len(t.job.Where), w.From, true, t.job.State != Starting, t.job.State != Starting
	t.life = w.costs(t)
	t.works, t.since, t.paid, t.rated = w.From, w.From, w.From, t.measured
	if t.job.State == Starting {
		t.works = max(w.From, unix(t.job.Since)+t.Again)
		t.since = t.works
	}
	t.alone = t.Rate(t.device, t.gpus)
	t.pace, t.paced = t.alone, t.works
	if t.job.State == Stopping {
		t.runs, t.left = false, max(w.From, unix(t.job.Asked)+t.Save)
	}
}

// next returns the time of the next event of a job; +Inf: none.
func (w *virtualCluster) next() float64 {
	at := math.Inf(1)
	for _, t := range w.order {
		if at = min(at, t.left); !t.holds() {
			continue
		}
		if !t.reported {
			at = min(at, t.keepsKnown())
		}
		if known := t.works + t.life.Measured; !t.measured && known <= t.until() {
			at = min(at, known)
		}
		if _, measured := t.measurement(); measured <= t.left {
			at = min(at, measured)
		}
		if !t.runs {
			continue
		}
		if (t.job.Beside != 0 || w.Crowding > 0) && t.works > w.now { // others are slower, or start faster, from then on
			at = min(at, t.works)
		}
		at = min(at, t.finish())
	}
	return at
}

// holds reports whether a job has devices.
func (t *virtualJob) holds() bool { return t.runs || !math.IsInf(t.left, 1) }

// until returns the time up to which a life makes progress: +Inf, unless it was asked to leave.
func (t *virtualJob) until() float64 { return t.left - t.life.Save + t.life.Useful }

// finish returns the time at which a running job has done its work and left.
func (t *virtualJob) finish() float64 {
	if !(t.pace > 0) {
		return math.Inf(1)
	}
	return t.since + (t.Steps-t.done)/t.pace + t.Exit
}

// advance carries out the events of a job up to now, and reports whether it has ended.
func (w *virtualCluster) advance(t *virtualJob) (ended bool) {
	switch {
	case t.ended:
	case t.left <= w.now:
		w.report(t)
		w.settle(t)
		if t.left = math.Inf(1); t.done == t.Steps {
			return w.end(t)
		}
		w.pay(t)
		t.job.Saves = append(t.job.Saves, t.saved)
		w.s.Left(w.now, t.job.ID, "lease")
	case t.runs && t.finish() <= w.now:
		return w.end(t)
	case t.holds():
		w.report(t)
		w.settle(t)
	}
	return false
}

// end ends a job that has done its work.
func (w *virtualCluster) end(t *virtualJob) (ended bool) {
	t.done, t.job.Done, t.runs, t.ended = t.Steps, t.Steps, false, true
	w.pay(t)
	w.s.Left(w.now, t.job.ID, "exited")
	w.s.End(w.now, t.job.ID, Done, "")
	w.out.End[t.job.ID] = w.now
	return true
}

// report tells the scheduler what a server learns of a life.
func (w *virtualCluster) report(t *virtualJob) {
	if !t.reported && w.now >= t.keepsKnown() {
		t.reported = true
		if keeps := !t.Pinned; t.job.Keeps == nil || *t.job.Keeps != keeps {
			w.s.Keeps(t.job.ID, &keeps)
		}
	}
	if !t.measured && min(w.now, t.until()) >= t.works+t.life.Measured {
		t.measured = true
		startup := t.works - t.began
		if v := t.life.Startup; v >= 0 && t.slow == 0 {
			startup = v
		} else if v >= 0 {
			startup *= v / t.life.Start
		}
		w.s.Worked(w.now, t.job.ID, startup, t.saved, 0)
		t.saved = math.NaN()
		t.job.Total = t.Steps
	}
	rate, at := t.measurement()
	if w.now < at {
		return
	}
	if t.rated = true; len(t.learned) > 0 {
		t.learned = t.learned[1:]
	}
	changed, name := false, w.Devices[t.device].Name
	if t.with != 0 {
		changed = w.learner.observePair(t.job.ID, t.with, name, t.gpus, rate, 2)
	} else {
		_, changed = w.learner.observe(t.job.ID, name, t.gpus, rate, 2)
	}
	if changed && !w.Known {
		w.settle(t)
		w.s.log(w.now, Event{Kind: EventRate, Job: t.job.ID, Stretch: t.job.Stretch, Device: name, GPUs: t.gpus, Seen: rate, Blocks: 2, Done: t.job.Done, Total: t.Steps, Unit: t.job.Unit, With: t.with})
		w.s.Changed(w.now, t.job.ID)
	}
}

// measurement returns the next rate that the scheduler learns, and when: none while the partner of the job starts or saves.
func (t *virtualJob) measurement() (rate, at float64) {
	switch {
	case t.with == 0 && t.job.Beside != 0:
	case t.with == 0 && len(t.learned) > 0:
		return t.learned[0].PerSec, t.began + t.learned[0].After
	case !t.rated && t.paced+t.life.Measured <= t.until():
		return t.pace, t.paced + t.life.Measured
	}
	return 0, math.Inf(1)
}

// share sets the paces of jobs whose partner has begun to make progress, or has ceased to.
func (w *virtualCluster) share() {
	for _, t := range w.order {
		if !t.runs || t.job.Beside == 0 && t.with == 0 {
			continue
		}
		with := 0
		if o := w.jobs[t.job.Beside]; o != nil && o.runs && o.works <= w.now && t.works <= w.now {
			with = o.job.ID
		}
		if with == t.with {
			continue
		}
		w.settle(t)
		t.pace = t.alone
		if t.with = with; with != 0 && t.Beside != nil {
			ratio := t.Beside(with, t.device)
			if !(ratio > 0) { // a pair that is not formed again: the devices are divided
				ratio = 0.5
			}
			t.pace *= ratio
		}
		t.paced, t.rated = max(w.now, t.works), false
		if !w.follows { // what was to be learned was of the job alone
			t.learned = nil
		}
	}
}

// settle counts the progress of a job up to now.
func (w *virtualCluster) settle(t *virtualJob) {
	now := min(w.now, t.until())
	if !t.holds() || now <= t.since {
		return
	}
	if left := (t.Steps - t.done) / t.pace; now-t.since < left {
		t.done, t.since = t.done+(now-t.since)*t.pace, now
	} else {
		t.done, t.since = t.Steps, t.since+left
	}
	t.job.Done = t.done
}

// known returns the progress that a policy knows: on the day that is followed, that of the decision at the same time.
func (t *virtualJob) known(now, tolerance float64) float64 {
	done := t.done
	if t.life.Seen == nil || !t.holds() {
		return done
	}
	for _, k := range t.life.Seen.Known {
		if off := math.Abs(t.began + k.After - now); off <= tolerance {
			done, tolerance = k.Done, off
		}
	}
	return done
}

// step decides and carries out the actions.
func (w *virtualCluster) step() error {
	held := map[int]int{}
	for _, t := range w.order {
		held[t.job.ID] = t.job.Beside
	}
	if w.follows {
		for _, t := range w.order {
			t.job.Done = t.known(w.now, sameTime*w.Round/10)
		}
	}
	actions, err := w.s.Step(w.now)
	if err != nil {
		return err
	}
	for _, t := range w.order {
		t.job.Done = t.done
	}
	for _, t := range w.order {
		if with := t.job.Beside; with != held[t.job.ID] && t.holds() { // what it has held so far at the price of then
			t.job.Beside = held[t.job.ID]
			w.pay(t)
			t.job.Beside = with
		}
	}
	for _, a := range actions {
		t := w.jobs[a.Job]
		if a.Do == schedule.Stop {
			w.settle(t)
			t.runs, t.saved = false, t.life.Save
			t.left = w.now + t.saved
			continue
		}
		w.start(t, &a)
	}
	w.crowd()
	w.share()
	return w.failure
}

// crowd slows the starts of jobs by the others at the same time: what is left of each takes longer or less from now on.
func (w *virtualCluster) crowd() {
	if w.Crowding == 0 {
		return
	}
	slow := 1 - w.Crowding
	for _, t := range w.order {
		if t.runs && t.works > w.now {
			slow += w.Crowding
		}
	}
	for _, t := range w.order {
		if !t.runs || t.works <= w.now || t.slow == 0 {
			continue
		}
		longer := (t.works - w.now) * (slow/t.slow - 1)
		t.slow = slow
		t.works, t.since, t.paced = t.works+longer, t.since+longer, t.paced+longer
		for i := range t.learned {
			t.learned[i].After += longer
		}
	}
}

// costs returns those of the life that a job begins, and notes whether the simulation still follows the day.
func (w *virtualCluster) costs(t *virtualJob) LifeCosts {
	n, nan := t.job.Stretch, math.NaN()
	c := LifeCosts{Start: t.Again, Startup: nan, Keeps: nan, Save: t.Save, Measured: t.Measured}
	if n <= 1 {
		c.Start = t.First
	}
	known := LifeCosts{Start: nan, Startup: nan, Keeps: nan, Save: nan, Measured: nan}
	if n > 0 && n <= len(t.Lives) {
		known = t.Lives[n-1]
	}
	seen := known.Seen
	w.follows = w.follows && seen != nil && seen.Device == w.Devices[t.device].Name && seen.GPUs == t.gpus && math.Abs(seen.At-w.now) <= sameTime*w.Round
	if t.Other != nil && !w.follows && (seen != nil || n > len(t.Lives)) {
		known = t.Other(n)
	}
	for _, v := range []struct{ to, from *float64 }{{&c.Start, &known.Start}, {&c.Startup, &known.Startup}, {&c.Keeps, &known.Keeps}, {&c.Save, &known.Save}, {&c.Measured, &known.Measured}} {
		if !math.IsNaN(*v.from) {
			*v.to = *v.from
		}
	}
	c.Rates, c.Seen, c.Useful = known.Rates, known.Seen, min(known.Useful, c.Save)
	return c
}

func (w *virtualCluster) start(t *virtualJob, a *action) {
	if a.Stretch > 1 {
		w.out.Moves++
	}
	t.device, t.gpus, t.began, t.runs, t.reported, t.measured = a.Device, len(a.Where), w.now, true, false, false
	t.alone = t.Rate(t.device, t.gpus)
	t.life = w.costs(t)
	t.works = w.now + t.life.Start
	t.since, t.paced, t.paid, t.rated, t.with, t.learned, t.slow = t.works, t.works, w.now, false, 0, nil, 0
	if seen := t.life.Seen; seen != nil && w.follows {
		t.learned, t.rated = seen.Rates, seen.Rates != nil
		t.alone = cmp.Or(seen.PerSec, t.alone)
	} else {
		t.slow = 1
		for _, m := range t.life.Rates {
			t.learned = append(t.learned, Measurement{t.works - w.now + t.life.Measured + m.After, m.PerSec * t.alone})
		}
		t.rated = len(t.learned) > 0
	}
	t.pace = t.alone
	if t.job.Keeps == nil {
		w.s.Keeps(t.job.ID, nil)
	}
}

// pay charges a job for its devices up to now: half of the price if it shares them.
func (w *virtualCluster) pay(t *virtualJob) {
	usd := (w.now - t.paid) * float64(t.gpus) / 3600 * w.learner.devices[t.device].USDHour
	if t.paid = w.now; t.job.Beside != 0 {
		usd /= 2
	}
	w.out.Cost[t.job.ID] += usd
}

// Alone implements rates.
func (w *virtualCluster) Alone(job, device, gpus int) (float64, bool) {
	if w.Known {
		return w.jobs[job].Rate(device, gpus), true
	}
	return w.learner.Alone(job, device, gpus)
}

// Pair implements rates.
func (w *virtualCluster) Pair(a, b, device int) (ra, rb float64) {
	if !w.Known {
		return w.learner.Pair(a, b, device)
	}
	i, j := w.jobs[a], w.jobs[b]
	if i.Beside == nil || j.Beside == nil {
		return 0, 0
	}
	gpus := max(i.Spec.Min, 1)
	return i.Rate(device, gpus) * i.Beside(b, device), j.Rate(device, gpus) * j.Beside(a, device)
}

// Work implements rates.
func (w *virtualCluster) Work(job int) (total, done float64) {
	if t := w.jobs[job]; w.Known {
		w.settle(t)
		return t.Steps, t.done
	}
	return w.learner.Work(job)
}

// Kind implements rates.
func (w *virtualCluster) Kind(job int) string { return w.learner.Kind(job) }
