package run

import (
	"context"
	"fmt"
	"math"
	"os"
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"trainopt/optimizer/launch"
)

// loopPatience is the time that the loop has for an action that is due before the watchdog takes it.
const loopPatience = 300 * time.Millisecond

// sameSignal is the time within which a repeated signal counts as the same one: timeout(1) and service managers send it
// to the process and to its group.
const sameSignal = 150 * time.Millisecond

// watchdog receives the user's signals, and stops a job whose limit is reached if the loop does not, because it is
// blocked by a flood of log rows, a plan, a disk or a terminal. It has its own goroutine and a small state. Every
// request to a job to exit goes through it, so a job is asked once, by either goroutine; the loop then finds that the
// job was asked, or has ended, and completes the stop.
type watchdog struct {
	clock    Clock
	grace    time.Duration
	forward  chan os.Signal       // the user's signals, for the loop
	failed   chan error           // capacity 1: the error of a failed stop
	panics   chan string          // capacity 1: a panic in a goroutine beside the loop, with its stack
	harmless func(os.Signal) bool // whether a signal after the first does not kill
	poke     chan struct{}        // capacity 1: the state has changed
	quit     chan struct{}
	left     sync.WaitGroup

	mu       sync.Mutex
	job      launch.Job                 // nil while no job runs
	gently   func() (stopMethod, error) // asks the job to exit before SIGTERM; nil: not possible
	askAt    time.Duration
	killAt   time.Duration // both on the monotonic clock; 0: no limit
	last     os.Signal     // the last signal, nil before the first
	lastAt   time.Duration // its time, monotonic
	leaving  bool          // the end of the machine has been announced
	received int           // number of signals
	notices  int           // of which do not count towards a kill: they announce the end of the machine, or are harmless
	taken    int           // number of signals that the loop has handled
	starting context.CancelFunc
	asked    *stopRequest
	killed   bool
}

// stopRequest records how a job was asked to exit.
type stopRequest struct {
	at         time.Duration // monotonic
	method     stopMethod    // noStopMethod: by SIGTERM
	terminated bool
	err        error
}

func newWatchdog(clock Clock, grace time.Duration) *watchdog {
	return &watchdog{clock: clock, grace: grace, forward: make(chan os.Signal, 16), failed: make(chan error, 1), panics: make(chan string, 1), poke: make(chan struct{}, 1),
		quit: make(chan struct{})}
}

// watch starts receiving signals; the end of ctx counts as SIGTERM. An action of due is taken when the loop has left
// it undone for loopPatience.
func (w *watchdog) watch(ctx context.Context, interrupts <-chan os.Signal) {
	w.left.Go(func() {
		defer w.raise()
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		cancelled := ctx.Done()
		var late time.Time // time since which an action is due; zero if none
		for {
			select {
			case <-w.quit:
				return
			case s, open := <-interrupts:
				if !open {
					interrupts = nil
					continue
				}
				w.receive(s)
			case <-cancelled:
				cancelled = nil
				w.receive(syscall.SIGTERM)
			case <-w.poke:
			case <-timer.C:
			}
			do, next := w.due()
			switch {
			case do == nil:
				late = time.Time{}
			case late.IsZero():
				late, next = time.Now(), loopPatience
			case time.Since(late) < loopPatience:
				next = loopPatience - time.Since(late)
			default:
				do()
				late, next = time.Time{}, loopPatience
			}
			timer.Reset(next)
		}
	})
}

// raise, deferred by a goroutine beside the loop, passes a panic to the loop, so that the caller of the agent handles it.
func (w *watchdog) raise() {
	if x := recover(); x != nil {
		select {
		case w.panics <- fmt.Sprintf("%v\n%s", x, debug.Stack()):
		default: // the loop has one already
		}
	}
}

// close stops the goroutine of watch.
func (w *watchdog) close() {
	close(w.quit)
	w.left.Wait()
}

// receive counts a signal, cancels a start in progress, and forwards the signal to the loop.
func (w *watchdog) receive(s os.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := w.clock.Monotonic()
	again := s == w.last && now-w.lastAt < sameSignal
	if w.last, w.lastAt = s, now; again {
		return
	}
	if w.received > w.notices && w.harmless(s) {
		w.notices++
	}
	w.received++
	if w.starting != nil {
		w.starting()
	}
	select {
	case w.forward <- s:
	default: // the channel is full: more signals than the loop requires
		w.taken++
	}
}

// announce forwards the announcement that the machine will be reclaimed, from when a stop takes at most the grace.
func (w *watchdog) announce(s reclaimed) {
	w.mu.Lock()
	w.grace, w.leaving = s.grace(), true
	w.notices++
	w.mu.Unlock()
	w.receive(s)
	select {
	case w.poke <- struct{}{}:
	default:
	}
}

