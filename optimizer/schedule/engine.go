package schedule

import (
	"fmt"
	"math"
	"slices"
)

// EngineOptions configure an Engine.
type EngineOptions struct {
	Devices []DeviceType
	// Absent are the numbers, by type, of further devices that nothing receives, since their servers are down. A type then has
	// the numbers from 0 to its count and that of these, less 1. nil: all devices are present.
	Absent   [][]int32
	Traits   Traits  // of the policy
	Interval float64 // length of a round in seconds
	// MinReplanInterval is the minimum time in seconds between two decisions; 0: that of the policy's traits after
	// completions without arrivals, else none; negative: none.
	MinReplanInterval float64
	// WholeRounds makes every round last its full length, with devices that become free earlier idle until then.
	WholeRounds bool
	Preemption  Preemption
	// Pending is the share of the active jobs that may arrive or complete before the policy decides again, but at most
	// PendingDelay seconds after the first of them; 0: it decides after each. A decision about all jobs then costs O(1)
	// per change. Meanwhile, unless the policy forbids it, released devices are assigned like those that remain after
	// the shares. Policies that decide by updates (Updater) do not wait.
	Pending      float64
	PendingDelay float64
	// NoSpread runs every job within one server or, if it asks for more devices than a server has, on whole servers. If too few
	// of their devices are free, jobs move to other servers, or those stop to which the policy owes less. Where it must wait all
	// the same, since enough are idle but not on one server, other jobs may receive them unless the policy forbids it.
	// The world must not be an Updater.
	NoSpread bool
}

// World is the cluster that an engine schedules.
type World interface {
	// Decide returns the shares of the policy at a time. Entries refer to the active jobs in order of arrival.
	Decide(now float64) (Allocation, error)
	// PairRates returns the throughputs in steps/s of two co-located jobs by device type. The job that arrived earlier
	// comes first. The slices are retained; the world may correct them in place and then call Replan.
	PairRates(first, second *ActiveJob) (a, b []float64)
	// SizedRate returns the throughput in steps/s of a job on a number of devices of a type. It is only called with
	// numbers chosen by the policy.
	SizedRate(j *ActiveJob, device, gpus int) float64
}

// Updater is a World whose policy can derive a decision from the last one and what has changed since, at a cost that
// does not grow with the number of jobs.
type Updater interface {
	World
	// Update returns the new places of the jobs whose place changes, given the jobs that arrived and ended since the last
	// decision. ok is false if the policy needs all jobs: the engine then calls Decide, from now on.
	Update(now float64, arrived, ended []*ActiveJob) (moves []JobPlace, ok bool, err error)
}

// JobPlace is a job and the type of its devices, all of whose time is the job's; −1: it waits.
type JobPlace struct {
	Job    *ActiveJob
	Device int
}

// Command is an instruction to the world: to stop a runnable, or to start it on its devices.
type Command struct {
	Do       Decision // Stop or Start
	Runnable *Runnable
	// A and B say what starting the runnable means for its jobs: Keep, Start, Move or Resize. A job that an earlier
	// command of the same step stopped and that is kept need not be interrupted.
	A, B Decision
}

// Leases counts how often a runnable was still present when its lease ended, and how often it then kept its devices.
type Leases struct{ Ended, Extended int }

// Engine turns the shares of a policy into leases of devices, in rounds of a few minutes: shares → leases → devices →
// moves. It is a pure state machine, not safe for concurrent use. While all runnables have full shares, there are no
// rounds.
//
// The engine keeps Gavel's rounds (Narayanan et al., OSDI 2020, section 5), which share time by assigning each device
// to one job or pair for some minutes, without the restrictions that cost Gavel time:
//
//   - Decisions are made as soon as jobs arrive or complete, which also ends the round: no job waits for the next
//     decision, and released devices are reassigned immediately (EngineOptions.WholeRounds keeps them until the end of
//     the round).
//   - The entries with the largest time owed receive the devices of a round, so shares are accurate to within a
//     round; a holder keeps its devices unless another entry is owed more by at least a lease.
//   - Remaining devices are assigned where they help most, relative to the best device type of each job, rather than
//     in order of speed of the type; jobs move up to better devices that would be idle.
//   - Devices of a job are spread over as few servers as possible.
//
// Cost: O(jobs · types) a decision or end of a round, else O(1). With an Updater, a decision costs O(changes).
type Engine struct {
	EngineOptions
	world World
	updates
	period float64 // seconds after which the policy decides again; +Inf: never
	now    float64

	jobs     []*ActiveJob         // in order of arrival; ended ones are removed by the next decision
	pairs    map[[2]int]*Runnable // by numbers of both jobs
	list     []*Runnable          // in order of creation
	running  running
	leases   Leases
	commands []Command

	changed    bool    // jobs arrived or completed since the last decision
	arrived    bool    // jobs arrived
	decided    float64 // time of the last decision; −Inf: none
	roundStart float64
	roundEnd   float64 // scheduled; +Inf: none
	shared     bool    // some runnable has a partial share

	freeDevices
	chooser
}

