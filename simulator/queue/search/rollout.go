// Package search decides which job of a queue is next by trying it out: each candidate is started in a copy of what is known, a
// simple rule goes on from there while jobs arrive as they did in the past, and the candidate with the least slowdown is taken.
// It sees what a scheduler sees (the queue, what runs and the times that users asked for, the jobs of the past) and never the
// jobs to come.
//
//	trace, err := rlscheduler.Load("lublin_256.swf.gz")
//	e, err := search.Play(trace, rlscheduler.Starts1024[0], 1024, true, search.Options{})
//	fmt.Println(rlscheduler.Measure(e).BoundedSlowdown)
//
// It learns nothing and keeps nothing between decisions, apart from the past.
package search

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/simulator/queue"
	"trainopt/simulator/queue/rlscheduler"
)

// Options say how much is tried. The zero value of each is a good one.
type Options struct {
	// Rules go on after a candidate, each to the end; the one that does best counts. nil is SAF and F4.
	Rules []string
	// Nominees are the rules whose first Width jobs are candidates, with the first that would start at once; nil is SAF, SJF and
	// smallest, 0 is 2.
	Nominees []string
	Width    int
	// Samples is the number of futures that are guessed, each a stretch of so many (Horizon) jobs of the past; 0 is 16 and 50. A
	// negative number of samples guesses none: nothing arrives any more.
	Samples, Horizon int
	Seed             uint64 // of the guesses
}

// Rollout decides by trying out (rollouts of a base policy: Bertsekas, Tsitsiklis and Wu, Rollout algorithms for combinatorial
// optimization, 1997; with guessed arrivals it is their stochastic form).
//
// A decision costs O(candidates × rules × samples × (waiting + horizon)²), about 2 ms on 256 processors; nothing is allocated in
// steady state.
type Rollout struct {
	rules, nominees []rlscheduler.Heuristic
	o               Options
	rng             *rand.Rand

	known, play      rlscheduler.Episode
	later            []queue.Job
	order, candidate []int
	scores           []float64
	worth            []float64 // candidates × rules
}

// New makes a Rollout; the error names rules that there are not.
func New(o Options) (*Rollout, error) {
	if o.Rules == nil {
		o.Rules = []string{"SAF", "F4"}
	}
	if o.Nominees == nil {
		o.Nominees = []string{"SAF", "SJF", "smallest"}
	}
	o.Width = cmp.Or(o.Width, 2)
	o.Samples = cmp.Or(o.Samples, 16)
	o.Horizon = cmp.Or(o.Horizon, 50)
	if o.Width < 1 || o.Horizon < 1 || len(o.Rules) == 0 || len(o.Nominees) == 0 {
		return nil, fmt.Errorf("rollout: %d rules, %d nominees, width %d, horizon %d: want at least 1 of each", len(o.Rules), len(o.Nominees), o.Width, o.Horizon)
	}
	rules, err := heuristics(o.Rules)
	if err != nil {
		return nil, err
	}
	nominees, err := heuristics(o.Nominees)
	if err != nil {
		return nil, err
	}
	return &Rollout{rules: rules, nominees: nominees, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}, nil
}

