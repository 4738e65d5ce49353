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
// O(jobs) for each exchange of the assignment.
type bestMatch struct {
	shortest bool
	assigner *assigner // reused between decisions
	kept     *kept
}

// kept is the assignment of a policy that decides by updates.
type kept struct{ *matching }

func newBestMatch(Options) schedule.Policy { return bestMatch{assigner: &assigner{}, kept: &kept{}} }

func newSRTF(Options) schedule.Policy {
	return bestMatch{shortest: true, assigner: &assigner{}, kept: &kept{}}
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
	for i := range s.Jobs {
		j := &s.Jobs[i]
		best := bestRate(s, j)
		short := 0.0
		if p.shortest && best > 0 {
			short = shortness(best, j.Remaining)
		}
		for d, r := range j.Rate {
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
