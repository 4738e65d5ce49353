package rounds

import "math"

// bestMatchPacked is bestMatch in which jobs may share devices once somebody has to wait. While all have devices of their own it
// decides as bestMatch does. Else it looks for the jobs and pairs, on whole devices, that are worth most: a job alone on a
// type is worth what it gets done there compared with the type that is best for it, and a little more the more it is to be preferred;
// beside another it is worth the part of that at which it is slowed down. So a job joins another when both together are worth more
// than the one was: when the other loses less than it gains.
//
// What gets most done now is not what gets most done in the long run: kinds of jobs that share badly would wait, and gather, until no
// good pairs are left. So what a job gets done is worth more the more jobs of its kind there are, as in MaxWeight scheduling,
// which keeps up with any load that can be kept up with (Tassiulas and Ephremides, "Stability properties of constrained queueing
// systems", 1992), but by a root only: long queues are not what counts. Without it, who waits in Gavel's largest simulation asks for more
// than twelve times the devices at 7.6 jobs an hour.
//
// A job is worth a little more the more it is to be preferred. To be preferred is who has had least so far (as if always on its best
// type), which is fair and, since the lengths of training jobs differ by orders of magnitude, is who is likely to end soon (Nuyens
// and Wierman, "The foreground-background queue: a survey", 2008); with shortest, whose rest is shortest. A strong preference has short jobs
// take types and partners that others would use better, and long ones wait for ever.
//
// It knows rates, also of pairs, or estimates of these; with shortest also how many steps are left. The pairing is a search from what
// was decided last, see pairing: O(jobs · kinds of job) for each change.
type bestMatchPacked struct {
	shortest bool
	pairing  *pairing // its memory
}

var _ interface {
	Described
	informed
} = bestMatchPacked{}

func newBestMatchPacked(PolicyOptions) Policy { return bestMatchPacked{pairing: newPairing()} }

func newSRTFPacked(PolicyOptions) Policy {
	return bestMatchPacked{shortest: true, pairing: newPairing()}
}

// Traits say that all is decided here, and that pairs may share devices.
func (p bestMatchPacked) Traits() Traits {
	if p.shortest {
		return Traits{Name: "SRTF_Packing", Packs: true, FixedOrder: true, OnlyShares: true}
	}
	return Traits{Name: "BestMatch_Packing", Packs: true, FixedOrder: true, OnlyShares: true}
}

// informed is a policy that the mechanism tells, before the first decision, whether rates of pairs depend on nothing but the kinds of
// both jobs, as measured ones do and estimates do not, and what a job loses when it goes on after a pause or elsewhere.
type informed interface {
	inform(byKind bool, lost Preemption)
}

func (p bestMatchPacked) inform(byKind bool, lost Preemption) {
	p.pairing.byKind, p.pairing.lost = byKind, lost
}

const (
	fewerCounts   = 0.025  // what e times less time so far counts, in parts of the best rate
	shorterCounts = 0.05   // what an e times shorter rest counts
	crowdCounts   = 1. / 2 // power of the number of jobs of a kind
	crowdShortest = 1. / 3 // the same when it is known who is short
	longTime      = 1e6    // seconds from which on nothing is preferred
	newcomer      = 3600.  // seconds that each job counts as having had already: who is new, and who nearly, are alike
	nearEnd       = 60.    // seconds of rest below which jobs are alike
)

// Decide assigns whole devices, to jobs and pairs.
func (p bestMatchPacked) Decide(s *Snapshot) (Allocation, error) {
	k := p.pairing
	k.reset(s)
	if !k.alone(bestMatch{shortest: p.shortest, assigner: &k.assigner}) {
		for i := range s.Jobs {
			p.appraise(i)
		}
		k.pair()
	}
	k.remember()
	return wholeShares(s, k.units()), nil
}

// appraise says what a job is worth alone.
func (p bestMatchPacked) appraise(i int) {
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
