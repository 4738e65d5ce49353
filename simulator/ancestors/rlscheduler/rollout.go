package rlscheduler

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule/order"
)

// RolloutOptions are the settings of a rollout. The zero value of each field is a useful default.
type RolloutOptions struct {
	// Rules complete the simulation after a candidate's start, each separately; the best result counts. nil means SAF
	// and F4.
	Rules []string
	// Nominees are the rules that propose candidates: each proposes its first Width jobs and its first job that could
	// start immediately. nil means SAF, SJF and smallest; a Width of 0 means 2.
	Nominees []string
	Width    int
	// Samples is the number of sampled futures, each a sequence of Horizon jobs of the past; 0 means 16 and 50. With
	// negative Samples, no arrivals are simulated.
	Samples, Horizon int
	Seed             uint64 // seed of the samples
	// Sure is the advantage over the first rule's job (the agent's, if one is used) that another candidate requires,
	// in standard errors of the mean of paired differences over the samples. 0 means 1 with backfilling and no
	// requirement without; negative means no requirement.
	Sure float64
	// Agent is a learned policy used as an additional rule and nominee; it scores the jobs once, at the time of the
	// decision. Its sight must be wideSight. nil means BuiltinAgent, or none if RulesOnly is set.
	Agent     *Agent `json:"-"`
	RulesOnly bool
}

// rollout chooses jobs by rollouts of base policies (Bertsekas, Tsitsiklis and Wu, rollout algorithms for
// combinatorial optimization, 1997; with sampled arrivals, their stochastic form): each candidate is started in a copy
// of the known state, a rule or a learned policy continues from there while jobs arrive as they did in the past, and
// the candidate with the lowest slowdown is chosen, provided that its advantage is statistically sufficient. It uses
// only information available to a scheduler (the queue, the running jobs with their requested times, and past jobs),
// never future jobs, and keeps no state between decisions other than the past.
//
// A decision costs O(candidates × rules × samples × (waiting + horizon)²), some 3 ms on 256 processors. In steady
// state it does not allocate.
type rollout struct {
	rules, nominees []Heuristic // with an agent, the first entry represents it
	learned         [2]*decider // without and with backfilling
	agent           *decider    // for the present episode
	over            *order.Job  // first job of the episode that agent was initialised for
	seen            int
	sure            float64
	o               RolloutOptions
	rng             *rand.Rand

	known, play      Episode
	later            []order.Job
	order, candidate []int
	scores           []float64
	worth            []float64 // bounded slowdown, candidates × rules × samples
}

// NewRollout returns a rollout. Unknown rules, and an agent of another sight, are errors. With an agent, a placeholder is
// inserted before the rules and the nominees; one agent each is loaded for episodes without and with backfilling.
func NewRollout(o RolloutOptions) (*rollout, error) {
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
	r := &rollout{rules: rules, nominees: nominees, o: o, rng: rand.New(rand.NewPCG(o.Seed, 0))}
	if r.o.RulesOnly = o.RulesOnly && o.Agent == nil; r.o.RulesOnly {
		return r, nil
	}
	r.rules = slices.Insert(r.rules, 0, Heuristic{})
	r.nominees = slices.Insert(r.nominees, 0, Heuristic{})
	for i, name := range []string{"none", "rlscheduler"} {
		a := o.Agent
		if a == nil {
			if a, err = BuiltinAgent(name); err != nil {
				return nil, fmt.Errorf("rollout: %w", err)
			}
		}
		if a.Options.Sight != wideSight {
			return nil, fmt.Errorf("rollout: the agent sees %s, want %s", a.Options.Sight, wideSight)
		}
		if r.learned[i], err = a.decider(&Trace{}); err != nil {
			return nil, err
		}
	}
	return r, nil
}

// begin prepares a decision. It selects and initialises the agent where the episode differs from that of the last
// decision.
func (r *rollout) begin(e *Episode, jobs []order.Job) {
	r.sure = max(0, r.o.Sure)
	if r.o.Sure == 0 && e.backfill {
		r.sure = 1
	}
	if r.o.RulesOnly || len(jobs) == 0 {
		return
	}
	agent := r.learned[0]
	if e.backfill {
		agent = r.learned[1]
	}
	if agent != r.agent || r.over != &jobs[0] || e.Arrived() < r.seen {
		agent.beginOver(e, jobs)
	}
	r.agent, r.over, r.seen = agent, &jobs[0], e.Arrived()
}

func heuristics(names []string) ([]Heuristic, error) {
	all := slices.Concat(Published, Further)
	var out []Heuristic
	for _, n := range names {
		i := slices.IndexFunc(all, func(h Heuristic) bool { return h.Name == n })
		if i < 0 {
			return nil, fmt.Errorf("rollout: rule %q is unknown", n)
		}
		out = append(out, all[i])
	}
	return out, nil
}

