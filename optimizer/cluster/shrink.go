package cluster

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"trainopt/optimizer/run"
)

// use is what a job uses of what it holds, from the samples of its agent since the beginning of its life.
type use struct {
	since   float64            // Unix seconds of the first sample; 0: none
	samples int                // of devices
	busy    map[string]float64 // Unix seconds of the first sample or the last activity, by device
	cpus    []float64          // CPUs used, one value for each sample of the window
}

const (
	busyPercent    = 5 // utilization from which a device counts as used
	leastSamples   = 10
	unitsObserved  = 3               // of work, during which a device must be idle
	shortestWindow = 10.0            // seconds for which a device must be idle
	longestWindow  = 60.0            // unless units of work take longer
	cpuReserve     = 1.2             // CPUs kept relative to the most that were used
	slower         = 0.9             // rate after a reduction, relative to before, from which it is undone
	forecastTime   = 2 * time.Second // limit of the simulations behind a proposal
	shrinkPeriod   = 5               // seconds between two examinations
)

// take adds a sample.
func (u *use) take(now float64, st *run.Status) {
	if u.since == 0 {
		u.since, u.busy = now, map[string]float64{}
	}
	for _, d := range st.Devices {
		if _, seen := u.busy[d.ID]; !seen || d.UtilPercent >= busyPercent {
			u.busy[d.ID] = now
		}
	}
	if len(st.Devices) > 0 {
		u.samples++
	}
	if v := st.CPUUtil / 100 * float64(max(1, st.Allocation.CPUs)); !math.IsNaN(v) {
		u.cpus = append(u.cpus, v)
		u.cpus = u.cpus[max(0, len(u.cpus)-int(longestWindow)):]
	}
}

// needs returns how many of the held devices a job needs, with the evidence. unit is the seconds of a unit of work, cpus
// the CPUs that belong to one device. It returns held unless at least one device is used, and others are known to be
// unused for long enough. A device without readings counts as used. O(held).
func (u *use) needs(now float64, held int, unit, round, cpus float64, accelerators bool) (int, string) {
	window := max(min(max(round/3, shortestWindow), longestWindow), unitsObserved*unit)
	if u.since == 0 || now-u.since < window || held < 2 {
		return held, ""
	}
	if u.samples >= leastSamples {
		idle := 0
		for _, at := range u.busy {
			if now-at >= window {
				idle++
			}
		}
		if n := held - idle; idle > 0 && n > 0 {
			return n, fmt.Sprintf("%d of %d devices idle for %.0f s", idle, held, window)
		}
		return held, ""
	}
	if accelerators || len(u.cpus) < leastSamples || !(cpus > 0) {
		return held, ""
	}
	sorted := slices.Sorted(slices.Values(u.cpus))
	most := sorted[len(sorted)*95/100]
	if n := max(1, int(math.Ceil(cpuReserve*most/cpus))); n < held {
		return n, fmt.Sprintf("%.2g CPUs used of %.3g for %.0f s", most, cpus*float64(held), window)
	}
	return held, ""
}

// shrink is the reduction of the devices of a job to those that it uses.
type shrink struct {
	From   int    `json:"from"`
	To     int    `json:"to"`
	Reason string `json:"reason"`
	// GainS is the predicted time by which jobs end earlier, the sum over all jobs in seconds, divided among the
	// reductions of the same time.
	GainS float64 `json:"gain_s"`
	// Rate is the rate before, in steps/s, on Device.
	Rate    float64 `json:"steps_per_s"`
	Device  string  `json:"device"`
	Checked bool    `json:"checked"` // the rate after it was compared
	Undone  bool    `json:"undone"`  // the job was slower: it has all its devices again
}

// judge compares the rate after a reduction. decided is false without enough measurements on the device type.
func (k *shrink) judge(device string, gpus int, seen float64, blocks int) (keep, decided bool) {
	if device != k.Device || gpus != k.To || blocks < 3 || !(k.Rate > 0) {
		return false, false
	}
	return seen >= slower*k.Rate, true
}