func heuristics(names []string) ([]rlscheduler.Heuristic, error) {
	all := slices.Concat(rlscheduler.Published, rlscheduler.Further)
	var out []rlscheduler.Heuristic
	for _, n := range names {
		i := slices.IndexFunc(all, func(h rlscheduler.Heuristic) bool { return h.Name == n })
		if i < 0 {
			return nil, fmt.Errorf("rollout: rule %q is unknown", n)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// Play plays length jobs of a trace from number start on, and returns the finished episode. The past are the jobs before, and
// those of the episode that have arrived.
func Play(t *rlscheduler.Trace, start, length int, backfill bool, o Options) (*rlscheduler.Episode, error) {
	r, err := New(o)
	if err != nil {
		return nil, err
	}
	e := t.Episode(start, length, backfill)
	for len(e.Waiting()) > 0 {
		e.Start(r.Next(e, t.Jobs[start:], t.Jobs[:start+e.Arrived()]))
	}
	return e, nil
}

// Next is the job of e.Waiting() to start next. Jobs are those of the episode, past those whose submissions are known, in order.
func (r *Rollout) Next(e *rlscheduler.Episode, jobs, past []queue.Job) int {
	w := e.Waiting()
	r.nominate(e, jobs)
	if len(r.candidate) == 1 {
		return w[r.candidate[0]]
	}
	k := len(r.rules)
	r.worth = slices.Grow(r.worth[:0], len(r.candidate)*k)[:len(r.candidate)*k]
	clear(r.worth)
	for range max(1, r.o.Samples) {
		r.guess(past)
		r.known.Foresee(e, r.later)
		for i, rule := range r.rules {
			r.score(e, jobs, rule)
			for c, first := range r.candidate {
				r.worth[c*k+i] += r.rollout(first)
			}
		}
	}
	best, least := 0, math.Inf(1)
	for c := range r.candidate {
		if v := slices.Min(r.worth[c*k : (c+1)*k]); v < least {
			best, least = c, v
		}
	}
	return w[r.candidate[best]]
}

// nominate finds the candidates, as places in e.Waiting().
func (r *Rollout) nominate(e *rlscheduler.Episode, jobs []queue.Job) {
	w := e.Waiting()
	r.candidate = r.candidate[:0]
	add := func(i int) {
		if !slices.Contains(r.candidate, i) {
			r.candidate = append(r.candidate, i)
		}
	}
	r.scores = slices.Grow(r.scores[:0], len(w))[:len(w)]
	for _, h := range r.nominees {
		r.order = r.order[:0]
		for i, j := range w {
			r.scores[i] = h.Score(&jobs[j], e.Now()-jobs[j].Submit)
			r.order = append(r.order, i)
		}
		slices.SortStableFunc(r.order, func(a, b int) int { return cmp.Compare(r.scores[a], r.scores[b]) })
		for _, i := range r.order[:min(r.o.Width, len(w))] {
			add(i)
		}
		if i := slices.IndexFunc(r.order, func(i int) bool { return e.Fits(w[i]) }); i >= 0 {
			add(r.order[i])
		}
	}
}

// guess draws a stretch of the past, with submissions from its beginning on, as what arrives next.
func (r *Rollout) guess(past []queue.Job) {
	r.later = r.later[:0]
	if last := len(past) - r.o.Horizon; last > 0 && r.o.Samples > 0 {
		k := r.rng.IntN(last)
		for _, j := range past[k+1 : k+1+r.o.Horizon] {
			j.Submit -= past[k].Submit
			r.later = append(r.later, j)
		}
	}
}

// score gives every job of r.known its score by a rule.
func (r *Rollout) score(e *rlscheduler.Episode, jobs []queue.Job, h rlscheduler.Heuristic) {
	n := r.known.Len()
	r.scores = slices.Grow(r.scores[:0], n)[:n]
	for i, j := range e.Waiting() {
		r.scores[i] = h.Score(&jobs[j], e.Now()-jobs[j].Submit)
	}
	for i := range r.later {
		j := r.later[i]
		j.Submit += e.Now()
		r.scores[n-len(r.later)+i] = h.Score(&j, 0)
	}
}

// rollout starts one job of what is known, goes on by the scores, and returns the sum of bounded slowdowns.
func (r *Rollout) rollout(first int) float64 {
	e := &r.play
	e.CopyFrom(&r.known)
	e.Start(first)
	for w := e.Waiting(); len(w) > 0; w = e.Waiting() {
		best := w[0]
		for _, i := range w[1:] {
			if r.scores[i] < r.scores[best] {
				best = i
			}
		}
		e.Start(best)
	}
	m := rlscheduler.Measure(e)
	return m.BoundedSlowdown * float64(m.Jobs)
}
