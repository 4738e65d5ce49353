package queue

import (
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/order"
)

const (
	rolloutSamples = 2  // samples of run times
	rolloutHorizon = 40 // maximum number of job ends per rollout
)

// rollouts selects the order at each decision, among saf, f4, sjf and smallest: for each, the known state is simulated
// until the waiting jobs have started, and the best for the objective is used (rollouts of base policies: Bertsekas,
// Tsitsiklis and Wu, 1997). True run times are sampled from the shares of their requests that past jobs used; no arrivals
// are simulated.
//
// The first order is replaced only by one that is better by 5 %, since a new order delays the head of the queue. A decision
// costs a simulation of the waiting jobs for each order and sample. An improvement is not guaranteed: see
// TestMiniRollouts.
type rollouts struct {
	objective Objective
	pairs     []*policy
	play      *state
	rng       *rand.Rand
	worth     []float64
}

func newRollouts(c *CoresConfig) *rollouts {
	r := &rollouts{objective: c.Objective, rng: rand.New(rand.NewPCG(c.Seed, 1))}
	for _, name := range []string{"saf", "f4", "sjf", "smallest"} {
		order := order.Orders[name]
		r.pairs = append(r.pairs, &policy{order: &order, placer: placements["best"].New(c.Tree, c.Objective, c.Seed), backfill: &easy{}})
	}
	r.play = newState(c.Tree, c.Jobs)
	r.play.truth = make([]float64, len(c.Jobs))
	r.worth = make([]float64, len(r.pairs))
	return r
}

// choose sets the order and the placement of a policy to those of the best pair, and sorts the queue.
func (r *rollouts) choose(s *state, p *policy) {
	if len(s.waiting) > 1 && s.Machine.Free() > 0 && len(r.pairs) > 1 {
		clear(r.worth)
		for range rolloutSamples {
			r.sampleWork(s)
			for i, pair := range r.pairs {
				r.worth[i] += r.try(s, pair)
			}
		}
	}
	at := 0
	for i, v := range r.worth {
		if v < r.worth[at] && v < 0.95*r.worth[0] { // a change delays the head of the queue
			at = i
		}
	}
	p.order, p.placer, p.common, p.claimed = r.pairs[at].order, r.pairs[at].placer, r.pairs[at].common, nil
	s.sort(p.order)
}

// sampleWork samples the true work of each job; that of a running job exceeds the work done.
func (r *rollouts) sampleWork(s *state) {
	// Shares are drawn from the history once it has ten jobs, before that uniformly.
	share := func() float64 {
		if n := len(s.history); n >= 10 {
			return s.history[r.rng.IntN(n)]
		}
		return r.rng.Float64()
	}
	for i := range s.running {
		x := &s.running[i]
		did := x.done + x.rate*(s.Now-x.last)
		all := 0.0
		// Resample up to four times until the work exceeds that done, which the lower bound of 1.1 times then ensures.
		for n := 0; n < 4 && all <= did; n++ {
			all = share() * s.work[x.job]
		}
		r.play.truth[x.job] = max(all, 1.1*did)
	}
	for _, w := range s.waiting {
		r.play.truth[w.job] = share() * s.work[w.job]
	}
}

// try simulates a pair from the given state and returns the cost by the objective. Jobs that run or wait at the
// horizon are extrapolated.
func (r *rollouts) try(s *state, p *policy) float64 {
	w := r.play
	w.copyFrom(s)
	for i := range w.running {
		x := &w.running[i]
		x.real = w.truth[x.job] - x.done
	}
	w.sort(p.order)
	value, energy, weight, ended := 0.0, 0.0, 0.0, 0
	count := func(x *running, end float64) {
		switch j := &w.Jobs[x.job]; r.objective {
		case Slowdown:
			value += (end - j.Submit) / max(10, end-x.start)
		case Finish:
			area := float64(j.Procs) * (end - x.start)
			value += (end - s.Now) * area
			weight += area
		}
	}
	ignore := func(int32, []int32) {}
	for p.pass(w, ignore); len(w.waiting) > 0 && len(w.running) > 0 && ended < rolloutHorizon; ended++ {
		i, at := w.nextEnd()
		energy += w.power() * (at - w.Now)
		w.Now = at
		count(&w.running[i], at)
		w.finish(w.running[i].job)
		w.extendOverdue()
		p.pass(w, ignore)
	}
	for i := range w.running {
		x := &w.running[i]
		end := max(w.Now, x.last+x.real/x.rate)
		count(x, end)
		energy += (end - w.Now) * w.wattsOf(x.cores)
	}
	for _, q := range w.waiting { // these start after the horizon
		d := w.length(q.job)
		count(&running{job: q.job, start: w.Now + d}, w.Now+2*d)
	}
	switch r.objective {
	case Energy:
		return energy
	case Finish:
		return value / max(weight, 1)
	}
	return value
}

// nextEnd returns the running job with the earliest true end, and that time.
func (s *state) nextEnd() (place int, at float64) {
	at = inf
	for i := range s.running {
		x := &s.running[i]
		if end := max(s.Now, x.last+x.real/x.rate); end < at || math.IsInf(at, 1) {
			place, at = i, end
		}
	}
	return place, at
}

// wattsOf returns the active power of cores, W.
func (s *state) wattsOf(which []int32) float64 {
	sum := 0.0
	for _, c := range which {
		sum += s.Tree.Processors[s.Tree.ProcessorOf[c]].Watts
	}
	return sum
}