// allow sets the time for a stop, unless the announced end of the machine determines it.
func (w *watchdog) allow(grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.leaving {
		w.grace = grace
	}
}

// take records that the loop has handled a forwarded signal.
func (w *watchdog) take() {
	w.mu.Lock()
	w.taken++
	w.mu.Unlock()
}

// interrupted reports whether signals wait for the loop.
func (w *watchdog) interrupted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received > w.taken
}

// starts announces the start of a job, which a signal of the user cancels; the returned function ends that state.
func (w *watchdog) starts(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.starting = cancel
	if w.received > w.taken {
		cancel()
	}
	return ctx, func() {
		w.mu.Lock()
		w.starting = nil
		w.mu.Unlock()
		cancel()
	}
}

// guard sets the job to stop and its times: left is the time until it is killed, math.MaxInt64 for no limit; it is
// asked to exit earlier by reserve.
func (w *watchdog) guard(j launch.Job, gently func() (stopMethod, error), left, reserve time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j != w.job {
		w.job, w.asked, w.killed = j, nil, false
	}
	before := [2]time.Duration{w.askAt, w.killAt}
	w.gently, w.askAt, w.killAt = gently, 0, 0
	if left < math.MaxInt64 {
		now := w.clock.Monotonic()
		w.askAt, w.killAt = max(now+left-reserve, 1), max(now+left, 1)
	}
	if moved(before[0], w.askAt) || moved(before[1], w.killAt) {
		select {
		case w.poke <- struct{}{}:
		default:
		}
	}
}

// moved reports whether a moment has changed by more than the time between the readings from which it was computed.
func moved(from, to time.Duration) bool {
	return (from == 0) != (to == 0) || (from-to).Abs() > 10*time.Millisecond
}

// due returns the action to take now, nil if none, and the time until the next one may be due.
func (w *watchdog) due() (do func(), next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	if w.job == nil {
		return nil, next
	}
	if w.killAt > 0 {
		next = time.Second // timers and the clock of the limits may diverge, for instance in a suspended machine
	}
	now, waiting := w.clock.Monotonic(), w.received > w.taken
	at := func(when time.Duration) bool {
		if when > now {
			next = min(next, when-now)
		}
		return when > 0 && when <= now
	}
	// Each condition is evaluated even if an earlier one holds: next must cover all of them.
	kill := at(w.killAt) || waiting && (w.received-w.notices > 1 || w.last == syscall.SIGQUIT)
	ask := at(w.askAt) || waiting
	if kill || ask {
		if _, ended := w.job.Handle().ReadExit(); ended {
			return nil, min(next, time.Second)
		}
	}
	escalate := w.asked != nil && w.asked.method != noStopMethod && !w.asked.terminated && at(w.asked.at+w.grace/2)
	switch {
	case kill && !w.killed:
		return w.kill, next
	case ask && w.asked == nil:
		return func() { w.ask() }, next
	case escalate:
		return func() { w.stop(w.grace / 2) }, next
	}
	return nil, next
}

// ask asks the job to exit: gently if possible, otherwise by SIGTERM. A job is asked once; later calls return the
// record of the first.
func (w *watchdog) ask() stopRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job == nil {
		return stopRequest{at: w.clock.Monotonic(), err: os.ErrProcessDone}
	}
	if w.asked != nil {
		return *w.asked
	}
	w.asked = &stopRequest{at: w.clock.Monotonic()}
	if w.gently != nil {
		w.asked.method, w.asked.err = w.gently()
	}
	if w.asked.method == noStopMethod { // the job may save on SIGTERM as well
		w.terminate(w.grace)
	}
	return *w.asked
}

// stop ends the job's processes by SIGTERM, and by SIGKILL after the grace.
func (w *watchdog) stop(grace time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != nil {
		w.terminate(grace)
	}
}

// kill ends the job's processes by SIGKILL. A second call has no effect.
func (w *watchdog) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != nil && !w.killed {
		w.killed = true
		w.terminate(0)
	}
}

// terminate stops the job in a goroutine; the caller holds the lock. The error of a failed stop is sent to failed.
func (w *watchdog) terminate(grace time.Duration) {
	if w.asked == nil {
		w.asked = &stopRequest{at: w.clock.Monotonic()}
	}
	w.asked.terminated = true
	go func(j launch.Job) {
		defer w.raise()
		if _, err := j.Stop(context.Background(), grace); err != nil {
			select {
			case w.failed <- err:
			default:
			}
		}
	}(w.job)
}
