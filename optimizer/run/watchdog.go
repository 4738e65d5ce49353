package run

import (
	"context"
	"math"
	"os"
	"sync"
	"syscall"
	"time"

	"trainopt/optimizer/launch"
)

// loopPatience is how long the loop may leave undone what is due before the watchdog does it.
const loopPatience = 300 * time.Millisecond

// sameSignal is the time within which a second SIGTERM counts as the first: timeout(1) and service managers send it to the
// process and to its group.
const sameSignal = 300 * time.Millisecond

// watchdog takes the user's signals and stops a job whose limit is reached when the loop does not: when it is held by a
// flood of log rows, a plan, a disk or a terminal. It has a goroutine and a small state of its own. All that asks a job
// to leave goes through it, so a job is asked once, whoever does it; the loop then finds that it was asked, or has
// ended, and does the rest.
type watchdog struct {
	clock   Clock
	grace   time.Duration
	forward chan os.Signal // the user's signals, to the loop
	failed  chan error     // of one: a stop that failed
	poke    chan struct{}  // of one: the state has changed
	quit    chan struct{}
	left    sync.WaitGroup

	mu       sync.Mutex
	job      launch.Job           // nil while none runs
	gently   func() (door, error) // asks it to leave before SIGTERM; nil: no such way
	askAt    time.Duration
	killAt   time.Duration // both on the monotonic clock; 0: no limit
	termAt   time.Time     // of the last SIGTERM
	received int           // signals of the user
	taken    int           // of them, those that the loop has taken
	starting context.CancelFunc
	asked    *asked
	killed   bool
}

// asked is how a job was asked to leave.
type asked struct {
	at         time.Duration // monotonic
	door       door          // noDoor: by SIGTERM
	terminated bool
	err        error
}

func newWatchdog(clock Clock, grace time.Duration) *watchdog {
	return &watchdog{clock: clock, grace: grace, forward: make(chan os.Signal, 16), failed: make(chan error, 1), poke: make(chan struct{}, 1),
		quit: make(chan struct{})}
}

// watch begins to take signals; the end of ctx counts as SIGTERM.
func (w *watchdog) watch(ctx context.Context, interrupts <-chan os.Signal) {
	w.left.Go(func() {
		timer := time.NewTimer(time.Hour)
		defer timer.Stop()
		cancelled := ctx.Done()
		var late time.Time // since when something is due
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

// close ends the watch.
func (w *watchdog) close() {
	close(w.quit)
	w.left.Wait()
}

func (w *watchdog) receive(s os.Signal) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if now := time.Now(); s == syscall.SIGTERM {
		again := now.Sub(w.termAt) < sameSignal
		if w.termAt = now; again {
			return
		}
	}
	w.received++
	if w.starting != nil {
		w.starting()
	}
	select {
	case w.forward <- s:
	default: // the loop has more of them than it needs
		w.taken++
	}
}

// take tells that the loop has taken a forwarded signal.
func (w *watchdog) take() {
	w.mu.Lock()
	w.taken++
	w.mu.Unlock()
}

// interrupted reports whether a signal waits for the loop.
func (w *watchdog) interrupted() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.received > w.taken
}

// starts says that a job is being started, which the user's signal cancels; the returned function ends that.
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

// guard says which job to stop, and when it is due: left is how long it may go on, math.MaxInt64 for ever, and reserve
// how much before that it is asked to leave.
func (w *watchdog) guard(j launch.Job, gently func() (door, error), left, reserve time.Duration) {
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
	if before != [2]time.Duration{w.askAt, w.killAt} {
		select {
		case w.poke <- struct{}{}:
		default:
		}
	}
}

// due is what must be done now, nil for nothing, and how long until there may be something.
func (w *watchdog) due() (do func(), next time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	next = time.Hour
	if w.job == nil {
		return nil, next
	}
	if w.killAt > 0 {
		next = time.Second // timers and the clock of the limits may part, in a suspended machine say
	}
	now, waiting := w.clock.Monotonic(), w.received > w.taken
	at := func(when time.Duration) bool {
		if when > now {
			next = min(next, when-now)
		}
		return when > 0 && when <= now
	}
	// Each is asked even when an earlier one is due: next must know of all.
	kill := at(w.killAt) || waiting && w.received > 1
	ask := at(w.askAt) || waiting
	escalate := w.asked != nil && w.asked.door != noDoor && !w.asked.terminated && at(w.asked.at+w.grace/2)
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

// ask asks the job to leave: gently where there is a way, else by SIGTERM. A job is asked once; later calls
// return how it was.
func (w *watchdog) ask() asked {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job == nil {
		return asked{at: w.clock.Monotonic(), err: os.ErrProcessDone}
	}
	if w.asked != nil {
		return *w.asked
	}
	w.asked = &asked{at: w.clock.Monotonic()}
	if w.gently != nil {
		w.asked.door, w.asked.err = w.gently()
	}
	if w.asked.door == noDoor { // a job may save on SIGTERM as well
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

// kill ends them at once. It does nothing a second time.
func (w *watchdog) kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.job != nil && !w.killed {
		w.killed = true
		w.terminate(0)
	}
}

// terminate stops the job beside the caller, who holds the lock; a stop that fails arrives at failed.
func (w *watchdog) terminate(grace time.Duration) {
	if w.asked == nil {
		w.asked = &asked{at: w.clock.Monotonic()}
	}
	w.asked.terminated = true
	go func(j launch.Job) {
		if _, err := j.Stop(context.Background(), grace); err != nil {
			select {
			case w.failed <- err:
			default:
			}
		}
	}(w.job)
}
