package cluster

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/share"
)

// rates are the throughputs that policies see.
type rates interface {
	// Alone returns the rate of a job in steps/s on a number of devices of a type; 0: it does not run there. measured is
	// false for an assumption.
	Alone(job, device, gpus int) (rate float64, measured bool)
	// Pair returns the rates of two jobs that share devices of a type; 0, 0: they cannot, or that was never measured.
	Pair(a, b, device int) (ra, rb float64)
	// Work returns the total steps of a job and those done. An unknown total is estimated.
	Work(job int) (total, done float64)
	// Kind names jobs with equal rates at all times. It changes when the rates of the job do.
	Kind(job int) string
}

// options configure a Scheduler.
type options struct {
	Devices []schedule.DeviceType
	Absent  [][]int32 // by type, see schedule.EngineOptions
	Policy  string    // a key of share.Policies
	Seed    int64     // of policies that draw random numbers
	Round   float64   // seconds; 0: 360
	Rates   rates
	// Log receives the events; nil: none.
	Log func(Event)
	// Clock is a monotonic clock for timing decisions; nil: they are not timed.
	Clock func() time.Duration
}

// scheduler decides which job holds which devices: the World of a schedule.Engine whose jobs are real. It is a state
// machine without clock, goroutine or I/O: times are Unix seconds and enter with each call, Step returns the lives to
// start and to stop, and Left reports that one has ended. It is not safe for concurrent use.
//
// The engine decides who is to hold which devices (the lease). A job that is to leave takes time to save, so the
// devices are free only when Left reports it; Step compares leases with the devices that are really held, and starts a
// job once its devices are free. No device therefore runs two jobs, unless a policy co-locates them.
type scheduler struct {
	options
	engine *schedule.Engine
	policy schedule.Policy
	origin float64 // Unix seconds at time 0 of policies
	active []*member
	byID   map[int]*member
	number int // of the next job
	halted bool
	// started and moved are the seconds of the latest start-ups and moves of all jobs.
	started, moved []float64
	stale          bool    // rates have changed since the last decision
	settles        float64 // earliest end of a period in which a job keeps its devices after a restart; +Inf: none

	index []int // of the jobs of the last snapshot in active
	// paired are the rates of pairs that the engine retains, by numbers of both jobs.
	paired map[[2]*schedule.ActiveJob][2][]float64
}

// member is an active job.
type member struct {
	*Job
	spec    *Spec
	trace   schedule.Job
	round   schedule.ActiveJob
	asked   bool    // to leave
	partner int     // job on the same devices; 0: none
	vacated float64 // time up to which vacate has counted
	settled float64 // time from which a job that has restarted may be stopped
	settles bool    // that is later than the decision
}

// action is what the caller has to do: Start or Stop of a job.
type action struct {
	Do      schedule.Decision
	Job     int
	Stretch int
	Device  int // type
	Where   []int32
}

const defaultRound = 360

// newScheduler returns a scheduler without jobs. origin is the time that policies see as 0.
func newScheduler(o options, origin float64) (*scheduler, error) {
	o.Round = cmp.Or(o.Round, defaultRound)
	if !(o.Round > 0) || math.IsInf(o.Round, 0) {
		return nil, fmt.Errorf("round of %v s: want a positive time", o.Round)
	}
	total := 0
	for _, d := range o.Devices {
		total += d.Count
	}
	if total == 0 {
		return nil, fmt.Errorf("schedule jobs: the cluster has no devices")
	}
	s := &scheduler{options: o, origin: origin, settles: math.Inf(1), byID: map[int]*member{}, paired: map[[2]*schedule.ActiveJob][2][]float64{}}
	var err error
	if s.policy, err = s.newPolicy(o.Policy); err != nil {
		return nil, err
	}
	s.engine = schedule.NewEngine(schedule.EngineOptions{Devices: o.Devices, Absent: o.Absent, Traits: s.policy.Traits(), Interval: o.Round, NoSpread: true}, s)
	return s, nil
}

func (s *scheduler) log(now float64, e Event) {
	if s.Log != nil {
		e.Time = now
		s.Log(e)
	}
}

