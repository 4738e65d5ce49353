package share

import (
	"slices"

	"trainopt/optimizer/schedule"
)

// gandiva divides the cluster equally. When it cannot hold all jobs, random pairs of equal size are co-located, and
// pairs with insufficient throughput are dissolved (Xiao et al., "Gandiva", OSDI 2018, as implemented by Gavel for
// comparison). O(jobs · types), and one draw per job without a partner.
type gandiva struct {
	random Random
	paired map[int]int // ID of the partner, in both directions
}

func newGandiva(o Options) schedule.Policy {
	return &gandiva{random: o.random(), paired: map[int]int{}}
}

// Traits returns those of Gavel's Gandiva_Packing.
func (*gandiva) Traits() schedule.Traits {
	return schedule.Traits{Name: "Gandiva_Packing", Packs: true, FixedOrder: true}
}

// Decide divides the cluster equally among the jobs, or among pairs and single jobs.
func (p *gandiva) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	index := make(map[int]int, len(s.Jobs)) // by ID
	asked := 0
	for i := range s.Jobs {
		index[s.Jobs[i].ID] = i
		asked += s.Jobs[i].GPUs
	}
	p.dissolve(s, index)
	if _, devices := freeDevices(s); asked <= devices {
		return isolated{}.Decide(s)
	}
	p.match(s)
	var who []fullShare
	for i := range s.Jobs {
		partner, ok := p.paired[s.Jobs[i].ID]
		switch {
		case !ok:
			who = append(who, fullShare{a: i, b: -1})
		case i < index[partner]:
			who = append(who, fullShare{a: i, b: index[partner]})
		}
	}
	return equalShares(s, who), nil
}

// State implements schedule.Stateful.
func (p *gandiva) State() []any { return []any{&p.paired} }

// dissolve breaks up pairs with an ended job, and those with a quality below 1. Gavel's code sums the relative
// throughputs over all device types, so 1 is a low threshold, and sets the sum to 0 if the pair does not fit on some
// type.
func (p *gandiva) dissolve(s *schedule.Snapshot, index map[int]int) {
	absent := map[int]int{}
	keepAbsent(s, absent, p.paired)
	var broken []int
	for id, partner := range p.paired {
		a, ok1 := index[id]
		b, ok2 := index[partner]
		_, away1 := absent[id]
		_, away2 := absent[partner]
		if away1 && away2 {
			continue
		}
		if !ok1 || !ok2 || pairQuality(s, min(a, b), max(a, b)) < 1 {
			broken = append(broken, id)
		}
	}
	for _, id := range broken {
		delete(p.paired, id)
	}
}

// pairQuality returns the sum of relative throughputs over all device types, or 0 if the pair does not run on some
// type.
func pairQuality(s *schedule.Snapshot, a, b int) float64 {
	sum := 0.0
	for d := range s.Devices {
		ra, rb := s.Pair(a, b, d)
		if ra <= 0 || rb <= 0 {
			return 0
		}
		sum += ra / s.Jobs[a].Rate[d]
		sum += rb / s.Jobs[b].Rate[d]
	}
	return sum
}

// match draws two jobs without a partner as many times as there are such jobs, and pairs them if their sizes are
// equal.
func (p *gandiva) match(s *schedule.Snapshot) {
	var alone []int
	for i := range s.Jobs {
		if _, ok := p.paired[s.Jobs[i].ID]; !ok {
			alone = append(alone, i)
		}
	}
	for range len(alone) {
		if len(alone) < 2 {
			return
		}
		one, other := drawTwo(p.random, alone)
		a, b := &s.Jobs[one], &s.Jobs[other]
		if a.GPUs != b.GPUs {
			continue
		}
		p.paired[a.ID], p.paired[b.ID] = b.ID, a.ID
		alone = slices.DeleteFunc(alone, func(i int) bool { return i == one || i == other })
	}
}

// drawTwo draws two elements of a list in the way of random.sample of Python, which Gavel uses: a short list is copied,
// and its last element takes the place of the first one drawn.
func drawTwo(random Random, list []int) (a, b int) {
	n := len(list)
	i := random.IntN(n)
	if n <= 21 {
		k := random.IntN(n - 1)
		if k == i {
			k = n - 1
		}
		return list[i], list[k]
	}
	k := random.IntN(n)
	for k == i {
		k = random.IntN(n)
	}
	return list[i], list[k]
}
