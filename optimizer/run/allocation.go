package run

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// batchSystem is the system that contains this process as one of its jobs; *slurm.Engine implements it.
type batchSystem interface {
	// Lookup returns the state of a job; nil if the system no longer knows it.
	Lookup(ctx context.Context, id string) (*engine.Entry, error)
	// Requeue returns a running job to the queue.
	Requeue(ctx context.Context, id string) error
}

// enclosing is the Slurm job in which agent and training run.
type enclosing struct {
	batch    *resources.BatchJob // nil outside a job, and for a training on other machines
	batchEnd time.Duration       // end of its allocation less allocationMargin, on the monotonic clock; 0: none
	beyond   bool                // no plan ends within the allocation: only the user's own deadline applies to plans
	doneAt   float64             // progress when this agent began or took over the run

	leaseUntil time.Time // end of the lease as last passed to the supervisor
}

const (
	// allocationMargin is the time for the last records and reports between the end of the training and that of the
	// allocation.
	allocationMargin = 5 * time.Second
	// lookupTimeout bounds a request to the batch system.
	lookupTimeout = 5 * time.Second
	// unlimitedAllocation is the time from which an end is none: squeue shows a job without a limit as one of a year.
	unlimitedAllocation = 360 * 24 * time.Hour
)

// byAllocation is the reason of a stop at the end of the allocation.
const byAllocation = "allocation"

// enterAllocation determines the enclosing Slurm job and the end of its allocation, and records both.
func (r *run) enterAllocation(ctx context.Context) {
	if r.Config.elsewhere() || r.Config.Described != nil {
		return
	}
	r.batch = resources.EnclosingJob(r.Environ)
	r.rec.Batch = r.batch
	if r.batch == nil {
		if r.Config.Requeue {
			r.event(Warning, "--requeue has no effect: this process is not part of a Slurm job")
		}
		return
	}
	end := r.batch.End
	if end.IsZero() && r.Batch != nil {
		ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
		defer cancel()
		entry, err := r.Batch.Lookup(ctx, r.batch.ID)
		if err != nil {
			r.event(Warning, "the end of the allocation of %s is unknown (%v): only the limits of the run apply", r.batch, err)
		} else if entry != nil {
			end = entry.End
		}
	}
	left := end.Sub(r.Clock.Now())
	if !end.IsZero() && left < unlimitedAllocation {
		r.batch.End = end.UTC()
		r.batchEnd = max(1, r.Clock.Monotonic()+left-allocationMargin)
		r.event(Info, "%s: %s, until %s (in %s)", r.batch, r.batch.Words(), end.Local().Format(time.DateTime), length(max(0, left.Round(time.Second))))
	} else {
		r.event(Info, "%s: %s, without a known end", r.batch, r.batch.Words())
	}
	if r.batch.UnderShell() {
		r.event(Warning, "the shell of the batch script dies of Slurm's SIGTERM, and optimize is then killed before it can save: write exec optimize … as its last line")
	}
}

// allocationLeft returns the time until the training must have ended because the allocation ends; false without an end.
func (r *run) allocationLeft() (time.Duration, bool) {
	return r.batchEnd - r.Clock.Monotonic(), r.batchEnd > 0
}

// deadline returns the earlier of the user's deadline and the end of the allocation in elapsed time, 0 if neither
// exists; allocation reports that it is the latter.
func (r *run) deadline() (d time.Duration, allocation bool) {
	d = r.Config.SLA.TimeMax
	if left, ok := r.allocationLeft(); ok {
		now := time.Duration(0)
		if r.started > 0 {
			now = r.elapsed()
		}
		if end := max(now+left, time.Second); d == 0 || end < d {
			return end, true
		}
	}
	return d, false
}

// deadlineSource names the source of a deadline that is not the user's; empty otherwise.
func (r *run) deadlineSource() string {
	if _, allocation := r.deadline(); allocation {
		return "the end of " + r.batch.String()
	}
	return ""
}

// allocationStep stops the job before its allocation ends.
func (r *run) allocationStep() {
	left, ok := r.allocationLeft()
	if !ok || r.ended != nil || r.endedUnseen() {
		return
	}
	if ask := left - r.reserve(); ask > 0 {
		if at := r.elapsed() + ask; r.guardAt == 0 || at < r.guardAt {
			r.guardAt = at
		}
		return
	}
	switch {
	case r.Pending == nil:
		r.event(Problem, "the allocation of %s ends in %s: stopping", r.batch, length(max(0, left+allocationMargin).Round(100*time.Millisecond)))
		r.requestStop(&pendingStop{Why: byAllocation, Words: "the time limit of " + r.batch.String()})
	case r.Pending.Next != nil:
		r.Pending.Why, r.Pending.Next, r.Pending.Words = byAllocation, nil, "the time limit of "+r.batch.String()
		r.saveState()
	case left <= 0 && r.job != nil:
		r.watchdog.kill()
	}
}

