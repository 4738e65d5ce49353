package recurring

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// profileSeconds is how long a power limit is held to measure it (Zeus, section 4.3: a few seconds suffice).
	profileSeconds = 5
	// profileNoise is the relative standard deviation of the cost an epoch as measured in such a stretch; over longer ones
	// it falls with the root of their length. It is an assumption: the tables hold means.
	profileNoise = 0.015
)

// profiler finds the power limit with the least cost an epoch, batch by batch, by measuring limits inside the runs: what
// an epoch costs at a limit does not depend on when it is measured.
type profiler struct {
	job *Job
	eta float64
	rng *rand.Rand
	// first is how many limits the first run of a batch size measures, and further how many each later one, until all are
	// known. Few at first, as most batch sizes will not be run again.
	first, further int
	known          map[int][]measured // by batch size, one a limit
}

// measured is the mean cost of an epoch over the seconds it was measured, 0 when it was not.
type measured struct{ cost, seconds float64 }

func newProfiler(j *Job, eta float64, first, further int, rng *rand.Rand) *profiler {
	return &profiler{job: j, eta: eta, rng: rng, first: first, further: further, known: map[int][]measured{}}
}

// profile returns the stretches that measuring takes inside the next run with a batch size and the limit for its rest.
func (p *profiler) profile(batch int) (stretches []Stretch, watts float64) {
	at, many := p.best(batch), p.further
	if p.known[batch] == nil {
		p.known[batch] = make([]measured, len(p.job.Limits))
		many = p.first
	}
	for range many {
		i := p.next(batch, at)
		if i < 0 {
			break
		}
		stretches = append(stretches, Stretch{p.job.Limits[i], profileSeconds})
		p.measure(batch, i, profileSeconds)
		at = p.best(batch)
	}
	return stretches, p.job.Limits[at]
}

// next is the unknown limit nearest to the given one, the higher of two; -1 when all are known.
func (p *profiler) next(batch, at int) int {
	for _, i := range outwards(len(p.job.Limits), at) {
		if p.known[batch][i].seconds == 0 {
			return i
		}
	}
	return -1
}

// ran takes note of how the run went: what it was too short to measure is not known, and its rest measured its own limit.
func (p *profiler) ran(a Attempt, r Run) {
	known, left := p.known[a.Batch], r.Seconds
	if known == nil {
		return
	}
	for _, s := range a.Profile {
		if left < s.Seconds {
			known[slices.Index(p.job.Limits, s.Watts)] = measured{}
		}
		left -= s.Seconds
	}
	p.measure(a.Batch, slices.Index(p.job.Limits, a.Watts), left)
}

// measure takes note of what an epoch costs at a limit, over some seconds.
func (p *profiler) measure(batch, limit int, seconds float64) {
	if !(seconds > 0) {
		return
	}
	perEpoch, joules := p.job.Epoch(Setting{batch, p.job.Limits[limit]})
	cost := p.job.Cost(p.eta, perEpoch, joules) * (1 + profileNoise*math.Sqrt(profileSeconds/seconds)*p.rng.NormFloat64())
	m := &p.known[batch][limit]
	m.cost += (cost - m.cost) * seconds / (m.seconds + seconds)
	m.seconds += seconds
}

// best is the position of the cheapest limit that was measured with a batch size; of the nearest batch size when none
// was, and the greatest before anything was.
func (p *profiler) best(batch int) int {
	from, nearest := 0, math.Inf(1)
	for _, b := range p.job.Batches {
		if d := math.Abs(math.Log2(float64(b) / float64(batch))); p.known[b] != nil && d < nearest {
			from, nearest = b, d
		}
	}
	best, least := len(p.job.Limits)-1, math.Inf(1)
	for i, m := range p.known[from] {
		if m.seconds > 0 && m.cost < least {
			best, least = i, m.cost
		}
	}
	return best
}

// outwards lists 0…n-1 by distance to start, the higher first.
func outwards(n, start int) []int {
	out := []int{start}
	for d := 1; len(out) < n; d++ {
		if start+d < n {
			out = append(out, start+d)
		}
		if start-d >= 0 {
			out = append(out, start-d)
		}
	}
	return out
}

// octaves is where batch sizes stand for a bandit whose neighbours tell of each other.
func octaves(batches []int) []float64 {
	out := make([]float64, len(batches))
	for i, b := range batches {
		out[i] = math.Log2(float64(b))
	}
	return out
}

func indexOf(batches []int, batch int) int { return slices.Index(batches, batch) }