// Admit adds a job at time now. Jobs are admitted in order of arrival. A job that runs on no device type is an error.
func (s *scheduler) Admit(now float64, job *Job, spec *Spec) error {
	m := s.member(now, job, spec)
	m.round.Number = s.number
	s.byID[job.ID] = m
	s.rate(m)
	if !slices.ContainsFunc(m.round.Rate, func(v float64) bool { return v > 0 }) {
		delete(s.byID, job.ID)
		return tooFew(m.trace.GPUs)
	}
	s.number++
	s.active = append(s.active, m)
	e := Event{Kind: EventSubmit, Job: job.ID, Name: job.Name, Command: commandOf(spec), User: spec.User, Weight: m.trace.Weight, GPUs: m.trace.GPUs,
		Budget: spec.Config.SLA.CostMaxUSD, Total: job.Total, Unit: job.Unit, Done: job.Done}
	if spec.Max > m.trace.GPUs {
		e.MaxGPUs = spec.Max
	}
	if d := spec.Config.SLA.TimeMax; d > 0 {
		e.Deadline = unix(spec.Submitted) + d.Seconds()
	}
	s.log(unix(spec.Submitted), e)
	s.setState(now, m, Waiting, "")
	s.engine.Arrive(s.policyTime(now), &m.round)
	return nil
}

// member returns a job in the form that the engine and policies require.
func (s *scheduler) member(now float64, job *Job, spec *Spec) *member {
	m := &member{Job: job, spec: spec}
	m.Counted = cmp.Or(m.Counted, now)
	m.trace = schedule.Job{ID: job.ID, GPUs: max(spec.Min, 1), Weight: cmp.Or(spec.Weight, 1), SLO: math.NaN(), Deadline: math.NaN(), User: spec.User,
		Arrival: s.policyTime(unix(spec.Submitted))}
	if d := spec.Config.SLA.TimeMax; d > 0 {
		m.trace.Deadline = m.trace.Arrival + d.Seconds()
	}
	m.round = schedule.ActiveJob{Job: &m.trace, Rate: make([]float64, len(s.Devices))}
	return m
}

// rate sets the rates and the work that the policy sees.
func (s *scheduler) rate(m *member) {
	best := 0.0
	for d := range s.Devices {
		m.round.Rate[d], _ = s.Rates.Alone(m.ID, d, m.trace.GPUs)
		if m.trace.GPUs > s.Devices[d].Count {
			m.round.Rate[d] = 0
		}
		best = max(best, m.round.Rate[d])
	}
	m.trace.Type = s.Rates.Kind(m.ID)
	m.trace.Steps, _ = s.Rates.Work(m.ID)
	m.trace.Seconds = m.trace.Steps / best
	if !math.IsNaN(m.trace.Deadline) && m.trace.Seconds > 0 {
		m.trace.SLO = (m.trace.Deadline - m.trace.Arrival) / m.trace.Seconds
	}
}

// Changed reports that the rates or the work of a job have changed. The policy sees it at the next decision, which is
// due at the latest at the end of the round.
func (s *scheduler) Changed(now float64, job int) {
	if s.byID[job] != nil {
		s.stale = true
		s.engine.LimitRound()
	}
}

// Keeps states whether a job keeps its work when it is stopped; nil: that is not known yet. Only one that does is ever
// stopped for another.
func (s *scheduler) Keeps(job int, keeps *bool) {
	m := s.byID[job]
	if m == nil {
		return
	}
	pinned := keeps == nil || !*keeps
	m.Job.Keeps = keeps
	if m.round.Pinned != pinned {
		m.round.Pinned = pinned
		s.stale = true
		s.engine.LimitRound()
	}
}

// charge sets the cost of a move in decisions to the median of the latest ones; before the first, to twice the median of the
// start-ups, since a save is assumed to take as long. One slow start changes no decision. The cost of a job is within a factor of
// the medians of its own start-ups and saves: 2 for one start, which may be an exception, and less for more.
func (s *scheduler) charge() {
	seconds := saveAsStart * stat.Median(s.started)
	if len(s.moved) > 0 {
		seconds = stat.Median(s.moved)
	}
	if seconds >= 0 {
		s.engine.Preemption = schedule.Preemption{Seconds: min(seconds, s.Round/2)}
	}
	for _, m := range s.active {
		start, save := stat.Median(latest(m.Starts)), stat.Median(latest(m.Saves))
		if !(save >= 0) {
			save = (saveAsStart - 1) * start
		}
		if own, within := start+save, math.Exp2(1/float64(len(m.Starts))); own > 0 {
			m.trace.Restart = min(max(s.engine.Preemption.Seconds, own/within), own*within)
		}
	}
}