// NewEngine returns an engine of an idle cluster.
func NewEngine(o EngineOptions, w World) *Engine {
	e := &Engine{
		EngineOptions: o, world: w, pairs: map[[2]int]*Runnable{},
		changed: true, decided: math.Inf(-1), roundEnd: math.Inf(1),
	}
	e.period = periodOf(o.Traits)
	e.freeDevices.init(o.Devices, o.Absent)
	e.noSpread = o.NoSpread
	e.updates.init(w)
	return e
}

// SetTraits announces another policy, which decides at the next step.
func (e *Engine) SetTraits(t Traits) {
	e.note(e.now, false)
	e.Traits, e.period, e.arrived = t, periodOf(t), true
}

// periodOf returns the seconds after which a policy decides again; +Inf: never.
func periodOf(t Traits) float64 {
	if t.Period > 0 {
		return t.Period
	}
	return math.Inf(1)
}

// Arrive admits a job at time now. Numbers of jobs increase in the order of calls.
func (e *Engine) Arrive(now float64, j *ActiveJob) {
	e.note(now, true)
	e.arrived = true
	e.updates.arrive(j)
	e.jobs = append(e.jobs, j)
	e.runnable(j, nil)
}

// End removes a job that completed, or was cancelled, at time now. Its devices are free from then on; a co-located job
// loses them too, and the next step usually returns them to it.
func (e *Engine) End(now float64, j *ActiveJob) {
	if j.ended {
		return
	}
	e.note(now, j.runs == nil || j.runs.B == nil) // the other job of a pair would wait
	e.updates.end(j)
	j.ended = true
	if j.runs != nil {
		e.drop(j.runs)
	}
}

// Release ends the lease of a runnable at time now although no job completed. The next step may start it again, on the same
// devices.
func (e *Engine) Release(now float64, r *Runnable) {
	e.note(now, false)
	e.updates.release(r)
	e.drop(r)
}

// drop releases the devices of a runnable without a command.
func (e *Engine) drop(r *Runnable) {
	e.release(r)
	e.running.remove(r)
}

// Replan requests a decision at the next step, as after an arrival or a completion: rates have changed.
func (e *Engine) Replan() {
	e.note(e.now, false)
	e.byRates = nil
	for _, r := range e.list {
		if r.gone() {
			continue
		}
		if r.sized {
			e.rate(r)
		}
		r.best, r.kind = e.bestRate(r), nil
	}
}

// LimitRound ends the current round after one interval even if all shares are full: a running pair has rates that will
// be corrected then.
func (e *Engine) LimitRound() { e.roundEnd = min(e.roundEnd, e.roundStart+e.Interval) }

// Next returns the time in seconds at which Step is due if no job arrives or completes before; +Inf: never.
func (e *Engine) Next() float64 {
	if e.WholeRounds && !math.IsInf(e.roundEnd, 1) {
		return e.roundEnd
	}
	return min(e.roundEnd, e.pendingUntil)
}

// Running returns the runnables that hold devices, in the order in which they were started. The slice is valid until
// the next call.
func (e *Engine) Running() []*Runnable { return e.running.all() }

// Leases returns the number of leases that ended and were extended so far.
func (e *Engine) Leases() Leases { return e.leases }

// Due reports whether a round begins at time now: at the end of the last one, or after a change.
func (e *Engine) Due(now float64) bool {
	return now >= e.roundEnd || e.changed && !(e.WholeRounds && !math.IsInf(e.roundEnd, 1)) && (e.enoughChanged(now) || e.unassigned)
}

