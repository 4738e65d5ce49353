package remote

import (
	"context"
	"time"

	"trainopt/optimizer/engine"
)

const (
	// agreement is the largest difference between two measurements of the same time: the engine counts whole seconds,
	// and its job begins before our process and ends after it.
	agreement = 5 * time.Second
	// settledAfter is the time after the end of a job from which its account is believed in any case.
	settledAfter = 10 * time.Minute
)

// agree reports whether an account agrees with the time from which and for which the node was seen to be held, zero if it
// was never seen. The time on a node after the engine has lost it is not charged.
func agree(life *engine.Life, from time.Time, seen time.Duration) bool {
	if seen <= 0 {
		return true
	}
	if life.Started.Sub(from) > 2*time.Second { // an earlier life is missing
		return false
	}
	return (life.Elapsed-seen).Abs() <= agreement || life.State == "NODE_FAIL" && life.Elapsed < seen
}

// confirm sets the times of a stretch to those of the account.
func confirm(s *engine.Stretch, life *engine.Life) {
	s.State, s.Ended, s.Confirmed = life.State, life.Ended, true
	if len(life.Nodes) > 0 {
		s.Nodes = life.Nodes
	}
	if !life.Started.IsZero() {
		s.Started = life.Started
	}
}

// Confirm asks the engine for the accounts of the stretches of a run that ended without one, and sets Corrected in the
// record of the stretches. It is idempotent. An account that contradicts our own clock is believed only long after the
// end of the job.
func (l *Launcher) Confirm(ctx context.Context, runDir string) ([]engine.Stretch, error) {
	var all stretches
	if err := readJSON(runDir, stretchesFile, &all); err != nil {
		return nil, err
	}
	changed := false
	for i := range all.List {
		s := &all.List[i]
		if s.Confirmed || s.ID == "" || s.Ended.IsZero() || s.Started.IsZero() || s.Engine != l.Engine.Name() {
			continue
		}
		lives, err := l.engineOf(s).Account(ctx, s.ID)
		if err != nil {
			return all.List, err
		}
		life, charged := whole(lives, s.Key), s.Ended.Sub(s.Started)
		if life == nil || !agree(life, s.Started, charged) && time.Since(s.Ended) < settledAfter {
			continue
		}
		switch {
		case life.Share == nil:
			s.Corrected = life.Elapsed - charged
		case s.Share > 0:
			s.Corrected, s.Share = *life.Share-s.Share, *life.Share
		}
		confirm(s, life)
		changed = true
	}
	if !changed {
		return all.List, nil
	}
	return all.List, writeJSON(runDir, stretchesFile, all)
}