// saveAsStart is the ratio of a move to a start-up, before any move was measured.
const saveAsStart = 2

// latest returns the latest values, with further ones.
func latest(values []float64, more ...float64) []float64 {
	const kept = 21
	values = append(values, more...)
	return values[max(0, len(values)-kept):]
}

// End removes a job that will not run again; its life must have ended. State is Done, Failed, Stopped or Cancelled.
func (s *scheduler) End(now float64, job int, state State, reason string) {
	m := s.byID[job]
	if m == nil {
		return
	}
	s.settle(now, m)
	s.setState(now, m, state, reason)
	m.Ended = fromUnix(now)
	delete(s.byID, job)
	s.active = slices.DeleteFunc(s.active, func(o *member) bool { return o == m })
	s.engine.End(s.policyTime(now), &m.round)
	maps.DeleteFunc(s.paired, func(p [2]*schedule.ActiveJob, _ [2][]float64) bool { return p[0] == &m.round || p[1] == &m.round })
	s.log(now, Event{Kind: EventEnd, Job: job, State: state, Reason: reason, Done: m.Job.Done, Total: m.Total, Unit: m.Unit, CostUSD: m.CostUSD})
}

// Left reports that the life of a job has ended, and its devices are free. A job that has ended for good is then passed
// to End; any other one waits for its next life.
func (s *scheduler) Left(now float64, job int, reason string) {
	m := s.byID[job]
	if m == nil || !m.State.holds() {
		return
	}
	s.settle(now, m)
	e := Event{Kind: EventLeft, Job: job, Stretch: m.Stretch, Device: m.Device, GPUs: len(m.Where), Done: m.Job.Done, Reason: reason, CheckpointBytes: m.CheckpointBytes}
	if m.asked {
		took := now - unix(m.Asked)
		e.Seconds = &took
	}
	s.log(now, e)
	m.asked, m.partner, m.Beside = false, 0, 0
	s.setState(now, m, Waiting, "")
}

// Worked reports that a life has done its first unit of work, after the seconds of its start-up and of the save before it (NaN:
// none), and of the preparation of its run (0: of an earlier life).
func (s *scheduler) Worked(now float64, job int, startup, save, prepared float64) {
	m := s.byID[job]
	if m != nil && m.State == Starting {
		s.setState(now, m, Running, "")
		s.log(now, Event{Kind: EventRunning, Job: job, Stretch: m.Stretch, Seconds: &startup, PreparedSeconds: prepared})
	}
	if m != nil {
		m.Starts = append(m.Starts, startup)
	}
	s.started = latest(s.started, startup)
	if move := save + startup; move >= 0 {
		s.moved = latest(s.moved, move)
	}
	s.charge()
}

// Queue states whether the present life of a job waits in the queue of an engine. Its lease keeps the devices from other jobs, but
// until it starts there it waits as one without devices does.
func (s *scheduler) Queue(now float64, job int, queued bool, engine string) (changed bool) {
	m := s.byID[job]
	if m == nil || !m.State.holds() || m.Queued == queued {
		return false
	}
	m.Queued = m.Queued || m.State == Starting // nothing ran since its start
	s.settle(now, m)
	if m.Queued = queued; m.State != Stopping {
		m.Job.Reason = map[bool]string{true: "queued by " + engine}[queued]
	}
	return true
}

// settle counts the device-seconds up to now, and the waiting.
func (s *scheduler) settle(now float64, m *member) {
	seconds := max(0, now-m.Counted)
	m.Counted = now
	if m.State.holds() && !m.Queued {
		m.Attained += seconds * float64(len(m.Where))
	} else {
		m.WaitS += seconds
	}
}

// vacate counts the time since the training of a life has exited, which no server noticed, as waiting: its devices were free.
func (s *scheduler) vacate(now float64, job int, exited float64) {
	m := s.byID[job]
	if m == nil || !m.State.holds() {
		return
	}
	if s.settle(now, m); m.Queued { // counted as waiting already
		return
	}
	idle := max(0, now-max(exited, m.vacated))
	m.WaitS += idle
	m.Attained = max(0, m.Attained-idle*float64(len(m.Where)))
	m.vacated = now
}

