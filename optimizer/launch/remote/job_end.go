package remote

import (
	"context"
	"slices"
	"strings"
	"time"

	"trainopt/optimizer/engine"
	"trainopt/optimizer/launch"
)

const cancelledByUnknown = "cancelled; the accounting does not contain the user who did"

// end completes a stretch whose node has recorded its end.
func (j *job) end() {
	j.mu.Lock()
	s := j.node
	j.mu.Unlock()
	e := launch.Exit{Reason: launch.Lost, Code: -1, At: s.Wall}
	if s.Exit != nil {
		e = *s.Exit
	}
	life, sure := j.account()
	switch {
	case s.Phase == fenced:
		e.Reason, e.Detail = launch.Lost, "ended by its fence: another stretch had taken over"
	case s.Signal == "SIGUSR1" && e.Reason == launch.Exited && (!s.Asked || e.Code != 0 && e.Code != codeSaved):
		// It ended by itself between the warning and the time limit.
	case s.Signal != "":
		e = ofEngine(e, s, life)
		if life == nil && j.isCancelled() {
			e.Reason, e.Detail = launch.Cancelled, cancelledByUnknown
		}
	case e.Reason == launch.StartFailed && life != nil && life.Cancelled != "":
		e.Reason = launch.Cancelled
	}
	j.close(e, life, sure)
}

func (j *job) wantsStop() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.want.Stop != nil
}

// isCancelled reports whether the engine lists the job as cancelled.
func (j *job) isCancelled() bool {
	ctx, cancel := context.WithTimeout(context.Background(), callWithin)
	defer cancel()
	list, err := j.engine().List(ctx, j.stretch.Key)
	return err == nil && len(list) > 0 && strings.HasPrefix(list[len(list)-1].Raw, "CANCELLED")
}

// ofEngine returns the exit of a job that the engine has ended.
func ofEngine(e launch.Exit, s nodeState, life *engine.Life) launch.Exit {
	e.Reason, e.Detail = launch.Preempted, "ended by the engine ("+s.Signal+")"
	if life == nil {
		return e
	}
	e.Detail = "ended by the engine: " + life.State
	if life.Cancelled != "" {
		e.Reason, e.Detail = launch.Cancelled, "cancelled by "+life.Cancelled
	}
	return e
}

// endWithout ends a stretch of which no record remains: its node, its supervisor or the file system failed. Without an account
// of the engine, as on a site that keeps none, the state is the one that the engine lists.
func (j *job) endWithout(why string) {
	j.mu.Lock()
	s, stretch, listed := j.node, j.stretch, j.status
	j.mu.Unlock()
	if e, ok := s.Handle.ReadExit(); ok && s.Handle.RunDir != "" { // the keeper outlived the supervisor of the stretch
		e.At = e.At.Add(-j.notableSkew())
		life, sure := j.account()
		if e.Reason == launch.Stopped && !j.wantsStop() {
			e.Reason, e.Detail = launch.Preempted, "ended with its supervisor on the node, which was killed ("+why+")"
		}
		j.close(e, life, sure)
		return
	}
	life, sure := j.account()
	e := launch.Exit{Reason: launch.Lost, Code: -1, At: time.Now(), Detail: strings.TrimSpace("the stretch ended without a record (" + why + ")")}
	if !s.Started.IsZero() {
		e.At, e.Ran = s.Wall, s.Wall.Sub(s.Started)
		e.Detail += "; counted up to its last sign of life, " + s.Wall.Local().Format(time.DateTime)
	}
	last := life
	if last == nil && listed.State == engine.Ended {
		last = &engine.Life{State: firstWord(listed.Raw), Started: listed.Started}
	}
	if last != nil {
		switch {
		case last.Cancelled != "":
			e.Reason, e.Detail = launch.Cancelled, "cancelled by "+last.Cancelled
		case life == nil && last.State == "CANCELLED":
			e.Reason, e.Detail = launch.Cancelled, cancelledByUnknown
		case stretch.Started.IsZero() && s.Started.IsZero() && last.Started.IsZero():
			e.Detail = "the engine ended it before it ran (" + last.State + ")"
		case last.State == "FAILED" && s.Phase == "":
			e.Detail += "; its node showed nothing: state directory, script and program must be on a file system that it shares (optimize doctor --engine " +
				j.launcher.Engine.Name() + " tests that)"
		case last.State == "OUT_OF_MEMORY":
			e.Reason, e.Detail = launch.OOM, "the engine's memory limit was reached"
		case last.State == "PREEMPTED" || last.State == "NODE_FAIL" || last.State == "TIMEOUT" || last.State == "REQUEUED":
			e.Reason, e.Detail = launch.Preempted, "ended by the engine without notice: "+last.State
		}
	}
	j.close(e, life, sure)
}