// Player returns a player for an episode of a trace that begins at job start. The past consists of the earlier jobs of
// the trace and the arrived jobs of the episode.
func (r *rollout) Player(t *Trace, start int) Player {
	return func(e *Episode) int { return r.next(e, t.Jobs[start:], t.Jobs[:start+e.Arrived()]) }
}

// next returns the job of e.Waiting() to start next. jobs are the jobs of the episode; past holds all jobs submitted
// so far, in order.
func (r *rollout) next(e *Episode, jobs, past []order.Job) int {
	w := e.Waiting()
	r.begin(e, jobs)
	r.nominate(e, jobs)
	if len(r.candidate) == 1 {
		return w[r.candidate[0]]
	}
	// Every candidate and rule is evaluated on the same sampled futures, so that differences are paired.
	k, n := len(r.rules), max(1, r.o.Samples)
	r.worth = slices.Grow(r.worth[:0], len(r.candidate)*k*n)[:len(r.candidate)*k*n]
	for s := range n {
		r.sampleArrivals(e, past)
		r.known.foresee(e, r.later)
		for i, rule := range r.rules {
			r.score(e, jobs, rule)
			for c, first := range r.candidate {
				r.worth[(c*k+i)*n+s] = r.rollout(first)
			}
		}
	}
	return w[r.candidate[r.choose(k, n)]]
}

// choose returns the candidate with the lowest mean among those that are sufficiently better than the first
// candidate; see RolloutOptions.Sure.
func (r *rollout) choose(rules, n int) int {
	of := func(c int) ([]float64, float64) { // the samples and the mean of the best rule for candidate c
		var best []float64
		least := math.Inf(1)
		for i := range rules {
			v := r.worth[(c*rules+i)*n : (c*rules+i+1)*n]
			if m := stat.Mean(v); m < least {
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

// standardError returns the standard error of the mean of paired differences; 0 for one sample.
func standardError(a, b []float64) float64 {
	n := float64(len(a))
	if n < 2 {
		return 0
	}
	d, squares := stat.Mean(a)-stat.Mean(b), 0.0
	for i := range a {
		squares += (a[i] - b[i] - d) * (a[i] - b[i] - d)
	}
	return math.Sqrt(squares / (n - 1) / n)
}

// nominate collects the candidates, as positions in e.Waiting(): for each nominee, its first Width jobs and its first
// job that fits. Duplicates are omitted; the first nominee's first job is the baseline of choose.
func (r *rollout) nominate(e *Episode, jobs []order.Job) {
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
			r.scores = r.agent.scores(r.scores[:0], e, nil)
		}
		for i, j := range w {
			if h.Score != nil {
				r.scores[i] = h.Rank(&jobs[j], e.Now()-jobs[j].Submit)
			}
			r.order = append(r.order, i)
		}
		slices.SortStableFunc(r.order, func(a, b int) int { return cmp.Compare(r.scores[a], r.scores[b]) })
		for _, i := range r.order[:min(r.o.Width, len(w))] {
			add(i)
		}
		if i := slices.IndexFunc(r.order, func(i int) bool { return e.fits(w[i]) }); i >= 0 {
			add(r.order[i])
		}
	}
}

// sampleArrivals samples a sequence of past jobs as future arrivals, with submissions relative to its beginning. Jobs that
// have not ended run for their requested time.
func (r *rollout) sampleArrivals(e *Episode, past []order.Job) {
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

// ended reports whether a past job has ended. Jobs before the episode have.
func ended(e *Episode, past []order.Job, i int) bool {
	of := i - max(0, len(past)-e.Arrived())
	return of < 0 || e.Starts()[of]+past[i].Run <= e.Now()
}

// score computes the scores of all jobs of r.known by a rule.
func (r *rollout) score(e *Episode, jobs []order.Job, h Heuristic) {
	if h.Score == nil {
		r.scores = r.agent.scores(r.scores[:0], e, r.later)
		// r.known has the running jobs between the waiting and the future ones.
		running := r.known.Len() - len(r.scores)
		r.scores = slices.Insert(r.scores, len(e.Waiting()), make([]float64, running)...)
		return
	}
	n := r.known.Len()
	r.scores = slices.Grow(r.scores[:0], n)[:n]
	for i, j := range e.Waiting() {
		r.scores[i] = h.Rank(&jobs[j], e.Now()-jobs[j].Submit)
	}
	for i := range r.later {
		j := r.later[i]
		j.Submit += e.Now()
		r.scores[n-len(r.later)+i] = h.Rank(&j, 0)
	}
}

// rollout starts one job of the known state, completes the simulation by the scores, and returns the sum of bounded
// slowdowns.
func (r *rollout) rollout(first int) float64 {
	e := &r.play
	e.copyFrom(&r.known)
	e.Start(first)
	m := play(e, func(e *Episode) int { return lowest(r.scores, e.Waiting()) })
	return m.BoundedSlowdown * float64(m.Jobs)
}
