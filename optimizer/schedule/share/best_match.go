package share

import (
	"math"

	"trainopt/optimizer/schedule"
)

// bestMatch assigns whole devices so that the total normalized throughput is high: each job's throughput is relative
// to that on its best device type and counts once per device. A device is assigned where it helps most compared with
// the alternatives, so a job that is nearly as fast elsewhere yields to one that is not. This is the assignment of
// Gavel's maximum throughput policy with normalized rates, restricted to whole devices.
//
// It uses the throughputs of single jobs. With shortest it also uses the remaining steps: when devices are scarce,
// the jobs with the longest remaining time wait, as under shortest remaining time first, which minimizes the mean
// completion time on one device (Schrage, "A proof of the optimality of the shortest remaining processing time
// discipline", 1968). That order alone, with 1/(time left) as the value of a job, would assign good types to short
// jobs that gain little from them, and starves long jobs near saturation.
//
// With shortest, restarts are charged: on other devices than it holds a running job has its mean rate including the
// restart, and its remaining time counts less the loss of a preemption, so that a shorter one takes its devices only if
// that gains more time than it costs.
//
// O(jobs) for each exchange of the assignment.
type bestMatch struct {
	shortest bool
	assigner *assigner // reused between decisions
	kept     *kept
}

// kept is the assignment of a policy that decides by updates.
type kept struct{ *matching }

func newBestMatch(shortest bool) func(Options) schedule.Policy {
	return func(Options) schedule.Policy { return bestMatch{shortest, &assigner{}, &kept{}} }
}

// Traits sets OnlyShares: the assignment is complete.
func (p bestMatch) Traits() schedule.Traits {
	if p.shortest {
		return schedule.Traits{Name: "SRTF", FixedOrder: true, OnlyShares: true}
	}
	return schedule.Traits{Name: "BestMatch", FixedOrder: true, OnlyShares: true}
}

// Weights of waiting in bestMatch: a remaining time shorter by a factor of e counts like a tenth of the best rate. No
// job takes longer than longestRest, so values are positive.
const (
	shortnessWeight = 0.1
	longestRest     = 1e9 // seconds
)

// Decide assigns whole devices.
func (p bestMatch) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	p.assign(s)
	return p.assigner.shares(s), nil
}

// assign computes the values of all jobs on all types and runs the assigner.
func (p bestMatch) assign(s *schedule.Snapshot) {
	a := p.assigner
	a.reset(s)
	with := s
	if p.shortest {
		with = withRestarts(s)
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		best := bestRate(s, j)
		short := 0.0
		if p.shortest && best > 0 {
			remaining := j.Remaining
			if j.Held > 0 {
				remaining = afterLoss(s.Preemption.Of(j.Job), remaining, j.Rate[j.Device])
			}
			short = shortness(best, remaining)
		}
		for d, r := range with.Jobs[i].Rate {
			if r > 0 && s.Devices[d].Count >= j.GPUs {
				a.value[i*a.types+d] = float64(j.GPUs) * (r/best + short)
			}
		}
	}
	a.run()
}

// shortness returns the value of a remaining number of steps relative to the best rate.
func shortness(best, remaining float64) float64 {
	return shortnessWeight * math.Log(max(1, longestRest*best/remaining))
}

// afterLoss returns the remaining steps of a running job less those lost by a preemption, but those of a second remain.
func afterLoss(p schedule.Preemption, remaining, rate float64) float64 {
	return max(remaining-p.Seconds*rate-p.Steps, min(remaining, rate))
}

// Update implements schedule.Incremental for jobs of one size.
func (p bestMatch) Update(c *schedule.Changes) (moves []schedule.Place, ok bool) {
	if p.kept.matching == nil {
		p.kept.matching = newMatching(p, c.Devices)
	}
	if moves, ok = p.kept.update(c); !ok {
		p.kept.matching = nil
	}
	return moves, ok
}

// MaxLoss implements schedule.Certified for decisions by Update.
func (p bestMatch) MaxLoss() float64 {
	if p.kept == nil || p.kept.matching == nil {
		return math.NaN()
	}
	return p.kept.maxLoss()
}

// maxLoss returns the most by which the value of the matching can be below the optimum, relative to it. For any
// nonnegative prices of devices, the devices at these prices and the largest gain of every job above them are an upper
// bound (linear programming duality). The price of a type is the gain from one more device of it, along any chain of
// moves: with an optimal matching the bound is its value. O(types³ · kinds + jobs · (types + log jobs)).
func (m *matching) maxLoss() float64 {
	m.findMovers()
	price := m.prices()
	value, bound := 0.0, 0.0
	for d, p := range price {
		bound += p * float64(m.devices[d].Count)
	}
	for _, j := range m.jobs {
		if j == nil {
			continue
		}
		k := m.kinds[j.kind]
		own := m.shortness(k, j)
		if j.at < m.types {
			value += k.relative[j.at] + own
		}
		most := 0.0
		for d, r := range k.relative {
			if r > 0 {
				most = max(most, r+own-price[d]*float64(m.size))
			}
		}
		bound += most
	}
	if bound == 0 {
		return 0
	}
	return max(0, 1-value/bound)
}

// prices returns the gain per device from devices for one more job on each type; 0 where devices are free.
func (m *matching) prices() []float64 {
	n := m.types + 1
	gain := make([]float64, n) // from one more place on a type, by chains of moves into it
	for range n {
		for to := range m.types {
			if m.room[to] >= m.size {
				continue
			}
			for from := range n {
				if b := m.best[from*n+to]; from != to && b.job >= 0 {
					gain[to] = max(gain[to], b.gain+gain[from])
				}
			}
		}
	}
	price := gain[:m.types]
	for d := range price {
		price[d] /= float64(m.size)
	}
	return price
}