func (s *scheduler) setState(now float64, m *member, state State, reason string) {
	s.settle(now, m)
	if m.State != state || m.Since.IsZero() {
		m.Since = fromUnix(now)
	}
	m.State, m.Job.Reason, m.Queued = state, reason, m.Queued && state == Stopping
}

// SetPolicy changes the policy. A policy of the same name keeps its state; another one begins without any.
func (s *scheduler) SetPolicy(now float64, name string) error {
	if name == s.Policy {
		return nil
	}
	p, err := s.newPolicy(name)
	if err != nil {
		return err
	}
	s.policy, s.Policy = p, name
	s.engine.SetTraits(p.Traits())
	s.log(now, Event{Kind: EventPolicy, Policy: name})
	return nil
}

func (s *scheduler) newPolicy(name string) (schedule.Policy, error) {
	return share.New(name, share.Options{Random: rand.New(rand.NewPCG(uint64(s.Seed), 0))})
}

// Halt stops all jobs that keep their work, and starts none any more.
func (s *scheduler) Halt() { s.halted = true }

// Next returns the time at which Step is due if nothing happens before; +Inf: never.
func (s *scheduler) Next() float64 { return min(s.engine.Next()+s.origin, s.settles) }

// Step decides, if that is due, and returns what is to be done now. It is to be called after each event, and at Next.
func (s *scheduler) Step(now float64) ([]action, error) {
	at := s.policyTime(now)
	if s.stale && (at >= s.engine.Next() || s.engine.Due(at)) || now >= s.settles {
		s.settles = math.Inf(1)
		s.refresh()
	}
	if s.engine.Due(at) {
		began := s.elapsed()
		_, err := s.engine.Step(at)
		if err != nil {
			return nil, err
		}
		s.logDecision(now, s.elapsed()-began)
		if s.stale { // it arose within this step
			s.engine.LimitRound()
		}
	}
	actions := s.reconcile(now)
	s.noteBeside(now)
	return actions, nil
}

func (s *scheduler) elapsed() time.Duration {
	if s.Clock == nil {
		return 0
	}
	return s.Clock()
}

// refresh passes changed rates to the engine.
func (s *scheduler) refresh() {
	s.stale = false
	for _, m := range s.active {
		s.rate(m)
	}
	for p, rates := range s.paired {
		s.ratePair(p, rates)
	}
	s.engine.Replan()
}

// logDecision records who holds what after a decision.
func (s *scheduler) logDecision(now float64, took time.Duration) {
	if s.Log == nil {
		return
	}
	seconds := took.Seconds()
	e := Event{Kind: EventDecide, Policy: s.Policy, Jobs: len(s.active), Seconds: &seconds}
	numbers := s.numbers()
	for _, r := range s.engine.Running() {
		l := leaseRecord{Job: numbers[r.A.Number].ID, Device: s.Devices[r.Device].Name, Where: slices.Clone(r.Where)}
		if r.B != nil {
			l.With = numbers[r.B.Number].ID
		}
		e.Leases = append(e.Leases, l)
	}
	for _, m := range s.active {
		if m.State.holds() {
			e.Progress = append(e.Progress, progressRecord{m.ID, m.Job.Done})
		}
	}
	s.log(now, e)
}

func (s *scheduler) numbers() map[int]*member {
	out := make(map[int]*member, len(s.active))
	for _, m := range s.active {
		out[m.round.Number] = m
	}
	return out
}

// lease is what the engine grants a job.
type lease struct {
	runnable *schedule.Runnable
	partner  int
}