// firstWord returns the state at the beginning of what an engine lists, as of CANCELLED by 1000 or CANCELLED+.
func firstWord(raw string) string {
	if i := strings.IndexFunc(raw, func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') }); i >= 0 {
		return raw[:i]
	}
	return raw
}

// account waits a while for the engine's final account of the job; nil if it is absent. sure is false for one that
// contradicts the time for which the node was seen to be held: the accounting is incomplete after a restart of its
// database.
func (j *job) account() (life *engine.Life, sure bool) {
	j.mu.Lock()
	id, key, held := j.stretch.ID, j.stretch.Key, j.node.Held
	seen := j.node.Wall.Sub(held)
	if !j.begun.IsZero() {
		held = j.begun // by the clock of the account
	}
	j.mu.Unlock()
	if id == "" {
		return nil, false
	}
	pace := j.launcher.pace()
	for until, pause := time.Now().Add(pace.final), pace.poll; ; pause *= 2 {
		ctx, cancel := context.WithTimeout(context.Background(), callWithin)
		lives, err := j.engine().Account(ctx, id)
		cancel()
		if sum := whole(lives, key); err == nil && sum != nil {
			life = sum
			if sure = agree(life, held, seen); sure {
				return life, true
			}
		}
		if time.Now().After(until) {
			return life, false
		}
		select {
		case <-time.After(min(pause, time.Until(until))):
		case <-j.life.Done():
			return life, false
		}
	}
}

// whole returns all lives of the job of a key as one, in the state of the last: from the start of the first, with the sum
// of the times, all of which are paid. nil unless all are final.
func whole(lives []engine.Life, key string) *engine.Life {
	lives = slices.DeleteFunc(lives, func(l engine.Life) bool { return l.Key != key })
	if len(lives) == 0 {
		return nil
	}
	sum := lives[len(lives)-1]
	sum.Elapsed = 0
	for _, l := range slices.Backward(lives) {
		if !l.Final {
			return nil
		}
		if sum.Elapsed += l.Elapsed; !l.Started.IsZero() {
			sum.Started = l.Started
		}
	}
	return &sum
}

// close records the end and closes done. Times and charge are those of the account if that is sure.
func (j *job) close(e launch.Exit, life *engine.Life, sure bool) {
	j.mu.Lock()
	if e.Reason == launch.Cancelled && j.withdrawn { // by this agent
		e.Reason = launch.Stopped
	}
	s := &j.stretch
	s.Ended = e.At
	if life != nil {
		s.State = life.State
	}
	if sure {
		confirm(s, life)
		e.Held = life.Elapsed
	} else if !s.Started.IsZero() && e.At.After(s.Started) {
		e.Held = e.At.Sub(s.Started)
	}
	if t, shared := j.engine().(*tenant); shared && !sure {
		e.Share = t.share()
	} else if shared && life.Share != nil {
		e.Share = *life.Share
	}
	s.Share = e.Share
	j.saveStretch()
	j.mu.Unlock()
	j.exit = e
	close(j.done)
}

// saveStretch updates the record of the stretch; the caller holds the lock. A failure is repaired by the next change.
func (j *job) saveStretch() {
	j.launcher.record.Lock()
	defer j.launcher.record.Unlock()
	var all stretches
	if readJSON(j.dir, stretchesFile, &all) != nil {
		return
	}
	switch {
	case j.stretch.N <= len(all.List):
		all.List[j.stretch.N-1] = j.stretch
	case j.stretch.N == len(all.List)+1:
		all.List = append(all.List, j.stretch)
	}
	writeJSON(j.dir, stretchesFile, all)
}

// cancelJob cancels the job of the engine. A stretch that owns nothing is then recorded as ended.
func (j *job) cancelJob(ctx context.Context) error {
	j.mu.Lock()
	id := j.stretch.ID
	j.mu.Unlock()
	none := time.Duration(0)
	j.request(func(q *request) { q.Stop = &none }) // also reaches a node that the engine cannot
	call, cancel := context.WithTimeout(ctx, callWithin)
	defer cancel()
	if id == "" { // its submission was not answered
		found, err := j.engine().List(call, j.stretch.Key)
		if err != nil {
			return err
		}
		if len(found) > 0 {
			id = found[len(found)-1].ID
		}
	}
	if id != "" {
		if err := j.engine().Cancel(call, id); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.withdrawn = true; j.stretch.State == statePrepared && j.stretch.Ended.IsZero() {
		j.stretch.Ended = time.Now()
		j.saveStretch()
	}
	return nil
}