// endsAllocation reports whether a signal is the batch system's announcement that the allocation ends: by scancel, a
// preemption, a requeue or the time limit. The sender of a signal is unknown; another process of this program that
// stops the run has left a mark.
func (r *run) endsAllocation(s os.Signal) bool {
	if r.batch == nil || s != syscall.SIGTERM {
		return false
	}
	return !AskedToStop(r.dir.Dir())
}

// repeatedBySystem reports whether a signal after the first is that of Slurm or a scheduler, which itself kills what stays.
func (r *run) repeatedBySystem(s os.Signal) bool { return r.endsAllocation(s) || s == Preempt }

// AskedToStop reports whether StopRun has asked the agent of a run to stop it, by the SIGTERM that it sends.
func AskedToStop(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, stopMark))
	return err == nil
}

// askedGrace returns the time that StopRun allows for the stop that it has asked for: the one that it states, otherwise that of
// the run, as it waits no longer; nil if it has not asked.
func (r *run) askedGrace() *time.Duration {
	text, err := os.ReadFile(r.dir.Path(stopMark))
	if err != nil {
		return nil
	}
	grace, err := time.ParseDuration(string(text))
	if err != nil { // it states none
		grace = r.Config.Grace
	}
	return &grace
}

// stopMark is the file in a run directory by which StopRun marks the SIGTERM that follows as the user's. It contains the grace of
// the stop, or nothing.
const stopMark = "stop"

// byStopRun is the reason of a stop by StopRun, for the user.
const byStopRun = "optimize runs stop"

// awaitEnd waits, when a job in an allocation has died without a request, for a SIGTERM to the agent: Slurm sends it
// to all processes at once, and that of the job may arrive first.
func (r *run) awaitEnd(exit launch.Exit) {
	if r.batch == nil || r.Pending != nil || exit.Reason == launch.Exited && exit.Code == 0 && r.Progress.Finished() {
		return
	}
	select {
	case s := <-r.watchdog.forward:
		r.interrupt(s)
	case <-time.After(signalMoment):
	}
}

// signalMoment is the time within which signals to several processes arrive.
const signalMoment = 300 * time.Millisecond

// savedOnSignal reports whether a job that received Slurm's SIGTERM itself states by its exit code that it saved.
func (r *run) savedOnSignal(exit *launch.Exit) bool {
	return exit != nil && r.Pending.Why == byAllocation && r.Resumable && exit.Signal == "" && exit.Code == exitTryAgain
}

// requeue returns the enclosing job to the queue if the end of its allocation ended the run, so that the same command
// resumes the run, and reports whether it did. It does not if the job is no longer running: it was cancelled, or Slurm itself
// starts it again.
func (r *run) requeue(ctx context.Context) bool {
	e := r.ended
	if !r.Config.Requeue || e == nil || e.reason != byAllocation || r.batch == nil || r.Batch == nil {
		return false
	}
	switch {
	case !r.keepsWork():
		r.event(Warning, "%s is not requeued: the training keeps no checkpoint", r.batch)
		return false
	case r.Progress.Done <= r.doneAt:
		r.event(Warning, "%s is not requeued: the training made no progress in this allocation", r.batch)
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, 2*lookupTimeout)
	defer cancel()
	entry, err := r.Batch.Lookup(ctx, r.batch.ID)
	if err == nil && (entry == nil || entry.State != engine.Running) {
		return false
	}
	if err == nil {
		err = r.Batch.Requeue(ctx, r.batch.ID)
	}
	if err != nil {
		r.event(Warning, "%s was not requeued: %v", r.batch, err)
		return false
	}
	r.event(Info, "%s requeued: the same command resumes this run", r.batch)
	return true
}

// changeHost takes stock of the machine on which a run resumes, if that differs from the one on which it ran: a batch
// job may start again on another node, and a run on spot capacity continues on another machine.
func (r *run) changeHost(ctx context.Context) error {
	if r.batch == nil && r.Config.SpotNotice == "" {
		return nil
	}
	h, err := r.Discover(ctx)
	if err != nil {
		return fmt.Errorf("read what this machine offers: %w", err)
	}
	before := r.Host
	r.Host = h
	if before.CPUs == h.CPUs && before.CPUModel == h.CPUModel && before.Memory == h.Memory && sameGPUs(before.GPUs, h.GPUs) {
		return nil
	}
	r.rec.Host = journal.Host{Host: h}
	if err := r.resolveLimits(); err != nil {
		return err
	}
	r.Current.GPUIDs = nil
	r.Current = r.Limits.Clip(r.Current)
	return nil
}

