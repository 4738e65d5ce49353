package cluster

import (
	"errors"
	"math"

	"trainopt/optimizer/schedule"
)

// roundDriver simulates the cluster of a schedule.Engine, the default mechanism: it hands arrivals and completions to the
// engine and carries out its commands. Progress is continuous: steps are not rounded down, and completions take effect
// immediately. Where the devices of a job are spread over servers, and the throughput table has rates for that case
// ("v100_unconsolidated"), the job is slower.
type roundDriver struct {
	*simulation
	engine *schedule.Engine
	ends   schedule.Events[ending]
	jobs   []*job // by number in the engine; nil once ended
	point  DecisionPoint
}

var _ schedule.World = (*roundDriver)(nil)

// leased is the state of a job under a roundDriver.
type leased struct {
	round   schedule.ActiveJob
	stretch stretch
}

// stretch is the work of a job, or of a pair, on its current devices. It is kept with the first job.
type stretch struct {
	runnable     *schedule.Runnable // nil: none
	b            *job               // co-located job; nil: none
	device, gpus int
	since        float64 // up to which its work has been accounted
	resumes      float64 // time from which it makes progress
	pace, paceB  float64 // steps/s of both jobs
	generation   int     // of the scheduled end
}

// ending is a scheduled end of the stretch of a job.
type ending struct {
	job        *job
	generation int
}

// Changes that may accumulate before a policy that needs all jobs decides again: with at most 200 active jobs, none.
const (
	pendingShare = 0.005 // of the active jobs
	pendingDelay = 120   // seconds after the first change, if no device is assigned before; else a round
)

// newRoundDriver returns the mechanism and completes the snapshot by what only this mechanism offers to policies.
func newRoundDriver(s *simulation) *roundDriver {
	m := &roundDriver{simulation: s}
	m.point = DecisionPoint{m: m, choice: -1}
	s.snapshot.PairByKind, s.snapshot.Preemption = s.estimates == nil, s.Preemption
	s.snapshot.SizedRate = func(j *schedule.Job, device, gpus int) float64 {
		return s.Throughputs.Alone(s.Devices[device].Name, j.Type, gpus)
	}
	var world schedule.World = m
	if p, ok := s.policy.(schedule.Incremental); ok && s.Choose == nil {
		world = newUpdatingDriver(m, p)
	}
	o := schedule.EngineOptions{
		Devices: s.Devices, Traits: s.traits, Interval: s.Interval, MinReplanInterval: s.MinRecompute, WholeRounds: s.WholeRounds,
		Preemption: s.Preemption,
	}
	if s.MinRecompute == 0 {
		o.Pending, o.PendingDelay = pendingShare, s.Interval
		if s.traits.OnlyShares { // jobs and devices wait for the decision
			o.PendingDelay = min(pendingDelay, s.Interval)
		}
	}
	m.engine = schedule.NewEngine(o, world)
	return m
}

// step advances to the next event: it ends completed jobs, admits arrivals and, at the end of a round or after a
// change, begins the next round.
func (m *roundDriver) step() error {
	if err := m.advance(); err != nil {
		return err
	}
	for at, ok := m.ends.Peek(); ok && at <= m.now; at, ok = m.ends.Peek() {
		if _, e := m.ends.Pop(); e.generation == e.job.stretch.generation {
			m.finish(e.job)
		}
	}
	m.arrive(m.enter)
	if err := m.point.choose(); err != nil {
		return err
	}
	if !m.engine.Due(m.now) {
		return nil
	}
	m.observe()
	commands, err := m.engine.Step(m.now)
	if err != nil {
		return err
	}
	for i := range commands {
		c := &commands[i]
		if c.Do == schedule.Stop {
			m.stop(m.jobs[c.Runnable.A.Number])
		} else {
			m.start(m.jobs[c.Runnable.A.Number], c)
		}
	}
	if m.anyMisestimated() {
		m.engine.LimitRound()
	}
	m.lease = m.engine.Leases()
	return nil
}

// advance moves the clock to the next event.
func (m *roundDriver) advance() error {
	next := m.engine.Next()
	if j := m.source.peek(); j != nil {
		next = min(next, max(m.now, j.Arrival))
	}
	if at, ok := m.ends.Peek(); ok {
		next = min(next, at)
	}
	if math.IsInf(next, 1) {
		if m.removeEnded(); len(m.active) == 0 {
			return errors.New("no job is left")
		}
		return &policyError{m.traits.Name, m.now, m.active[0].ID, errors.New("it gives no device to any job that is left, and no other will come")}
	}
	m.now = next
	return nil
}

// enter hands an arrived job to the engine.
func (m *roundDriver) enter(j *job) {
	j.leased = &leased{round: schedule.ActiveJob{Job: j.Job, Number: len(m.jobs), Rate: j.kind.rate}}
	m.jobs = append(m.jobs, j)
	m.point.arrive(j)
	m.engine.Arrive(m.now, &j.round)
}

// finish ends the completed jobs of a stretch and releases its devices.
func (m *roundDriver) finish(a *job) {
	m.settle(a)
	m.events++
	r, b := a.stretch.runnable, a.stretch.b
	a.stretch.end()
	ended := m.endIfDone(a)
	if b != nil && m.endIfDone(b) {
		ended = true
	}
	if !ended { // by rounding
		m.engine.Release(m.now, r)
	}
}

