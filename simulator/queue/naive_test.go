package queue_test

import (
	"cmp"
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/queue"
)

// naive is a reference simulator written for simplicity: time advances in whole seconds, sets are lists, and the only
// state between seconds is that in the definition of a policy. Jobs are in order of submission.
type naive struct {
	procs   int
	jobs    []order.Job
	score   func(j *order.Job, wait float64) float64
	start   []int // −1 means not started
	planned []int // with conservative backfilling; −1 means not planned
	now     int
}

func (n *naive) run(i int) int {
	r := n.jobs[i].Run
	if l := n.jobs[i].Limit; l > 0 {
		r = min(r, l)
	}
	return int(r)
}

func (n *naive) estimate(i int) int {
	e := n.jobs[i].Request
	if e == 0 {
		e = n.jobs[i].Run
	}
	if l := n.jobs[i].Limit; l > 0 {
		e = min(e, l)
	}
	return int(e)
}

func (n *naive) running() (jobs []int) {
	for i, s := range n.start {
		if s >= 0 && s+n.run(i) > n.now {
			jobs = append(jobs, i)
		}
	}
	return jobs
}

func (n *naive) free() int {
	f := n.procs
	for _, i := range n.running() {
		f -= n.jobs[i].Procs
	}
	return f
}

// waiting returns the jobs that were submitted and have not started, the head first.
func (n *naive) waiting() (jobs []int) {
	for i := range n.jobs {
		if n.start[i] < 0 && int(n.jobs[i].Submit) <= n.now && n.jobs[i].Procs <= n.procs {
			jobs = append(jobs, i)
		}
	}
	slices.SortStableFunc(jobs, func(a, b int) int {
		return cmp.Compare(n.score(&n.jobs[a], float64(n.now)-n.jobs[a].Submit), n.score(&n.jobs[b], float64(n.now)-n.jobs[b].Submit))
	})
	return jobs
}

// freeAt returns the number of processors free at a future time if running jobs end by their estimates; those that
// exceeded them end immediately.
func (n *naive) freeAt(t int) int {
	f := n.free()
	for _, i := range n.running() {
		if max(n.start[i]+n.estimate(i), n.now) <= t {
			f += n.jobs[i].Procs
		}
	}
	return f
}

func simulateNaively(c queue.Config, score func(j *order.Job, wait float64) float64) []int {
	n := &naive{procs: c.Procs, jobs: c.Jobs, score: score, start: make([]int, len(c.Jobs)), planned: make([]int, len(c.Jobs))}
	horizon := 1
	for i := range c.Jobs {
		n.start[i], n.planned[i] = -1, -1
		horizon += int(c.Jobs[i].Submit) + n.run(i) + n.estimate(i)
	}
	left := func(i int) bool { return i < 0 }
	for n.now = 0; n.now < horizon && slices.ContainsFunc(n.start, left); n.now++ {
		if !n.event() {
			continue
		}
		switch c.Backfill {
		case "none":
			n.head()
		case "easy":
			n.easy()
		case "conservative":
			n.conservative(horizon)
		}
	}
	return n.start
}

// event reports whether a job was submitted or ended now; the queue is processed only then.
func (n *naive) event() bool {
	for i, s := range n.start {
		if int(n.jobs[i].Submit) == n.now || s >= 0 && s+n.run(i) == n.now {
			return true
		}
	}
	return false
}

// head starts the head of the queue while it fits.
func (n *naive) head() {
	for w := n.waiting(); len(w) > 0 && n.jobs[w[0]].Procs <= n.free(); w = n.waiting() {
		n.start[w[0]] = n.now
	}
}

func (n *naive) easy() {
	n.head()
	w := n.waiting()
	if len(w) == 0 {
		return
	}
	need := n.jobs[w[0]].Procs
	shadow := n.now
	for n.freeAt(shadow) < need {
		shadow++
	}
	for _, i := range w[1:] {
		if n.jobs[i].Procs > n.free() {
			continue
		}
		// Check whether the head could still start at its reserved time.
		n.start[i] = n.now
		if n.estimate(i) > 0 && n.freeAt(shadow) < need {
			n.start[i] = -1
		}
	}
}

// conservative requires that no job exceeds its estimate.
func (n *naive) conservative(horizon int) {
	busy := make([]int, 2*horizon+1) // by second from now
	take := func(i, at, sign int) {
		for t := max(at, n.now); t < at+n.estimate(i); t++ {
			busy[t] += sign * n.jobs[i].Procs
		}
	}
	plan := func(i int) {
		for at := n.now; ; at++ {
			fits := true
			for t := at; t < at+n.estimate(i); t++ {
				fits = fits && busy[t]+n.jobs[i].Procs <= n.procs
			}
			if fits {
				n.planned[i] = at
				take(i, at, 1)
				return
			}
		}
	}
	for _, i := range n.running() {
		take(i, n.start[i], 1)
	}
	w := n.waiting()
	for _, i := range w {
		if n.planned[i] >= 0 {
			take(i, n.planned[i], 1)
		}
	}
	for moved := n.early(); moved; {
		moved = false
		for _, i := range w {
			if before := n.planned[i]; before >= 0 {
				take(i, before, -1)
				plan(i)
				moved = moved || n.planned[i] < before
			}
		}
	}
	for _, i := range w {
		if n.planned[i] < 0 {
			plan(i)
		}
	}
	for _, i := range w {
		if n.planned[i] == n.now {
			n.start[i] = n.now
		}
	}
}

// early reports whether a job ended now, before its estimate.
func (n *naive) early() bool {
	for i, s := range n.start {
		if s >= 0 && s+n.run(i) == n.now && n.estimate(i) > n.run(i) {
			return true
		}
	}
	return false
}

func same(naive int, start float64) bool {
	return naive < 0 && math.IsNaN(start) || float64(naive) == start
}
