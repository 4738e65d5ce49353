package schedule

import (
	"fmt"
	"math"
)

// updates collects what changed since the last decision.
type updates struct {
	updater      Updater      // nil: the world has none
	byUpdates    bool         // the last decision was an update: full shares, which the runnables have received
	arrivals     []*ActiveJob // since the last decision, if there is an updater
	endings      []*ActiveJob
	released     []*Runnable // leases that ended early
	active, gone int         // number of active jobs, and of ended ones that are still in Engine.jobs
	pending      int         // number of arrivals and completions since the last decision
	pendingUntil float64     // time at which the pending changes are due; +Inf: none
	urgent       bool        // a change may not wait
	unassigned   bool        // a change may wait, but released devices or new jobs have not been considered
}

func (u *updates) init(w World) {
	u.updater, _ = w.(Updater)
	u.pendingUntil = math.Inf(1)
}

func (u *updates) arrive(j *ActiveJob) {
	u.active++
	if u.updater != nil {
		u.arrivals = append(u.arrivals, j)
	}
}

func (u *updates) end(j *ActiveJob) {
	u.active--
	u.gone++
	if u.updater != nil {
		u.endings = append(u.endings, j)
	}
}

func (u *updates) release(r *Runnable) {
	if u.byUpdates {
		u.released = append(u.released, r)
	}
}

// note records a change at time now: an arrival or a completion (mayWait), or one that is due at once.
func (e *Engine) note(now float64, mayWait bool) {
	e.now, e.changed = now, true
	if !mayWait {
		e.urgent = true
		return
	}
	e.pending++
	if e.Pending > 0 && !e.byUpdates {
		e.pendingUntil = min(e.pendingUntil, now+e.PendingDelay)
		e.unassigned = !e.Traits.OnlyShares
	}
}

// largeCluster is the number of active jobs from which the share of pending changes grows with the root of the number: each
// change is a smaller part of the cluster, and a decision costs more per job, since the jobs do not fit the caches.
const largeCluster = 1000

// enoughChanged reports whether the changes since the last decision are due at time now.
func (e *Engine) enoughChanged(now float64) bool {
	if e.byUpdates || e.urgent || e.Pending <= 0 || now >= e.pendingUntil {
		return true
	}
	n := float64(e.active)
	return float64(e.pending) >= e.Pending*n*max(1, math.Sqrt(n/largeCluster))
}

// update asks the updater, if there is one, and stops and starts the jobs whose places change. done is false if a
// decision about all jobs is required.
func (e *Engine) update() (done bool, err error) {
	e.urgent = false
	if e.updater == nil {
		return false, nil
	}
	moves, done, err := e.updater.Update(e.now, e.arrivals, e.endings)
	if err != nil {
		return false, err
	}
	e.byUpdates = done
	if done {
		err = e.apply(moves)
	}
	e.forget()
	if !done {
		e.updater = nil
	}
	return done, err
}

// apply carries out moves. Devices are released before others are taken.
func (e *Engine) apply(moves []JobPlace) error {
	e.shared = false
	e.leases.Ended += e.running.count()
	e.chosen = e.chosen[:0]
	for _, r := range e.released {
		if r.want >= 0 && !r.gone() {
			e.chosen = append(e.chosen, r)
		}
	}
	for _, m := range moves {
		r := e.runnable(m.Job, nil)
		clear(r.shares)
		r.want = m.Device
		if m.Device >= 0 {
			r.shares[m.Device] = 1
			e.chosen = append(e.chosen, r)
		}
		if r.Device >= 0 && r.Device != r.want {
			e.stop(r)
			e.running.remove(r)
		}
	}
	e.leases.Extended += e.running.count()
	for _, r := range e.chosen {
		if r.Device >= 0 || r.want < 0 {
			continue
		}
		if free := e.types[r.want].free; r.GPUs > free {
			return fmt.Errorf("%d devices of type %s for job %d: %d are free", r.GPUs, e.Devices[r.want].Name, r.A.ID, free)
		}
		e.start(r)
	}
	return nil
}

// forget clears the lists of changes. Ended jobs are removed once they are the majority.
func (e *Engine) forget() {
	clear(e.arrivals)
	clear(e.endings)
	clear(e.released)
	e.arrivals, e.endings, e.released = e.arrivals[:0], e.endings[:0], e.released[:0]
	if e.gone > e.active {
		e.removeEnded()
	}
}

// running is the list of runnables with devices in the order of their starts. Adding and removing cost O(1).
type running struct {
	list  []*Runnable // nil: removed
	holes int
}

func (l *running) count() int { return len(l.list) - l.holes }

func (l *running) add(r *Runnable) {
	if l.holes > 16 && 2*l.holes > len(l.list) {
		l.all()
	}
	r.at = len(l.list)
	l.list = append(l.list, r)
}

// remove removes a runnable. It does not move others.
func (l *running) remove(r *Runnable) {
	l.list[r.at] = nil
	l.holes++
}

// all closes the holes and returns the list.
func (l *running) all() []*Runnable {
	if l.holes == 0 {
		return l.list
	}
	kept := l.list[:0]
	for _, r := range l.list {
		if r != nil {
			r.at = len(kept)
			kept = append(kept, r)
		}
	}
	clear(l.list[len(kept):])
	l.list, l.holes = kept, 0
	return kept
}