// endIfDone ends a job if it has completed its steps.
func (m *roundDriver) endIfDone(j *job) bool {
	if j.done < j.Steps {
		return false
	}
	m.end(j, m.now)
	m.engine.End(m.now, &j.round)
	m.jobs[j.round.Number] = nil
	return true
}

// Decide implements schedule.World: it accounts the work up to now and calls the policy.
func (m *roundDriver) Decide(float64) (schedule.Allocation, error) {
	for _, r := range m.engine.Running() {
		m.settle(m.jobs[r.A.Number])
	}
	m.removeEnded()
	return m.decide()
}

// PairRates implements schedule.World.
func (m *roundDriver) PairRates(first, second *schedule.ActiveJob) (a, b []float64) {
	p := m.estimatedRates(m.jobs[first.Number], m.jobs[second.Number])
	return p.a, p.b
}

// SizedRate implements schedule.World.
func (m *roundDriver) SizedRate(j *schedule.ActiveJob, device, gpus int) float64 {
	return m.snapshot.SizedRate(j.Job, device, gpus)
}

// settle accounts the work of a stretch up to now.
func (m *roundDriver) settle(a *job) {
	s := &a.stretch
	seconds := m.now - s.since
	if s.runnable == nil || seconds <= 0 {
		return
	}
	m.charge(a, s.b, s.gpus, s.device, s.since, seconds, 1)
	worked := m.now - max(s.since, s.resumes)
	s.since = m.now
	if worked <= 0 {
		return
	}
	a.work(worked, s.pace)
	if s.b != nil {
		s.b.work(worked, s.paceB)
	}
}

// work adds the progress during a time. A job with less than a microsecond of work left is complete, since sums of
// times are rounded.
func (j *job) work(seconds, pace float64) {
	j.done += float64(seconds * pace)
	if j.remaining() <= pace*1e-6 {
		j.done = j.Steps
	}
}

// stop ends a stretch before its jobs have completed.
func (m *roundDriver) stop(a *job) {
	m.settle(a)
	a.stretch.end()
}

// end invalidates the scheduled end of a stretch.
func (s *stretch) end() {
	s.runnable, s.b = nil, nil
	s.generation++
}

// start begins a stretch of a job, or of a pair, and schedules the end of the first of its jobs.
func (m *roundDriver) start(a *job, c *schedule.Command) {
	r, s := c.Runnable, &a.stretch
	s.runnable, s.device, s.gpus, s.since = r, r.Device, r.GPUs, m.now
	if r.B != nil {
		s.b = m.jobs[r.B.Number]
	}
	s.pace, s.paceB = m.paces(a)
	delay := m.resume(a, c.A, r.GPUs)
	if s.b != nil {
		delay = max(delay, m.resume(s.b, c.B, r.GPUs))
	}
	s.resumes = m.now + delay
	seconds := a.remaining() / s.pace
	if s.b != nil {
		seconds = min(seconds, s.b.remaining()/s.paceB)
	}
	if math.IsInf(seconds, 1) {
		return
	}
	m.ends.Push(s.resumes+seconds, ending{a, s.generation})
	if m.ends.Len() > 4*len(m.active)+64 { // mostly those of stretches that were stopped
		m.ends.Keep(func(e ending) bool { return e.generation == e.job.stretch.generation })
	}
}

// resume charges the preemption loss of a job that continues after a pause or elsewhere, and returns the delay in
// seconds.
func (m *roundDriver) resume(j *job, d schedule.Decision, gpus int) (delay float64) {
	if j.started && d != schedule.Keep {
		m.paused.count++
		delay = m.Preemption.Seconds
		m.paused.seconds += float64(delay * float64(gpus))
		j.done = max(0, j.done-m.Preemption.Steps)
	}
	j.started = true
	return delay
}

// paces returns the throughputs in steps/s of a stretch. Where a table has slightly higher rates on more servers, the
// difference is attributed to measurement noise and ignored.
func (m *roundDriver) paces(a *job) (pace, paceB float64) {
	s := &a.stretch
	pace, paceB = m.actualRates(s.rated(a), s.device)
	if s.b == nil && s.runnable.Spread {
		slow := m.Devices[s.device].Name + "_unconsolidated"
		if m.Throughputs.Measured(slow, a.Type, s.gpus) {
			if r := m.Throughputs.Alone(slow, a.Type, s.gpus); r > 0 {
				pace = min(pace, r)
			}
		}
	}
	return pace, paceB
}

// rated returns the jobs of the stretch of a job with the rates that the policy sees.
func (s *stretch) rated(a *job) *rated {
	return &rated{a, s.b, s.runnable.RateA, s.runnable.RateB}
}

// observe learns from the pairs that have run since the last round and requests a new decision if an estimate was
// wrong.
func (m *roundDriver) observe() {
	if m.estimates == nil {
		return
	}
	for _, r := range m.engine.Running() {
		a := m.jobs[r.A.Number]
		if s := &a.stretch; m.now > math.Max(s.since, s.resumes) && m.learn(s.rated(a), s.device) {
			m.engine.Replan()
		}
	}
}

// anyMisestimated reports whether a running pair has wrong estimates, which the end of the round will reveal.
func (m *roundDriver) anyMisestimated() bool {
	if m.estimates == nil {
		return false
	}
	for _, r := range m.engine.Running() {
		a := m.jobs[r.A.Number]
		if m.misestimated(a.stretch.rated(a), a.stretch.device) {
			return true
		}
	}
	return false
}
