package plan

import (
	"slices"

	"trainopt/resources"
	"trainopt/sla"
)

// likelyChance is the minimum chance of an allocation that is chosen on the strength of a recourse.
const likelyChance = 0.5

// worthTrying is the relative improvement that justifies an allocation which may have to be left again.
const worthTrying = 0.1

// recourse returns, for an allocation i that meets the SLA with less than 95 % probability, the position of another
// one that still meets it after a trial at i of a few units of work and a restart. With a recourse, i may be tried:
// if it is as slow or expensive as feared, the SLA can still be met. recourse returns -1 when no such allocation
// exists, the job cannot be resumed, or too few moves are left. O(candidates × draws).
func (b *evaluation) recourse(i int, among []int) int {
	f, o := b.forecast, b.outcomes[i]
	s := f.s
	if f.perUnit || !s.Resumable || o.Feasible || o.Chance < likelyChance || !finite(o.Candidate) {
		return -1
	}
	if i != b.current && movesLeft(s, b.segments()) < 2 { // one move to i, one away from it
		return -1
	}
	for _, limit := range o.Breaks { // only excesses of time and money can be averted
		if limit != sla.Time && limit != sla.Cost {
			return -1
		}
	}
	left := max(0, s.Total-s.Done)
	trial := min(left, max(6, 0.06*s.Total))
	hourly := float64(s.Rates.Hourly(o.Allocation))
	best, most := -1, feasibleProbability
	unit := s.Model.Draws(o.Allocation)
	for _, j := range among {
		if j == i || !b.cs[j].Feasible {
			continue
		}
		to := b.cs[j].Allocation
		rest, dearness := s.Model.Draws(to), float64(s.Rates.Hourly(to))
		kept := 0.0
		for k, u := range unit {
			first := trial * u
			if d := f.delay(o.Allocation); d != nil {
				first += d[k]
			}
			then := f.restart[k] + (left-trial)*rest[k]
			repeated, away := f.interrupted(k, first+then, rest[k])
			then += repeated
			seconds := s.Elapsed.Seconds() + first + then + away
			usd := float64(s.Spent) + (first*hourly+then*dearness)/3600
			t, c := lessReserve(s.Spec.TimeMax.Seconds(), s.Reserve.Seconds()), lessReserve(s.Spec.CostMaxUSD, s.Reserve.Hours()*dearness)
			kept += asChance((t <= 0 || seconds <= t) && (c <= 0 || usd <= c)) / float64(len(unit))
		}
		if kept >= most {
			best, most = j, kept
		}
	}
	return best
}

// choose returns the choice of the preference among the candidates that meet the SLA, -1 when none does. A candidate
// that is better by worthTrying and has a recourse takes precedence; back is then the recourse, otherwise -1.
func (b *evaluation) choose() (chosen, back int) {
	safe := b.eligible()
	chosen = choose(b.cs, safe, b.preference, b.current)
	if chosen < 0 {
		return -1, -1
	}
	edge := frontAmong(b.cs, safe)
	ways := make(map[int]int)
	among := slices.Clone(safe)
	all := b.segments()
	for i := range b.cs {
		if b.cs[i].Slower || measuredWorse(b.forecast.s, all, b.cs[i].Allocation) {
			continue
		}
		if j := b.recourse(i, edge); j >= 0 {
			ways[i] = j
			among = append(among, i)
		}
	}
	tried := choose(b.cs, among, b.preference, b.current)
	if j, ok := ways[tried]; ok && loss(objectives(b.cs[chosen]), objectives(b.cs[tried]), b.preference) >= worthTrying {
		return tried, j
	}
	return chosen, -1
}

// delay returns the time to reach an allocation, by draw; nil for none.
func (f *forecast) delay(a resources.Allocation) []float64 {
	switch f.moveTo(a) {
	case begin, again:
		return f.startup
	case restart:
		return f.restart
	}
	return nil
}
