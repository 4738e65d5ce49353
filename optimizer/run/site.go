package run

import (
	"context"
	"fmt"
	"math"
	"time"

	"trainopt/cost"
	"trainopt/monitor"
	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
	"trainopt/resources"
)

// Site is an engine on which jobs run instead of this machine.
type Site struct {
	Launcher launch.Launcher
	// Host is one node of the kind that the jobs ask for: the limits of the allocations.
	Host resources.Host
	// Rates are the prices of the site; nil: the default rates of its GPU model.
	Rates *cost.Rates
}

// remoteSampler is a job that is sampled where it runs.
type remoteSampler interface {
	Sample() monitor.Sample
	// ClockOffset is the monotonic clock there less the one of this machine.
	ClockOffset() time.Duration
}

// stretchLister is a Launcher that keeps a record of the jobs of the engine that carried a run.
type stretchLister interface {
	Stretches(runDir string) ([]engine.Stretch, error)
}

// openSite connects to the engine of the configuration. It has no effect for a run on this machine.
func (r *run) openSite(ctx context.Context) error {
	if !r.Config.elsewhere() {
		return nil
	}
	if r.Site == nil {
		return fmt.Errorf("--engine %s: this program runs jobs on this machine only", r.Config.Engine)
	}
	s, err := r.Site(ctx, r.Config)
	if err != nil {
		return fmt.Errorf("--engine %s: %w", r.Config.Engine, err)
	}
	r.site, r.Launcher = s, s.Launcher
	if r.Config.Rates == nil && s.Rates != nil {
		r.Config.Rates = s.Rates
	}
	return nil
}

// queueing is the state of a run that waits for its place.
type queueing struct {
	site     Site
	lastWait string // the last reason that was shown
}

// placed begins the charge and the clock of a job that has received its place.
func (r *run) placed() {
	q := r.queued
	r.queued = nil
	seg := r.Progress.Current()
	now := r.elapsed()
	waited := now - seg.LaunchedAt
	held := now
	if since := q.HeldSince(); !since.IsZero() {
		held = min(now, max(seg.LaunchedAt, now-r.Clock.Now().Sub(since)))
	}
	if err := r.meter.Start(held, cost.Label(seg.Label), seg.Allocation, r.Rates); err != nil {
		r.event(Warning, "%v", err)
	}
	seg.LaunchedAt, seg.StartedAt = held, now
	r.QueuedS += (held - (now - waited)).Seconds()
	r.rec.Enforced = r.job.Enforced()
	if r.sampler.remote != nil && r.observer != nil {
		r.observer.clock = shiftedClock{r.Clock, r.sampler.remote}
	}
	r.event(Info, "%s after %s", q.Waiting(), length(held-(now-waited)))
	r.moveTimeLimit()
	r.recordStretches()
	r.save(true)
}

// watchQueue shows why a job waits, whenever that changes.
func (r *run) watchQueue() {
	if r.queued == nil {
		return
	}
	if words := r.queued.Waiting(); words != r.lastWait {
		r.lastWait = words
		r.event(Info, "%s", words)
	}
	if left := r.Config.SLA.TimeMax - r.elapsed(); r.Config.SLA.TimeMax > 0 && r.projected.seconds != nil {
		need := r.projected.seconds.P50 - r.Progress.Current().LaunchedAt.Seconds()
		if need > left.Seconds() && !math.IsNaN(need) {
			r.eventOnce(Warning, "queue", "the job still waits, and its predicted run time of %s no longer fits before the deadline", chartSeconds(need))
		}
	}
}

func chartSeconds(s float64) string { return length(time.Duration(s * float64(time.Second))) }

// adoptQueued continues to wait for, or to supervise, the job of another agent.
func (r *run) adoptQueued(h launch.Handle) {
	select {
	case <-r.queued.Started():
		if _, charged := r.meter.Running(); charged { // it had its place already
			r.queued = nil
			if r.sampler.remote != nil && r.observer != nil {
				r.observer.clock = shiftedClock{r.Clock, r.sampler.remote}
			}
		}
	default:
	}
	r.event(Info, "adopted %s job %s of %s", h.Engine, h.EngineID, r.dir.ID())
}

// continueElsewhere starts the next stretch of a job that the engine has ended, from its checkpoint; false if it keeps
// none. A job that makes no progress between two such ends counts as failing.
func (r *run) continueElsewhere(exit launch.Exit) bool {
	if _, ok := r.resumeFrom(); !ok && !r.Resumable || r.Config.Restarts < 0 {
		return false
	}
	if seg := r.Progress.Current(); r.Progress.Done <= seg.StartDone {
		if r.Failures++; r.Failures > r.Config.Restarts {
			return false
		}
	}
	r.event(Warning, "%s; continuing from the checkpoint in a new job", describeExit(exit))
	r.retryAt = r.elapsed() + time.Millisecond
	return true
}

// reports returns the directory of the observer's reports of the next launch; empty without an observer.
func (r *run) reports() string {
	if r.observer == nil {
		return ""
	}
	return r.observer.installed.Reports
}

// recordStretches copies the engine's jobs of the run to the record.
func (r *run) recordStretches() {
	l, ok := r.Launcher.(stretchLister)
	if !ok {
		return
	}
	list, err := l.Stretches(r.dir.Dir())
	if err != nil {
		r.warnOnce(err.Error())
		return
	}
	r.rec.Stretches = list
	for _, s := range list {
		if !s.Ended.IsZero() && !s.Started.IsZero() && !s.Confirmed {
			r.warnOnce(fmt.Sprintf("the end of %s job %s is not yet confirmed by the accounting: its cost is that of our own clock", s.Engine, s.ID))
		}
	}
}

// shiftedClock is the clock of this machine with the monotonic clock of another one.
type shiftedClock struct {
	Clock
	there remoteSampler
}

// Monotonic returns the time of the other machine's monotonic clock.
func (c shiftedClock) Monotonic() time.Duration { return c.Clock.Monotonic() + c.there.ClockOffset() }
