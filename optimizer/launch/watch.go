package launch

import "time"

// phase is how far a job is on its way out.
type phase int

const (
	running       phase = iota
	checkpointing       // the dead-man's switch has asked it to save
	terminating         // SIGTERM is sent
	lingering           // the main process has ended by itself, others go on
	clearing            // those others were sent SIGTERM
	killing             // SIGKILL is sent, again and again
	over                // there is nothing more to wait for
)

// cause is who ended the job.
type cause int

const (
	itself  cause = iota
	byStop        // somebody called Stop
	byLimit       // the dead-man's switch
)

// action is what the keeper does to the tree.
type action int

const (
	askCheckpoint action = iota // SIGUSR1 to the main process, if it has a handler
	termGroup                   // SIGTERM to the process group
	termOutside                 // SIGTERM to what is left and has left the group
	termOthers                  // SIGTERM to everything that is left
	killAll                     // SIGKILL to everything that is left
)

// event is one thing that happened; the zero event is only the passing of time.
type event struct {
	control      *control // the agent wants something
	noCheckpoint bool     // the main process does not handle the checkpoint signal
	mainEnded    bool
	allEnded     bool
}

// watch decides what the keeper does and when. It has no clock and touches no process: times are
// readings of the monotonic clock that come in with each step.
type watch struct {
	grace time.Duration
	pace  pace

	phase phase
	until time.Duration // when the phase escalates; meaningless while running

	stopAt      time.Duration // the dead-man's switch; 0 is none
	checkpoints int           // requests acted on
	askedAt     time.Duration // the last request for a checkpoint; 0 is never
	cause       cause
	mainEnded   bool
	killed      bool // we sent SIGKILL while the main process lived
	hurried     bool // a stop without grace was requested
}

// killAgain is the time between two sweeps of SIGKILL: a process may fork while we look.
const killAgain = 50 * time.Millisecond

// step takes one event at time now and says what to do, in order.
func (w *watch) step(now time.Duration, e event) []action {
	var do []action
	if e.mainEnded { // first: a stop that comes with it did not end it
		do = append(do, w.others(now)...)
	}
	if e.control != nil {
		do = append(do, w.obey(now, *e.control)...)
	}
	if e.allEnded {
		w.phase = over
		return nil
	}
	if e.noCheckpoint {
		w.askedAt = 0
		if w.phase == checkpointing {
			return append(do, w.terminate(now, w.grace)...)
		}
	}
	return append(do, w.escalate(now)...)
}

// obey carries out what the agent wants.
func (w *watch) obey(now time.Duration, c control) []action {
	var do []action
	w.stopAt = c.StopAt
	if c.Checkpoints > w.checkpoints {
		w.checkpoints = c.Checkpoints
		if w.phase == running {
			w.askedAt = now
			do = append(do, askCheckpoint)
		}
	}
	if c.Stop == nil {
		return do
	}
	grace := max(*c.Stop, 0)
	w.hurried = w.hurried || grace == 0
	switch w.phase {
	case running, checkpointing:
		w.cause = byStop
		do = append(do, w.terminate(now, grace)...)
	case lingering:
		w.phase, w.until = clearing, now+min(grace, w.pace.Clear)
		do = append(do, termOthers)
	case terminating, clearing:
		w.until = min(w.until, now+grace) // a second request may only be more urgent
	}
	return do
}

// others begins the end of what the main process has left behind.
func (w *watch) others(now time.Duration) []action {
	w.mainEnded = true
	switch w.phase {
	case running:
		w.phase, w.until = lingering, now+w.pace.Linger
	case checkpointing:
		w.cause = byLimit
		w.phase, w.until = clearing, now+w.pace.Clear
		return []action{termOthers}
	case terminating: // what had left the group hears of it now; the grace goes on
		return []action{termOutside}
	}
	return nil
}

// escalate does what the time says.
func (w *watch) escalate(now time.Duration) []action {
	switch {
	case w.phase == running && w.stopAt > 0 && now >= w.stopAt:
		w.cause = byLimit
		w.phase, w.until = checkpointing, now+w.grace
		if w.askedAt > 0 {
			return nil // it is saving already: a second signal might tear what it writes
		}
		w.askedAt = now
		return []action{askCheckpoint}
	case w.phase == running || w.phase == over || now < w.until:
		return nil
	case w.phase == checkpointing:
		return w.terminate(now, w.grace)
	case w.phase == lingering:
		w.phase, w.until = clearing, now+w.pace.Clear
		return []action{termOthers}
	case w.phase == terminating || w.phase == clearing:
		w.killed = !w.mainEnded
		w.phase, w.until = killing, now+w.pace.KillWait
		return []action{killAll}
	}
	w.phase = over // killed, and it has not died
	return nil
}

func (w *watch) terminate(now, grace time.Duration) []action {
	w.phase, w.until = terminating, now+grace
	return append([]action{termGroup}, w.escalate(now)...)
}

// wake is how long the keeper may sleep before the next step, at most limit.
func (w *watch) wake(now, limit time.Duration) time.Duration {
	next := now + limit
	switch w.phase {
	case running:
		if w.stopAt > 0 {
			next = min(next, w.stopAt)
		}
	case killing:
		next = min(next, now+killAgain, w.until)
	default:
		next = min(next, w.until)
	}
	return max(next-now, 0)
}
