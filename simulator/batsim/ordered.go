package batsim

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

// ordered starts jobs in an order of package queue, on the lowest free processors, with EASY backfilling (Lifka,
// JSSPP 1995) or none. It makes the decisions of queue.Run for the same order, online. Cost: O(waiting + running ·
// log running) per instant and O(cores) per start.
type ordered struct {
	session *session
	jobs    []queue.Job
	order   queue.Order
	easy    bool
	busy    []bool
	free    int
	waiting []queued
	running []expected
	lowest  []int32
}

// queued is a waiting job with its score.
type queued struct {
	score float64
	job   int32
}

// expected is the estimated end of a running job.
type expected struct {
	at  float64
	job int32
}

var _ decider = (*ordered)(nil)

func newOrdered(s *session) *ordered {
	name := s.options.Order
	if name == "" {
		name = "fcfs"
	}
	n := s.ground.tree.Cores
	return &ordered{session: s, order: queue.Orders[name], easy: s.options.Backfill == "easy", busy: make([]bool, n), free: n}
}

func (o *ordered) extend(jobs []queue.Job) { o.jobs = jobs }

// decide updates the queue and the free processors by the events, and runs a pass. Oversized jobs are rejected.
func (o *ordered) decide(now float64, events []cores.Event, _ int) error {
	for _, e := range events {
		switch e.Kind {
		case cores.Ended, cores.Stopped:
			o.running = slices.DeleteFunc(o.running, func(r expected) bool { return r.job == e.Job })
			for _, c := range o.session.fate[e.Job].Cores {
				o.busy[c] = false
			}
			o.free += o.jobs[e.Job].Procs
		case cores.Submitted:
			if o.jobs[e.Job].Procs > len(o.busy) {
				if err := o.session.Reject(e.Job); err != nil {
					return err
				}
				continue
			}
			o.insert(queued{o.score(e.Job, 0), e.Job})
		}
	}
	if o.order.Aging {
		for i := range o.waiting {
			w := &o.waiting[i]
			w.score = o.score(w.job, now-o.jobs[w.job].Submit)
		}
		slices.SortFunc(o.waiting, o.compare)
	}
	return o.pass(now)
}

// score returns the score of a job by the order, +∞ for NaN.
func (o *ordered) score(job int32, wait float64) float64 {
	if v := o.order.Score(&o.jobs[job], wait); !math.IsNaN(v) {
		return v
	}
	return math.Inf(1)
}

func (o *ordered) compare(a, b queued) int {
	return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(o.jobs[a.job].Submit, o.jobs[b.job].Submit), cmp.Compare(a.job, b.job))
}

func (o *ordered) insert(w queued) {
	at, _ := slices.BinarySearchFunc(o.waiting, w, o.compare)
	o.waiting = slices.Insert(o.waiting, at, w)
}

// pass starts the head of the queue while it fits, then backfills if enabled: a job behind the head starts if it fits
// and either ends by the head's reserved start or uses only processors that the head leaves free.
func (o *ordered) pass(now float64) error {
	started := 0
	for _, w := range o.waiting {
		if o.jobs[w.job].Procs > o.free {
			break
		}
		if err := o.start(now, w.job); err != nil {
			return err
		}
		started++
	}
	o.waiting = slices.Delete(o.waiting, 0, started)
	if !o.easy || o.free == 0 || len(o.waiting) < 2 {
		return nil
	}
	shadow, extra := o.reserve(now)
	kept := o.waiting[:1]
	for _, w := range o.waiting[1:] {
		j := &o.jobs[w.job]
		before := now+estimate(j) <= shadow
		if j.Procs > o.free || !before && j.Procs > extra {
			kept = append(kept, w)
			continue
		}
		if !before {
			extra -= j.Procs
		}
		if err := o.start(now, w.job); err != nil {
			return err
		}
	}
	o.waiting = kept
	return nil
}

// reserve returns the estimated start of the head of the queue and the number of processors that remain free then. A
// job that exceeded its estimate is assumed to end immediately.
func (o *ordered) reserve(now float64) (shadow float64, extra int) {
	slices.SortFunc(o.running, func(a, b expected) int { return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.job, b.job)) })
	need, free := o.jobs[o.waiting[0].job].Procs, o.free
	shadow = now
	for _, r := range o.running {
		if free >= need && r.at > shadow {
			break
		}
		free += o.jobs[r.job].Procs
		shadow = max(shadow, r.at)
	}
	return shadow, free - need
}

// estimate returns the expected run time of a job, s.
func estimate(j *queue.Job) float64 {
	if j.Limit > 0 {
		return min(j.Request, j.Limit)
	}
	return j.Request
}

// start executes a job on the lowest free processors.
func (o *ordered) start(now float64, job int32) error {
	want := o.jobs[job].Procs
	o.lowest = o.lowest[:0]
	for c, busy := range o.busy {
		if len(o.lowest) == want {
			break
		}
		if !busy {
			o.busy[c] = true
			o.lowest = append(o.lowest, int32(c))
		}
	}
	o.free -= want
	o.running = append(o.running, expected{now + estimate(&o.jobs[job]), job})
	return o.session.Start(job, o.lowest)
}

func (o *ordered) finish() error {
	if len(o.waiting) == 0 {
		return nil
	}
	return fmt.Errorf("decide: the simulation ended while %d jobs waited", len(o.waiting))
}
