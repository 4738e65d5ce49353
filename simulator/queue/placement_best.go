package queue

import (
	"math"
	"slices"

	"trainopt/simulator/platform"
)

var inf = math.Inf(1)

// best tries several methods of taking cores in several pools and uses the one of least cost for the objective: the
// cost of the job itself, of its wait for the pool, and of the harm to jobs that it slows. O(pools × processors log
// processors) per job.
type best struct {
	pooled
	objective Objective
	idle      float64 // power of the idle machine, W
	cores     float64
	picks     []pick
	where     []int32
}

// newBest returns a placer with the pools and picks that suit the objective.
func newBest(tree *platform.Tree, objective Objective, _ uint64) placer {
	b := newScored(tree, objective)
	if objective == Energy {
		b.pooled = distinct(append(bySpeed(tree), cumulativePools(tree, joules)...))
		b.picks = []pick{{key: thrifty, safe: true}, {key: thrifty}, {key: fewestSlowed}}
		return b
	}
	b.pooled = distinct(append(bySpeed(tree), cumulativePools(tree, slowness)...))
	b.picks = []pick{{key: packed, safe: true}, {key: packed}, {key: fewestSlowed}}
	return b
}

// newThrifty returns a best for energy, with pools of low energy per operation.
func newThrifty(tree *platform.Tree, _ Objective, _ uint64) placer {
	b := newScored(tree, Energy)
	b.pooled = cumulativePools(tree, joules)
	b.picks = []pick{{key: thrifty}, {key: thrifty, safe: true}}
	return b
}

// newScored returns a best without pools or picks.
func newScored(tree *platform.Tree, objective Objective) *best {
	b := &best{objective: objective, cores: float64(tree.Cores)}
	for _, p := range tree.Processors {
		b.idle += powerOf[asleep] * p.Watts * float64(p.Cores)
	}
	return b
}

// Weigh returns the cost of a job in a pool: an estimate for a pool that has room only later, or whose lower bound is
// not below least; otherwise the exact cost.
func (b *best) Weigh(s *state, job int32, pool int, at, least float64) float64 {
	k := &b.pooled[pool]
	v := s.secondsAt(job, k.Speed)
	if b.objective == Energy {
		watts := k.Watts
		if at <= s.Now { // lower bound: the most economical cores, in awake processors
			watts = 0.75 * k.least
		}
		v = v*watts*float64(s.Jobs[job].Procs) + b.delay(job, s)*(at-s.Now+v)
	} else {
		v += at - s.Now
	}
	if at > s.Now || v >= least {
		return v
	}
	_, v = b.which(s, job, pool)
	return v
}

// Until subtracts the minimum energy of the job where the objective is energy, and converts the rest to time.
func (b *best) Until(s *state, job int32, weight float64) float64 {
	if b.objective == Energy {
		weight = weight/b.delay(job, s) - b.leastJoules(s, job)/b.delay(job, s)
	}
	return b.pooled.Until(s, job, weight)
}

// leastJoules returns a lower bound on the energy of a job, J.
func (b *best) leastJoules(s *state, job int32) float64 {
	least := inf
	for i := range b.pooled {
		k := &b.pooled[i]
		least = min(least, s.secondsAt(job, k.Speed)*k.Watts*float64(s.Jobs[job].Procs))
	}
	return least
}

// delay returns the power by which time is converted to energy: the job's share of the idle power, W.
func (b *best) delay(job int32, s *state) float64 {
	return b.idle * float64(s.Jobs[job].Procs) / b.cores
}

func (b *best) Take(s *state, job int32, pool int, into []int32) ([]int32, bool) {
	i, v := b.which(s, job, pool)
	if math.IsInf(v, 1) {
		return into, false
	}
	return b.picks[i].take(s, job, &b.pooled[pool], into)
}

// which returns the index and the cost of the cheapest pick; −1 and +∞ if the job does not fit.
func (b *best) which(s *state, job int32, pool int) (int, float64) {
	at, least, bound := -1, inf, 0.0
	if b.objective != Energy {
		bound = s.secondsAt(job, b.pooled[pool].Speed)
	}
	for i := range b.picks {
		if least <= bound {
			break // no other pick can be better
		}
		var ok bool
		b.where, ok = b.picks[i].take(s, job, &b.pooled[pool], b.where[:0])
		if ok {
			if v := b.cost(s, job, b.where); v < least {
				at, least = i, v
			}
			s.Machine.Undo(&s.Jobs[job], b.where)
		}
		s.dirty = s.dirty[:0]
	}
	return at, least
}

// cost returns the cost of cores that the machine has already assigned.
func (b *best) cost(s *state, job int32, where []int32) float64 {
	d := s.seconds(job, s.rate(job, where))
	harm := s.harm(b.objective, job)
	if b.objective != Energy {
		return d + harm
	}
	return d*s.extraPower(where) + harm + b.delay(job, s)*d
}

// extraPower returns the increase in power caused by these cores, which the machine has already assigned, W.
func (s *state) extraPower(where []int32) float64 {
	sum := 0.0
	for p, count := range byProcessor(s.Tree, where) {
		k := &s.Tree.Processors[p]
		if k.Cores-s.Machine.FreeOf(p) == int(count) {
			sum += s.Machine.Power(p, powerOf[Ready]) - powerOf[asleep]*k.Watts*float64(k.Cores)
		} else {
			sum += 0.75 * k.Watts * float64(count)
		}
	}
	return sum
}

// harm returns the loss of the jobs slowed by a job that has just taken its cores: for Finish, their additional core
// seconds per core of the job; for Slowdown, their additional seconds relative to their length, times the length of
// the job; for Energy, joules.
func (s *state) harm(objective Objective, job int32) float64 {
	sum := 0.0
	for i, other := range s.dirty {
		if slices.Contains(s.dirty[:i], other) {
			continue
		}
		r := &s.running[s.slot[other]]
		left := max(0, r.left-r.rate*(s.Now-r.last))
		more := left/s.rate(other, r.cores) - left/r.rate
		switch objective {
		case Finish:
			more *= float64(len(r.cores)) / float64(s.Jobs[job].Procs)
		case Slowdown:
			more *= s.length(job) / s.length(other)
		case Energy:
			more *= s.wattsOf(r.cores)
		}
		sum += more
	}
	return sum
}

// length returns the requested time of a job at the reference speed, s, at least 1.
func (s *state) length(job int32) float64 {
	return max(1, s.secondsAt(job, s.Tree.Reference))
}

// undo reverts the last placement.
func (s *state) undo(job int32, where []int32) {
	s.Machine.Undo(&s.Jobs[job], where)
	s.dirty = s.dirty[:0]
}
