package share

import (
	"math"

	"trainopt/optimizer/schedule"
)

// bestMatchPacked extends bestMatch by co-location when devices are scarce. While every job has devices of its own,
// it decides like bestMatch. Otherwise it searches for the jobs and pairs on whole devices with the largest total
// value: the value of a job alone on a type is its throughput relative to its best type, plus a small preference; a
// co-located job has this value times its relative rate. A job therefore joins another if the pair is worth more than
// the other job alone, that is, if the other loses less than the job gains.
//
// The highest current throughput is not the highest in the long run: kinds of jobs that share badly would wait and
// accumulate until no good pairs are left. The throughput of a job is therefore weighted by the number of jobs of its
// kind, as in MaxWeight scheduling, which is stable under any load that can be sustained (Tassiulas and Ephremides,
// "Stability properties of constrained queueing systems", 1992). Only a root of that number is used, since long
// queues are not an objective. Without the weight, the waiting jobs in Gavel's largest simulation request more than
// twelve times the devices at 7.6 jobs an hour.
//
// The preference is for jobs with the least service so far (as if always on their best type). This is fair and, since
// the lengths of training jobs differ by orders of magnitude, favours jobs that are likely to end soon (Nuyens and
// Wierman, "The foreground-background queue: a survey", 2008). With shortest, it is for jobs with the shortest
// remaining time. A strong preference makes short jobs take types and partners that others would use better, and
// starves long jobs.
//
// It uses throughputs, including those of pairs or estimates of them; with shortest also the remaining steps. The
// pairing is a local search from the previous decision, see pairing: O(jobs · kinds of job) for each change.
type bestMatchPacked struct {
	shortest bool
	pairing  *pairing // reused between decisions
}

func newBestMatchPacked(shortest bool) func(Options) schedule.Policy {
	return func(Options) schedule.Policy { return bestMatchPacked{shortest, newPairing()} }
}

// Traits sets OnlyShares and Packs.
func (p bestMatchPacked) Traits() schedule.Traits {
	if p.shortest {
		return schedule.Traits{Name: "SRTF_Packing", Packs: true, FixedOrder: true, OnlyShares: true}
	}
	return schedule.Traits{Name: "BestMatch_Packing", Packs: true, FixedOrder: true, OnlyShares: true}
}

const (
	fewerCounts   = 0.025  // weight of e times less service, relative to the best rate
	shorterCounts = 0.05   // weight of an e times shorter remaining time
	crowdCounts   = 1. / 2 // exponent of the number of jobs of a kind
	crowdShortest = 1. / 3 // the same with known remaining times
	longTime      = 1e6    // seconds above which the preference is 0
	newcomer      = 3600.  // seconds added to the service of each job, so that new and almost new jobs are equal
	nearEnd       = 60.    // seconds added to remaining times, so that nearly complete jobs are equal
)

// Decide assigns whole devices to jobs and pairs.
func (p bestMatchPacked) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	k := p.pairing
	k.reset(s)
	if !k.alone(bestMatch{shortest: p.shortest, assigner: &k.assigner}) {
		for i := range s.Jobs {
			p.computeValues(i)
		}
		k.pair()
	}
	k.remember()
	return fullShares(s, k.units()), nil
}

// State implements schedule.Stateful.
func (p bestMatchPacked) State() []any { return []any{&p.pairing.places} }

// computeValues computes the value of a job alone on each type.
func (p bestMatchPacked) computeValues(i int) {
	k := p.pairing
	j, best := &k.Jobs[i], k.best[i]
	if best <= 0 {
		return
	}
	counts, crowd, seconds := fewerCounts, crowdCounts, (j.Steps-j.Remaining)/best+newcomer
	if p.shortest {
		counts, crowd, seconds = shorterCounts, crowdShortest, j.Remaining/best+nearEnd
	}
	preferred := counts * math.Log(max(1, longTime/seconds))
	crowd = math.Pow(k.crowd[k.group[i]], crowd)
	for d, r := range j.Rate {
		if r > 0 && k.Devices[d].Count >= j.GPUs {
			k.value[i*k.types+d] = float64(j.GPUs) * (crowd*r/best + preferred)
		}
	}
}