// gain simulates the future of all jobs with and without reductions, and returns the seconds by which the other jobs end
// earlier in all, less those by which these end later, and whether a deadline that is kept without them would be missed.
// A panic of the policy is an error.
func gain(ctx context.Context, now Simulation, reductions []Resizing) (seconds float64, breaks bool, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("simulate cluster: it panicked: %v", r)
		}
	}()
	before, err := now.Run(ctx)
	if err != nil {
		return 0, false, err
	}
	then := now
	then.Jobs, then.Resizes = slices.Clone(now.Jobs), reductions
	for _, k := range reductions {
		t := &then.Jobs[slices.IndexFunc(then.Jobs, func(t Trial) bool { return t.Job.ID == k.Job })]
		full, held := t.Rate, len(t.Job.Where)
		t.Rate = func(device, gpus int) float64 { return full(device, max(gpus, held)) } // it uses no more
	}
	after, err := then.Run(ctx)
	if err != nil {
		return 0, false, err
	}
	for i := range now.Jobs {
		t := &now.Jobs[i]
		id := t.Job.ID
		seconds += before.End[id] - after.End[id]
		if d := t.Spec.Config.SLA.TimeMax; d > 0 {
			end := unix(t.Spec.Submitted) + d.Seconds()
			breaks = breaks || before.End[id] <= end && after.End[id] > end
		}
	}
	return seconds, breaks, nil
}

// Resize changes the number of devices that a job receives, at the next step.
func (s *scheduler) Resize(now float64, job, gpus int) {
	m := s.byID[job]
	if m == nil || m.trace.GPUs == gpus {
		return
	}
	m.spec.Min, m.spec.Max, m.trace.GPUs = gpus, gpus, gpus
	s.rate(m)
	s.engine.Resize(s.policyTime(now), &m.round)
	s.stale = true
}

// gpusOf returns the number of devices that a job receives; 0 for one that is not active.
func (s *scheduler) gpusOf(job int) int {
	if m := s.byID[job]; m != nil {
		return m.trace.GPUs
	}
	return 0
}

// candidate is a job that uses less than it holds.
type candidate struct {
	*live
	to   int
	why  string
	rate *Rate
}

// examine reduces the devices of jobs that use less than they hold, if the jobs end earlier in all by it, and checks
// earlier reductions.
func (s *server) examine() {
	now := s.now()
	if !s.Shrink || now < s.examined+shrinkPeriod {
		return
	}
	s.examined = now
	var found []candidate
	for _, l := range s.sortedJobs() {
		if l.State != Running || l.Beside != 0 || l.Keeps == nil || !*l.Keeps || l.interrupts == nil {
			continue
		}
		rate, device := l.rateHere(), s.scheduler.typeOf(l.Device)
		if rate == nil || device < 0 {
			continue
		}
		if k := l.Job.Shrink; k != nil {
			s.check(l, k, rate)
			continue
		}
		if l.spec.Max > max(l.spec.Min, 1) { // the policy chooses the number
			continue
		}
		d := s.Site.Devices()[device]
		shown := !d.GPU && s.Site.Name() == "local" // CPU use shows the use of the devices; on nodes, others may use what a job leaves
		to, why := l.use.needs(now, len(l.Where), 1/rate.PerSec, s.Round.Seconds(), d.CPUs, !shown)
		if to < len(l.Where) {
			found = append(found, candidate{l, to, why, rate})
		}
	}
	// Two jobs together may free what a waiting one needs, and one of them may not.
	if len(found) > 0 && !s.reduce(found) && len(found) > 1 {
		for _, c := range found {
			if s.reduce([]candidate{c}) {
				return
			}
		}
	}
}

// rateHere returns the rate of a job on the devices that it holds; nil if it was not measured.
func (l *live) rateHere() *Rate {
	for i := range l.Rates {
		if r := &l.Rates[i]; r.Device == l.Device && r.GPUs == len(l.Where) && r.Blocks > 0 {
			return r
		}
	}
	return nil
}

// reduce reduces the devices of jobs if the jobs of the cluster end earlier in all by it.
func (s *server) reduce(found []candidate) bool {
	now := s.now()
	sim, err := s.future(now)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), forecastTime)
	defer cancel()
	reductions := make([]Resizing, len(found))
	for i, c := range found {
		reductions[i] = Resizing{now, c.ID, c.to}
	}
	seconds, breaks, err := gain(ctx, sim, reductions)
	if err != nil || breaks || !(seconds > 0) {
		return false
	}
	for _, c := range found {
		k := &shrink{From: len(c.Where), To: c.to, Reason: c.why, GainS: seconds / float64(len(found)), Rate: c.rate.PerSec, Device: c.Device}
		c.Job.Shrink = k
		s.record(now, Event{Kind: EventShrink, Job: c.ID, Device: c.Device, GPUs: k.From, To: k.To, Reason: k.Reason, GainS: &k.GainS})
		s.Message(fmt.Sprintf("job %d (%s): %d of %d devices: %s; all jobs are predicted to end %.0f s earlier in all", c.ID, c.Name, k.To, k.From, k.Reason, seconds))
		s.rates.assume(c.ID, k.From, k.To)
		s.scheduler.Resize(now, c.ID, k.To)
	}
	return true
}

