// Package search decides which job of a queue is next by trying it out: each candidate is started in a copy of what is known, a
// simple rule or a learned policy goes on from there while jobs arrive as they did in the past, and the candidate with the least
// slowdown is taken, if that is sure enough.
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

	"trainopt/simulator/ancestors/rlscheduler"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/agents"
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
	// Sure is by how many standard errors of the mean over the samples, compared guess by guess, another candidate must be better than
	// what the first rule (the agent, if there is one) would start. 0 is 1 with backfilling and none without; a negative number is none.
	Sure float64
	// Agent is a learned policy that goes on as one more rule, by what it makes of the jobs at the time of the decision, and whose
	// first jobs are candidates. It must see rlscheduler.WideSight. nil is agents.Builtin, or none when RulesOnly is set.
	Agent     *agents.Agent `json:"-"`
	RulesOnly bool
}

// Rollout decides by trying out (rollouts of a base policy: Bertsekas, Tsitsiklis and Wu, Rollout algorithms for combinatorial
// optimization, 1997; with guessed arrivals it is their stochastic form).
//
// A decision costs O(candidates × rules × samples × (waiting + horizon)²), some 3 ms on 256 processors; nothing is allocated in
// steady state.
type Rollout struct {
	rules, nominees []rlscheduler.Heuristic // the first, when there is an agent, stand for it
	learned         [2]*rlscheduler.Agent   // without and with backfilling
	agent           *rlscheduler.Agent      // of the episode
	over            *queue.Job              // the first of the jobs that agent has begun with
	seen            int
	sure            float64
	o               Options
	rng             *rand.Rand

	known, play      rlscheduler.Episode
	later            []queue.Job
	order, candidate []int
	scores           []float64
	worth            []float64 // candidates × rules × samples
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
	r := &Rollout{rules: rules, nominees: nominees, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	if r.o.RulesOnly = o.RulesOnly && o.Agent == nil; r.o.RulesOnly {
		return r, nil
	}
	r.rules = slices.Insert(r.rules, 0, rlscheduler.Heuristic{})
	r.nominees = slices.Insert(r.nominees, 0, rlscheduler.Heuristic{})
	for i, name := range []string{"none", "rlscheduler"} {
		a := o.Agent
		if a == nil {
			if a, err = agents.Builtin(name); err != nil {
				return nil, fmt.Errorf("rollout: %w", err)
			}
		}
		if a.Options.Sight != rlscheduler.WideSight {
			return nil, fmt.Errorf("rollout: the agent sees %s, want %s", a.Options.Sight, rlscheduler.WideSight)
		}
		if r.learned[i], err = a.Decider(&rlscheduler.Trace{}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin prepares for a decision: for its episode, unless it is that of the last one.
func (r *Rollout) begin(e *rlscheduler.Episode, jobs []queue.Job) {
	r.sure = max(0, r.o.Sure)
	if r.o.Sure == 0 && e.Backfills() {
		r.sure = 1
	}
	if r.o.RulesOnly || len(jobs) == 0 {
		return
	}
	agent := r.learned[0]
	if e.Backfills() {
		agent = r.learned[1]
	}
	if agent != r.agent || r.over != &jobs[0] || e.Arrived() < r.seen {
		agent.BeginOver(e, jobs)
	}
	r.agent, r.over, r.seen = agent, &jobs[0], e.Arrived()
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
	r.whole(e, t, start)
	return e, nil
}

func (r *Rollout) whole(e *rlscheduler.Episode, t *rlscheduler.Trace, start int) {
	for len(e.Waiting()) > 0 {
		e.Start(r.Next(e, t.Jobs[start:], t.Jobs[:start+e.Arrived()]))
	}
}

// Next is the job of e.Waiting() to start next. Jobs are those of the episode, past those whose submissions are known, in order.
func (r *Rollout) Next(e *rlscheduler.Episode, jobs, past []queue.Job) int {
	w := e.Waiting()
	r.begin(e, jobs)
	r.nominate(e, jobs)
	if len(r.candidate) == 1 {
		return w[r.candidate[0]]
	}
	k, n := len(r.rules), max(1, r.o.Samples)
	r.worth = slices.Grow(r.worth[:0], len(r.candidate)*k*n)[:len(r.candidate)*k*n]
	for s := range n {
		r.guess(e, past)
		r.known.Foresee(e, r.later)
		for i, rule := range r.rules {
			r.score(e, jobs, rule)
			for c, first := range r.candidate {
				r.worth[(c*k+i)*n+s] = r.rollout(first)
			}
		}
	}
	return w[r.candidate[r.choose(k, n)]]
}

// choose is the candidate with the least mean, of those that are surely better than the first one.
func (r *Rollout) choose(rules, n int) int {
	of := func(c int) ([]float64, float64) { // the samples by the rule that does best after it
		var best []float64
		least := math.Inf(1)
		for i := range rules {
			v := r.worth[(c*rules+i)*n : (c*rules+i+1)*n]
			if m := mean(v); m < least {
				best, least = v, m
			}
		}
		return best, least
	}
	first, least := of(0)
	best, standard := 0, least
	for c := 1; c < len(r.candidate); c++ {
		v, m := of(c)
		if m < least && standard-m >= r.sure*standardError(first, v) {
			best, least = c, m
		}
	}
	return best
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// standardError is that of the mean difference; 0 of one sample.
func standardError(a, b []float64) float64 {
	n := float64(len(a))
	if n < 2 {
		return 0
	}
	d, squares := mean(a)-mean(b), 0.0
	for i := range a {
		squares += (a[i] - b[i] - d) * (a[i] - b[i] - d)
	}
	return math.Sqrt(squares / (n - 1) / n)
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
		if h.Score == nil {
			r.scores = r.agent.Scores(r.scores[:0], e, nil)
		}
		for i, j := range w {
			if h.Score != nil {
				r.scores[i] = h.Score(&jobs[j], e.Now()-jobs[j].Submit)
			}
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
func (r *Rollout) guess(e *rlscheduler.Episode, past []queue.Job) {
	r.later = r.later[:0]
	if last := len(past) - r.o.Horizon; last > 0 && r.o.Samples > 0 {
		k := r.rng.IntN(last)
		for i, j := range past[k+1 : k+1+r.o.Horizon] {
			j.Submit -= past[k].Submit
			if !ended(e, past, k+1+i) {
				j.Run = j.Request
			}
			r.later = append(r.later, j)
		}
	}
}

// ended is whether a job of the past has: those before the episode have.
func ended(e *rlscheduler.Episode, past []queue.Job, i int) bool {
	of := i - max(0, len(past)-e.Arrived())
	return of < 0 || e.Starts()[of]+past[i].Run <= e.Now()
}

// score gives every job of r.known its score by a rule.
func (r *Rollout) score(e *rlscheduler.Episode, jobs []queue.Job, h rlscheduler.Heuristic) {
	if h.Score == nil {
		r.scores = r.agent.Scores(r.scores[:0], e, r.later)
		// as in r.known, those that run lie between
		running := r.known.Len() - len(r.scores)
		r.scores = slices.Insert(r.scores, len(e.Waiting()), make([]float64, running)...)
		return
	}
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