// Step begins a round if it is due: it updates the time owed, asks for a decision if one is due, and assigns devices.
// It is to be called after all arrivals and completions of a time. Commands are to be carried out in order; they are
// valid until the next step.
func (e *Engine) Step(now float64) ([]Command, error) {
	e.commands = e.commands[:0]
	if !e.Due(now) {
		return nil, nil
	}
	e.now = now
	if now < e.roundEnd && !e.enoughChanged(now) {
		e.assignReleased()
		return e.commands, nil
	}
	e.updateDeficits()
	since := now - e.decided
	if e.changed && since >= e.minReplanInterval() || since >= e.period {
		if err := e.decide(); err != nil {
			return nil, err
		}
	}
	e.pendingUntil, e.unassigned = math.Inf(1), false
	if !e.byUpdates {
		e.choose()
		e.move()
	}
	e.roundEnd = math.Inf(1)
	if e.shared || e.changed || e.WholeRounds && e.running.count() > 0 || slices.ContainsFunc(e.types, func(k freeOfType) bool { return len(k.withheld) > 0 }) {
		e.roundEnd = now + e.Interval
	}
	e.roundEnd = min(e.roundEnd, max(now+1, e.decided+e.period))
	return e.commands, nil
}

// minReplanInterval returns the minimum time in seconds between the last decision and the next.
func (e *Engine) minReplanInterval() float64 {
	if e.EngineOptions.MinReplanInterval == 0 && !e.arrived {
		return e.Traits.MinReplanInterval
	}
	return e.EngineOptions.MinReplanInterval
}

// updateDeficits adds the difference between the time due and the time received in the past round to the deficit of
// each runnable. Deficits are limited to a few rounds: they serve for ordering and must not grow while devices are
// scarce.
func (e *Engine) updateDeficits() {
	length := e.now - e.roundStart
	e.roundStart = e.now
	if !e.shared || length <= 0 {
		return
	}
	most := maxDeficit * e.Interval
	for _, r := range e.list {
		for d, x := range r.shares {
			due := float64(x * length)
			if r.counted == d {
				due -= length
			}
			r.deficit[d] = min(max(r.deficit[d]+due, -most), most)
		}
	}
}

const maxDeficit = 20 // rounds

// decide asks the policy for changes or, if it needs all jobs, for all shares, and applies them.
func (e *Engine) decide() error {
	done, err := e.update()
	if err == nil && !done {
		err = e.applyDecision()
	}
	if err == nil {
		e.decided, e.changed, e.arrived, e.pending = e.now, false, false, 0
	}
	return err
}

// applyDecision asks the policy and applies its shares.
func (e *Engine) applyDecision() error {
	e.removeEnded()
	a, err := e.world.Decide(e.now)
	if err != nil {
		return err
	}
	e.shared = false
	for _, r := range e.list {
		clear(r.shares)
		r.asked = false
		if r.sized && a.GPUs == nil { // an earlier policy chose the number
			e.resize(r, r.A.GPUs)
		}
	}
	// Create runnables as needed, and detect partial shares.
	for i := range a.Entries {
		entry := &a.Entries[i]
		if max(entry.A, entry.B) >= len(e.jobs) {
			return fmt.Errorf("shares for jobs %d and %d of %d", entry.A, entry.B, len(e.jobs))
		}
		r := e.runnable(e.jobs[entry.A], nil)
		if entry.B >= 0 {
			r = e.runnable(e.jobs[min(entry.A, entry.B)], e.jobs[max(entry.A, entry.B)])
		}
		r.asked = true
		if a.GPUs != nil {
			e.resize(r, a.GPUs[i])
		}
		for d, x := range entry.X {
			r.shares[d] = min(max(x, 0), 1)
			e.shared = e.shared || x > minShare && x < fullShare
		}
	}
	return nil
}

const (
	minShare  = 1e-6 // smaller shares are rounding errors
	fullShare = 1 - 1e-6
)

// removeEnded removes ended jobs, and the runnables with such jobs and pairs without devices that the last decision
// did not include.
func (e *Engine) removeEnded() {
	jobs := e.jobs[:0]
	for _, j := range e.jobs {
		if !j.ended {
			jobs = append(jobs, j)
		}
	}
	clear(e.jobs[len(jobs):])
	e.jobs, e.gone = jobs, 0
	kept := e.list[:0]
	for _, r := range e.list {
		if r.gone() || r.B != nil && !r.asked && r.Device < 0 {
			delete(e.pairs, keyOf(r.A, r.B))
			continue
		}
		kept = append(kept, r)
	}
	clear(e.list[len(kept):])
	e.list = kept
}

// runnable returns the runnable of a single job (b is nil) or of a pair in order of arrival, and creates it if
// necessary.
func (e *Engine) runnable(a, b *ActiveJob) *Runnable {
	if b == nil && a.single != nil {
		return a.single
	}
	key := keyOf(a, b)
	if r, ok := e.pairs[key]; ok {
		return r
	}
	r := newRunnable(a, b, len(e.Devices))
	if b != nil {
		r.RateA, r.RateB = e.world.PairRates(a, b)
		e.pairs[key] = r
	} else {
		a.single = r
	}
	r.best = e.bestRate(r)
	e.list = append(e.list, r)
	return r
}

