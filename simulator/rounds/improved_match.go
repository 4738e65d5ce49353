package rounds

import "math"

// bestMatch gives jobs whole devices so that together they get most done, each measured by what it would get done on the type that
// is best for it, and counted once per device: a device goes to whom it helps most compared with the alternatives, so that
// a job that is nearly as fast elsewhere makes room for one that is not. This is the assignment that Gavel's maximum
// throughput with normalised rates would give, with whole devices.
//
// It knows rates alone; with shortest it also knows how many steps are left, and when there are too few devices those with the
// longest rest wait, as shortest remaining time first would have it, which has the least mean completion time on one device (Schrage,
// "A proof of the optimality of the shortest remaining processing time discipline", 1968). That order alone, with 1/(time left) as the
// value of a job, gives good types to short jobs that would hardly miss them, and near saturation it starves long jobs.
//
// O(jobs) for each exchange of the assignment.
type bestMatch struct {
	shortest bool
	assigner *assigner // its memory
}

var _ Described = bestMatch{}

func newBestMatch(PolicyOptions) Policy { return bestMatch{assigner: &assigner{}} }

func newSRTF(PolicyOptions) Policy { return bestMatch{shortest: true, assigner: &assigner{}} }

// Traits say that all is decided here.
func (p bestMatch) Traits() Traits {
	if p.shortest {
		return Traits{Name: "SRTF", FixedOrder: true, OnlyShares: true}
	}
	return Traits{Name: "BestMatch", FixedOrder: true, OnlyShares: true}
}

// Weights of waiting in bestMatch: e times less time left counts like running faster by a tenth of the best rate. No job takes longer
// than longestRest, so that values are above 0.
const (
	shortnessWeight = 0.1
	longestRest     = 1e9 // seconds
)

// Decide assigns whole devices.
func (p bestMatch) Decide(s *Snapshot) (Allocation, error) {
	p.assign(s)
	return p.assigner.shares(s), nil
}

func (p bestMatch) assign(s *Snapshot) {
	a := p.assigner
	a.reset(s)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		best := j.best(s)
		short := 0.0
		if p.shortest && best > 0 {
			short = shortnessWeight * math.Log(max(1, longestRest*best/j.Remaining))
		}
		for d, r := range j.Rate {
			if r > 0 && s.Devices[d].Count >= j.GPUs {
				a.value[i*a.types+d] = float64(j.GPUs) * (r/best + short)
			}
		}
	}
	a.run()
}

// best is the highest rate of a job alone on a type with enough devices; 0 when it runs nowhere.
func (j *JobState) best(s *Snapshot) float64 {
	most := 0.0
	for d, r := range j.Rate {
		if s.Devices[d].Count >= j.GPUs {
			most = max(most, r)
		}
	}
	return most
}
