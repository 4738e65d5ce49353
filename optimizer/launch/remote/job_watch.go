package remote

import (
	"context"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
)

// watch follows the stretch until its end is known.
func (j *job) watch() {
	defer j.left.Done()
	pace := j.launcher.pace()
	tick := time.NewTimer(pace.poll)
	defer tick.Stop()
	for {
		if j.look() {
			j.end()
			return
		}
		j.leaveLostNode()
		if j.unseen() >= pace.stale || !j.hasStarted() {
			j.askEngine()
			if why, lost := j.isLost(); lost {
				j.endWithout(why)
				return
			}
		}
		next := pace.poll
		if j.steady() {
			next = pace.beat
		}
		tick.Reset(next)
		select {
		case <-j.life.Done():
			return
		case <-j.poke:
		case <-tick.C:
		}
	}
}

// hasLeft reports whether the node has recorded the end of the stretch.
func (j *job) hasLeft() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node.Phase == ended || j.node.Phase == fenced
}

// steady reports whether the job runs and nothing is wanted of it, so that only its sign of life is of interest.
func (j *job) steady() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.node.Phase == running && j.want.Stop == nil && j.want.Checkpoints == 0 && j.want.Interrupts == 0
}

// look reads the state of the node. It reports whether the stretch has ended.
func (j *job) look() (over bool) {
	var s nodeState
	err := readJSON(j.own, nodeFile, &s)
	j.mu.Lock()
	defer j.mu.Unlock()
	fresh := j.looked
	j.looked = true
	if err != nil {
		return false
	}
	if s.Beat == j.node.Beat {
		return s.Phase == ended || s.Phase == fenced
	}
	if skew := time.Until(s.Wall); fresh && (j.skew == 0 || skew > j.skew || j.skew-skew > clockStep) { // the shortest delay of a read is the best
		j.skew = skew
	}
	s.shift(-j.notableSkew())
	j.node, j.changed = s, time.Now()
	j.offset = s.Monotonic - launch.Monotonic()
	if s.Phase != ready && j.stretch.Started.IsZero() {
		j.stretch.Started = s.Held
		j.stretch.Nodes = []string{s.Node}
		j.saveStretch()
	}
	if s.Phase == ready || s.Failure == "" {
		closeOnce(j.ready)
	}
	if s.Phase != ready && s.Failure == "" {
		closeOnce(j.started)
	}
	return s.Phase == ended || s.Phase == fenced
}

// clockStep is the smallest change of a clock that is not taken for the delay of a read.
const clockStep = 10 * time.Second

// notableSkew returns the difference of the clocks if it is larger than the delay of a read.
func (j *job) notableSkew() time.Duration {
	if j.skew.Abs() < 2*time.Second {
		return 0
	}
	return j.skew
}

// closeOnce closes a channel that one goroutine at a time may close.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

func (j *job) hasStarted() bool {
	select {
	case <-j.started:
		return true
	default:
		return false
	}
}

// unseen returns the time since the node last renewed its state.
func (j *job) unseen() time.Duration {
	j.mu.Lock()
	defer j.mu.Unlock()
	return time.Since(j.changed)
}

// askEngine asks the engine for the status of the job, at most once per interval. The interval grows while the engine
// does not answer.
func (j *job) askEngine() {
	pace := j.launcher.pace()
	j.mu.Lock()
	every := pace.ask
	if j.silent != nil {
		every *= 3
	}
	due := time.Since(j.asked) >= every
	key := j.stretch.Key
	j.mu.Unlock()
	if !due {
		return
	}
	ctx, cancel := context.WithTimeout(j.life, callWithin)
	defer cancel()
	list, err := j.engine().List(ctx, key)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.asked, j.silent = time.Now(), err
	switch {
	case err != nil:
	case len(list) == 0:
		j.absent++
		j.status = engine.Status{State: engine.Unknown}
	default:
		j.absent, j.status = 0, list[len(list)-1]
		if j.status.State == engine.Pending {
			j.pending = j.asked
		} else if j.begun.IsZero() {
			j.begun = j.status.Started
		}
		if j.stretch.ID == "" {
			j.stretch.ID = j.status.ID
			j.saveStretch()
		}
	}
}

// leaveLostNode asks a living node, whose job the engine considers ended, to save and exit: the engine has lost contact
// with it, and kills the training without notice when the contact is restored.
func (j *job) leaveLostNode() {
	pace := j.launcher.pace()
	j.mu.Lock()
	every := 6 * pace.ask
	if j.status.State == engine.Ended {
		every = pace.ask
	}
	due := j.node.Phase == running && !j.want.Leave && time.Since(j.changed) < pace.stale && time.Since(j.asked) >= every
	before := j.status.State
	j.mu.Unlock()
	if !due {
		return
	}
	j.askEngine()
	j.mu.Lock()
	lost := j.silent == nil && j.status.State == engine.Ended && before == engine.Ended // not one that is just ending
	j.mu.Unlock()
	if lost {
		j.request(func(q *request) { q.Leave = true })
	}
}

// isLost reports whether the job has ended without a record: its node is silent, and the engine says that the job has
// ended, or has not known it in several answers. The silence of an engine is no evidence.
func (j *job) isLost() (why string, lost bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	pace := j.launcher.pace()
	if j.withdrawn && j.node.Phase == "" {
		return "withdrawn", true
	}
	if j.silent != nil || time.Since(j.changed) < min(pace.stale, 2*pace.ask) {
		return "", false
	}
	switch {
	case j.status.State == engine.Ended:
		return joinWords(j.status.Raw, j.status.Reason), true
	case j.absent >= 3 && time.Since(j.changed) >= pace.stale:
		return "it is no longer known to the engine", true
	}
	return "", false
}

func joinWords(a, b string) string {
	if b == "" || b == "None" {
		return a
	}
	return a + ": " + b
}
