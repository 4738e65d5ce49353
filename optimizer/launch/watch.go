package launch

import "time"

// phase is the stage of a job on its way to its end.
type phase int

const (
	running       phase = iota
	checkpointing       // the dead-man's switch has requested a checkpoint
	terminating         // SIGTERM is sent
	lingering           // the main process has ended by itself, other processes continue
	clearing            // those other processes were sent SIGTERM
	killing             // SIGKILL is sent repeatedly
	over                // the tree is empty, or the wait for it has expired
)

// cause is what ended the job.
type cause int

const (
	itself  cause = iota
	byStop        // a call of Stop
	byLimit       // the dead-man's switch
)

// action is an operation of the keeper on the tree.
type action int

const (
	askCheckpoint action = iota // SIGUSR1 to the main process, if it has a handler
	termGroup                   // SIGTERM to the process group
	termOutside                 // SIGTERM to the remaining processes outside the group
	termOthers                  // SIGTERM to all remaining processes
	killAll                     // SIGKILL to all remaining processes
)

// event is one occurrence; the zero event is the passing of time alone.
type event struct {
	control      *control // a new request of the agent
	noCheckpoint bool     // the main process does not handle the checkpoint signal
	mainEnded    bool
	allEnded     bool
}

// watch decides what the keeper does and when. It has no clock and accesses no process: each step receives the
// reading of the monotonic clock.
type watch struct {
	grace time.Duration
	pace  endTimeouts

	phase phase
	until time.Duration // when the phase escalates; unused while running

	stopAt      time.Duration // the dead-man's switch; 0 means none
	checkpoints int           // number of requests carried out
	askedAt     time.Duration // the last request for a checkpoint; 0 means never
	cause       cause
	mainEnded   bool
	killed      bool // SIGKILL was sent while the main process lived
	hurried     bool // a stop without grace was requested
}

// killAgain is the interval between two rounds of SIGKILL: a process may fork during a round.
const killAgain = 50 * time.Millisecond

// step applies one event at time now and returns the actions to take, in order.
func (w *watch) step(now time.Duration, e event) []action {
	var do []action
	if e.mainEnded { // first: a simultaneous stop is not its cause
		do = append(do, w.others(now)...)
	}
	if e.control != nil {
		do = append(do, w.applyControl(now, *e.control)...)
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

// applyControl carries out the agent's request.
func (w *watch) applyControl(now time.Duration, c control) []action {
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
		w.until = min(w.until, now+grace) // a second request may only shorten the grace
	}
	return do
}

// others starts the end of the processes that outlive the main process.
func (w *watch) others(now time.Duration) []action {
	w.mainEnded = true
	switch w.phase {
	case running:
		w.phase, w.until = lingering, now+w.pace.Linger
	case checkpointing:
		w.cause = byLimit
		w.phase, w.until = clearing, now+w.pace.Clear
		return []action{termOthers}
	case terminating: // processes outside the group get SIGTERM now, with the remaining grace
		return []action{termOutside}
	}
	return nil
}

// escalate takes the next step if the time for it has come.
func (w *watch) escalate(now time.Duration) []action {
	switch {
	case w.phase == running && w.stopAt > 0 && now >= w.stopAt:
		w.cause = byLimit
		w.phase, w.until = checkpointing, now+w.grace
		if w.askedAt > 0 {
			return nil // it is saving already: a second signal might interrupt its writing
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
	w.phase = over // killed, but it has not died
	return nil
}

func (w *watch) terminate(now, grace time.Duration) []action {
	w.phase, w.until = terminating, now+grace
	return append([]action{termGroup}, w.escalate(now)...)
}

// stoppedFor is the time for which a keeper that a signal stops after its limit remains stopped.
const stoppedFor = 2 * time.Second

// wakeStopped returns when the keeper must run even if a signal has stopped it; 0 without a limit.
func (w *watch) wakeStopped(now time.Duration) time.Duration {
	if w.stopAt == 0 {
		return 0
	}
	return max(w.stopAt, now+stoppedFor)
}

// wake returns how long the keeper may sleep before the next step, at most limit.
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