// resize changes the number of devices of a runnable.
func (e *Engine) resize(r *Runnable, gpus int) {
	if r.GPUs == gpus {
		return
	}
	if r.Device >= 0 {
		if r.pinned() {
			return
		}
		e.stop(r)
		e.running.remove(r)
	}
	r.GPUs, r.sized, r.RateA = gpus, true, make([]float64, len(e.Devices))
	e.rate(r)
	r.best, r.kind = e.bestRate(r), nil
}

// Resize takes the number of devices of a job, which the world has changed, at time now. The next step assigns them.
func (e *Engine) Resize(now float64, j *ActiveJob) {
	e.note(now, false)
	e.byRates = nil
	r := e.runnable(j, nil)
	if j.runs != nil {
		r = j.runs
	}
	if r.B == nil {
		e.resize(r, j.GPUs)
	}
}

// rate sets the throughputs of a job on a number of devices that the policy chose.
func (e *Engine) rate(r *Runnable) {
	for d := range r.RateA {
		r.RateA[d] = e.world.SizedRate(r.A, d, r.GPUs)
	}
}

// move stops the runnables that lose their devices and starts the chosen ones.
func (e *Engine) move() {
	list := e.running.all()
	e.leases.Ended += len(list)
	for _, r := range list {
		if r.want != r.Device {
			e.stop(r)
			e.running.remove(r)
		}
	}
	e.leases.Extended += e.running.count()
	e.place(e.NoSpread)
}

// place starts the chosen runnables without devices. One that would be spread over servers, where that is not allowed, starts
// where others make way, if they may be stopped (gather), or waits: unless the policy forbids it, the devices are assigned to
// those that can use them, and it may run on another type.
func (e *Engine) place(gather bool) {
	if e.NoSpread { // what keeps its devices comes first
		e.reserve()
		for _, r := range e.chosen {
			if j := e.formerOf(r); r.Device < 0 && j.stopped == e.now && j.last.Device == r.want && len(j.last.Where) == r.GPUs && e.fits(r.want, r.GPUs) {
				e.start(r)
			}
		}
	}
	e.refused = false
	for i := 0; i < len(e.chosen); i++ {
		switch r := e.chosen[i]; {
		case r.Device >= 0:
		case e.fits(r.want, r.GPUs):
			e.start(r)
		case gather && e.gather(r):
		default:
			e.refused = true
			r.refused, r.refusedOn = min(r.refused, e.now), r.want
			e.left[r.want] += r.GPUs
			r.want, r.counted = -1, -1
			r.choose(e.chooser.round - 1)
		}
		if i == len(e.chosen)-1 && e.refused && !e.Traits.OnlyShares {
			e.collect()
			e.fill()
		}
	}
	e.refused = false
}

// fits reports whether devices are free that a job of a size may receive.
func (e *Engine) fits(device, gpus int) bool { return !e.NoSpread || e.types[device].fits(gpus) }

// stop releases the devices of a runnable and adds the command. The caller removes it from the running ones.
func (e *Engine) stop(r *Runnable) {
	e.release(r)
	e.commands = append(e.commands, Command{Do: Stop, Runnable: r})
}

// release frees the devices of a runnable.
func (e *Engine) release(r *Runnable) {
	e.free(r.slot)
	r.A.leave(r, e.now)
	if r.B != nil {
		r.B.leave(r, e.now)
	}
	r.Device, r.Where = -1, r.Where[:0]
}

// formerOf returns the job of a runnable on whose last devices it starts if they are free.
func (e *Engine) formerOf(r *Runnable) *ActiveJob {
	if r.B != nil && (r.A.stopped < e.now || r.A.last.Device != r.want) { // the job already running there keeps its devices
		return r.B
	}
	return r.A
}

// start allocates devices of the assigned type to a runnable and adds the command.
func (e *Engine) start(r *Runnable) {
	j := e.formerOf(r)
	r.Device, r.refused, r.refusedOn = r.want, math.Inf(1), -1
	r.Where, r.Spread = e.take(r.Device, r.GPUs, r.Where[:0], &j.last)
	c := Command{Do: Start, Runnable: r, A: r.A.enter(r, e.now)}
	if r.B != nil {
		c.B = r.B.enter(r, e.now)
	}
	e.running.add(r)
	e.commands = append(e.commands, c)
}