// check compares the rate of a job after a reduction, and undoes one that has slowed the job down.
func (s *server) check(l *live, k *shrink, rate *Rate) {
	keep, decided := k.judge(l.Device, len(l.Where), rate.PerSec, rate.Blocks)
	if k.Checked || !decided {
		return
	}
	now := s.now()
	k.Checked, k.Undone = true, !keep
	e := Event{Kind: EventShrunk, Job: l.ID, Device: l.Device, GPUs: k.To, Seen: rate.PerSec, Predicted: k.Rate, Do: "keep"}
	if !keep {
		e.Do = "undo"
		s.Message(fmt.Sprintf("job %d (%s): %d devices again: it was slower with %d (%.3g steps/s instead of %.3g)", l.ID, l.Name, k.From, k.To, rate.PerSec, k.Rate))
		s.scheduler.Resize(now, l.ID, k.From)
	}
	s.record(now, e)
}

// future returns the simulation of the present jobs with what is known of them.
func (s *server) future(now float64) (Simulation, error) {
	var jobs []*Job
	var specs []*Spec
	for _, l := range s.sortedJobs() {
		jobs, specs = append(jobs, l.Job), append(specs, l.spec)
	}
	sim, err := future(now, s.scheduler, s.rates, s.present(), jobs, specs)
	sim.Seed = s.Seed
	return sim, err
}

// future returns the simulation of the present jobs of a scheduler, with the rates that a learner knows.
func future(now float64, s *scheduler, rates *learner, devices []Device, jobs []*Job, specs []*Spec) (Simulation, error) {
	sim := Simulation{Devices: devices, Absent: s.Absent, Round: s.Round, From: now, Policies: []Span{{now, s.Policy}}, Known: true, Failing: true}
	var err error
	if sim.State, err = s.State(); err != nil {
		return sim, err
	}
	for i, j := range jobs {
		move := s.engine.Preemption.Of(&s.byID[j.ID].trace).Seconds
		total, done := rates.Work(j.ID)
		known := map[[2]int]float64{}
		for d := range devices {
			for n := 1; n <= min(devices[d].Count, max(specs[i].Min, specs[i].Max, len(j.Where), 1)); n++ {
				known[[2]int{d, n}], _ = rates.Alone(j.ID, d, n)
			}
		}
		t := Trial{Job: *j, Spec: *specs[i], Steps: total, First: move, Again: move / 2, Save: move / 2, Pinned: j.Keeps != nil && !*j.Keeps,
			Rate: func(device, gpus int) float64 { return known[[2]int{device, gpus}] }}
		t.Job.Done = done
		t.Job.Rates, t.Job.Pairs = slices.Clone(j.Rates), slices.Clone(j.Pairs) // those of the job change while it is simulated
		sim.Jobs = append(sim.Jobs, t)
	}
	return sim, knowPairs(&sim, s, rates)
}

// mostPairing is the number of jobs up to which the future of pairs is simulated: each two of them are a pair.
const mostPairing = 64

// knowPairs sets what a learner knows of pairs, if the policy of a scheduler forms any.
func knowPairs(sim *Simulation, s *scheduler, rates *learner) error {
	if !s.policy.Traits().Packs {
		return nil
	}
	if len(sim.Jobs) > mostPairing {
		return fmt.Errorf("simulate the queue: %d jobs, each two of which may share devices", len(sim.Jobs))
	}
	for i := range sim.Jobs {
		t := &sim.Jobs[i]
		ratio := map[[2]int]float64{}
		for k := range sim.Jobs {
			o := &sim.Jobs[k].Job
			for d := range sim.Devices {
				if alone := t.Rate(d, max(t.Spec.Min, 1)); o.ID != t.Job.ID && alone > 0 {
					ra, _ := rates.Pair(t.Job.ID, o.ID, d)
					ratio[[2]int{o.ID, d}] = ra / alone
				}
			}
		}
		t.Beside = func(job, device int) float64 { return ratio[[2]int{job, device}] }
	}
	return nil
}

// assume enters the measured rates of a job on some number of devices for another number.
func (l *learner) assume(job, from, to int) {
	j := l.jobs[job]
	if j == nil {
		return
	}
	for _, r := range slices.Clone(j.Rates) {
		if r.GPUs == from && !slices.ContainsFunc(j.Rates, func(o Rate) bool { return o.Device == r.Device && o.GPUs == to }) {
			r.GPUs, r.Predicted, r.Blocks = to, r.PerSec, 0
			j.Rates = append(j.Rates, r)
		}
	}
	j.version++
	clear(l.ratios)
}

// deviceIDs names devices of a type: "a100:0,a100:1".
func deviceIDs(device string, where []int32) []string {
	out := make([]string, len(where))
	for i, g := range where {
		out[i] = fmt.Sprintf("%s:%d", device, g)
	}
	return out
}
