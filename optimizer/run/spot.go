package run

import (
	"context"
	"os"
	"time"

	"trainopt/resources"
)

// byReclaim is the reason of a stop before the machine is reclaimed.
const byReclaim = "reclaimed"

const (
	// noticeInterval is the time between two requests to the metadata service.
	noticeInterval = 5 * time.Second
	// reclaimMargin is the time for the last records and reports between the end of the training and that of the machine.
	reclaimMargin = 5 * time.Second
	// shortestGrace is the time for a stop if the machine is reclaimed immediately.
	shortestGrace = 2 * time.Second
)

// reclaiming is the state of a run whose machine may be reclaimed.
type reclaiming struct {
	metadata chan error // capacity 1: the first error of the metadata service; nil if none is asked
	leaving  *departure // nil unless the machine is about to be reclaimed
}

// departure is the end of the run on this machine.
type departure struct {
	grace    time.Duration // for the stop
	repeated bool          // the user has requested a stop too
}

// reclaimed is the value on the interrupts channel that announces the end of this machine.
type reclaimed struct{ resources.Reclaim }

func (reclaimed) String() string { return "end of spot capacity" }
func (reclaimed) Signal()        {}

// grace returns the time that remains for a stop.
func (s reclaimed) grace() time.Duration {
	return max(time.Until(s.By)-reclaimMargin, shortestGrace)
}

var _ os.Signal = reclaimed{}

// watchMachine asks the metadata service, beside the loop, until it announces the end of this machine or the returned
// function is called.
func (r *run) watchMachine(ctx context.Context) (stop func()) {
	if r.Config.SpotNotice == "" || r.Config.elsewhere() || r.Config.Described != nil {
		return func() {}
	}
	service, err := resources.ParseMetadata(r.Config.SpotNotice)
	if err != nil {
		r.event(Warning, "%v", err)
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	r.metadata = make(chan error, 1)
	done := make(chan struct{})
	go func(failed chan<- error) {
		defer close(done)
		ticker := time.NewTicker(noticeInterval)
		defer ticker.Stop()
		for {
			notice, err := service.Reclaim(ctx)
			if notice != nil {
				r.watchdog.announce(reclaimed{*notice})
				return
			}
			if err != nil && ctx.Err() == nil {
				select {
				case failed <- err:
				default:
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
		}
	}(r.metadata)
	return func() { cancel(); <-done }
}

// noteMetadata reports the first error of the metadata service.
func (r *run) noteMetadata() {
	select {
	case err := <-r.metadata:
		r.eventOnce(Warning, "metadata", "%v: the end of this machine is not announced until it answers", err)
	default:
	}
}

// leaveMachine stops the run before its machine is reclaimed.
func (r *run) leaveMachine(notice reclaimed) {
	if r.userCode != 0 { // it is stopping already
		return
	}
	r.userCode, r.leaving = CodeTryAgain, &departure{grace: notice.grace()}
	how := "stopping"
	if r.keepsWork() {
		how = "saving a checkpoint and stopping"
	}
	words := notice.Cloud + " reclaims this machine at " + notice.By.Local().Format(time.TimeOnly)
	r.event(Warning, "%s (in %s): %s", words, length(max(0, time.Until(notice.By).Round(time.Second))), how)
	if r.Pending != nil && r.job != nil { // already exiting: do not relaunch
		if r.Pending.Next != nil {
			r.Pending.Why, r.Pending.Next, r.Pending.Words = byReclaim, nil, words
			r.saveState()
		}
		return
	}
	r.requestStop(&pendingStop{Why: byReclaim, Words: words})
}

// grace returns the time for a stop.
func (r *run) grace() time.Duration {
	if r.leaving != nil {
		return r.leaving.grace
	}
	return r.Config.Grace
}