func sameGPUs(a, b []resources.GPU) bool {
	return slices.EqualFunc(a, b, func(x, y resources.GPU) bool { return x.UUID == y.UUID })
}

// Lease is the part of a run that a scheduler of several jobs decides: its devices and CPUs, and for how long. With a
// lease the agent neither probes nor adapts the allocation, time spent waiting for a lease counts towards the deadline,
// and Preempt ends the stretch; Resume with another lease continues the run.
type Lease struct {
	// Allocation contains the devices (GPUIDs; empty: the engine chooses) and CPUs. Its other fields are ignored.
	Allocation resources.Allocation
	// Submitted is the time from which the deadline counts, by the present wall clock; zero: from the start of the run.
	Submitted time.Time
	// Until returns the wall-clock time at which the supervisor of the job saves and stops it, whether or not this
	// process lives; zero: never. It is called often, from another goroutine than the one that changes it.
	Until func() time.Time
	// RunID is the id of a new run; empty: a new one.
	RunID string
	// Devices names the devices where they are not GPUs of this machine, for readings of their activity.
	Devices []string
	// Environ contains further variables of the job.
	Environ []string
	// CPUIDs are the CPUs of this machine that belong to the devices; empty: the job may receive any.
	CPUIDs []int
	// Partner names the job with which this one shares its devices at present; empty, or nil: it has them alone. A
	// change begins a segment: the pace is another, and the job pays half. It is called as Until is.
	Partner func() string
}

// Preempt is the value on the interrupts channel by which a scheduler takes the devices back: the job saves a
// checkpoint and exits, and the run ends with CodeTryAgain, to be continued by Resume.
var Preempt os.Signal = preemption{}

type preemption struct{}

func (preemption) String() string { return "end of lease" }
func (preemption) Signal()        {}

// byLease is the reason of a stop at the end of a lease.
const byLease = "lease"

// restrict narrows limits to the leased numbers of devices and CPUs.
func (l *Lease) restrict(to *resources.Limits) {
	to.GPUs = resources.Range{Min: l.Allocation.GPUs, Max: l.Allocation.GPUs}
	cpus := max(1, l.Allocation.CPUs)
	to.CPUs = resources.Range{Min: cpus, Max: cpus}
}

// countWaiting adds the time without a lease to the elapsed time, which is that since the submission.
func (r *run) countWaiting() {
	if r.Lease == nil || r.Lease.Submitted.IsZero() || len(r.Progress.Segments) > 0 && !r.Ended { // its job may have run during the outage of the agent
		return
	}
	if waited := r.Clock.Now().Sub(r.Lease.Submitted) - r.elapsed(); waited > 0 {
		r.elapsedBefore += waited
		r.QueuedS += waited.Seconds()
	}
}

// withLease returns the earlier of a limit (0: no limit) and the end of the lease.
func (r *run) withLease(limit time.Duration) time.Duration {
	if r.Lease == nil || r.Lease.Until == nil {
		return limit
	}
	r.leaseUntil = r.Lease.Until()
	if r.leaseUntil.IsZero() {
		return limit
	}
	if left := max(r.leaseUntil.Sub(r.Clock.Now()), time.Millisecond); limit == 0 || left < limit {
		return left
	}
	return limit
}

// followPartner begins a segment when another job has come to share the devices, or has left them.
func (r *run) followPartner() {
	if r.Lease == nil || r.Lease.Partner == nil || r.job == nil || r.queued != nil || r.Pending != nil {
		return
	}
	partner, seg := r.Lease.Partner(), r.Progress.Current()
	if seg == nil || partner == seg.Partner {
		return
	}
	now, rates := r.elapsed(), r.Rates
	if partner != "" {
		rates = rates.Half()
	}
	if seg.FirstRowAt > 0 {
		r.beginSegment(now, r.Current, seg.Label, false)
		seg = r.Progress.Current()
	}
	seg.Partner = partner
	r.meter.Reprice(now, rates)
	r.save(true)
}

// followLease passes a changed end of the lease to the supervisor of the job.
func (r *run) followLease() {
	if r.Lease == nil || r.Lease.Until == nil || r.job == nil || r.queued != nil || r.Pending != nil || r.leaseUntil.Equal(r.Lease.Until()) {
		return
	}
	r.moveTimeLimit()
}