// reconcile compares leases with the devices that are held, and returns the differences that can be carried out now.
func (s *scheduler) reconcile(now float64) (actions []action) {
	leases := map[int]lease{}
	if !s.halted {
		numbers := s.numbers()
		for _, r := range s.engine.Running() {
			a := numbers[r.A.Number]
			l := lease{runnable: r}
			if r.B != nil {
				b := numbers[r.B.Number]
				l.partner = b.ID
				leases[b.ID] = lease{r, a.ID}
			}
			leases[a.ID] = l
		}
	}
	holders := map[[2]int][]*member{}
	for _, m := range s.active {
		if !m.State.holds() {
			continue
		}
		device := s.typeOf(m.Device)
		for _, g := range m.Where {
			holders[[2]int{device, int(g)}] = append(holders[[2]int{device, int(g)}], m)
		}
		l, ok := leases[m.ID]
		if keeps := ok && l.runnable.Device == device && slices.Equal(l.runnable.Where, m.Where); keeps {
			m.partner = l.partner
			continue
		}
		if !m.asked && !m.round.Pinned && !m.finished() {
			actions = append(actions, s.stop(now, m, "the policy gives its devices to others"))
		}
	}
	for _, m := range s.active {
		l, ok := leases[m.ID]
		if !ok || m.State.holds() || !free(holders, l) {
			continue
		}
		actions = append(actions, s.start(now, m, l))
		for _, g := range m.Where {
			at := [2]int{l.runnable.Device, int(g)}
			holders[at] = append(holders[at], m)
		}
	}
	return actions
}

// free reports whether the devices of a lease are held by no job but the partner.
func free(holders map[[2]int][]*member, l lease) bool {
	for _, g := range l.runnable.Where {
		for _, h := range holders[[2]int{l.runnable.Device, int(g)}] {
			if h.ID != l.partner || h.asked {
				return false
			}
		}
	}
	return true
}

// stop asks a job to leave.
func (s *scheduler) stop(now float64, m *member, reason string) action {
	m.asked, m.Asked = true, fromUnix(now)
	s.setState(now, m, Stopping, reason)
	s.log(now, Event{Kind: EventStop, Job: m.ID, Stretch: m.Stretch, Device: m.Device, GPUs: len(m.Where), Reason: reason})
	return action{Do: schedule.Stop, Job: m.ID, Stretch: m.Stretch, Device: s.typeOf(m.Device), Where: m.Where}
}

// start begins a life of a job on its leased devices.
func (s *scheduler) start(now float64, m *member, l lease) action {
	r := l.runnable
	do := schedule.Start
	if m.Stretch > 0 {
		switch {
		case len(m.Where) != len(r.Where):
			do = schedule.Resize
		case m.Device != s.Devices[r.Device].Name || !slices.Equal(m.Where, r.Where):
			do = schedule.Move
		}
	}
	e := Event{Kind: EventStart, Job: m.ID, Stretch: m.Stretch + 1, Device: s.Devices[r.Device].Name, Where: slices.Clone(r.Where), GPUs: len(r.Where), Do: do.String()}
	if rate, measured := s.Rates.Alone(m.ID, r.Device, r.GPUs); measured {
		e.Predicted = rate
	}
	cost := 0.0
	if m.Stretch > 0 {
		cost = s.engine.Preemption.Of(&m.trace).Seconds
		m.settled = now + 2*cost // it works for at least as long as it has taken to restart
		m.Moves++
	} else {
		m.Began = fromUnix(now)
	}
	e.PredictedSeconds = &cost
	s.setState(now, m, Starting, "")
	m.Stretch++
	m.Device, m.Where, m.partner = e.Device, e.Where, l.partner
	s.log(now, e)
	return action{Do: schedule.Start, Job: m.ID, Stretch: m.Stretch, Device: r.Device, Where: m.Where}
}

// StopJob asks a job to leave its devices for a reason of its own, such as a cancellation; nil if it holds none, or was
// asked already.
func (s *scheduler) StopJob(now float64, job int, reason string) *action {
	m := s.byID[job]
	if m == nil || !m.State.holds() || m.asked {
		return nil
	}
	a := s.stop(now, m, reason)
	return &a
}

func (s *scheduler) typeOf(name string) int {
	return slices.IndexFunc(s.Devices, func(d schedule.DeviceType) bool { return d.Name == name })
}

// present reports whether no device of a type is absent, or does not exist.
func (s *scheduler) present(device int, where []int32) bool {
	var absent []int32
	if s.Absent != nil {
		absent = s.Absent[device]
	}
	return !slices.ContainsFunc(where, func(g int32) bool {
		return int(g) >= s.Devices[device].Count+len(absent) || slices.Contains(absent, g)
	})
}

func (s *scheduler) policyTime(now float64) float64 { return now - s.origin }

func unix(t time.Time) float64 { return float64(t.UnixNano()) / 1e9 }

func fromUnix(seconds float64) time.Time { return time.Unix(0, int64(math.Round(seconds*1e9))).UTC() }
