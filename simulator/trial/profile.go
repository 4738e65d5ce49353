package trial

import (
	"math"
	"math/rand/v2"
	"slices"
)

const (
	// profileSeconds is the time for which a power limit is held to measure it (Zeus, section 4.3: a few seconds
	// suffice).
	profileSeconds = 5
	// profileNoise is the relative standard deviation of the cost per epoch as measured in such a stretch; over longer
	// stretches it decreases with the square root of their length. It is an assumption: the tables contain means.
	profileNoise = 0.015
)

// profiler finds the power limit with the lowest cost per epoch for each batch size by measuring limits inside the
// runs: the cost of an epoch at a limit does not depend on the time of its measurement.
type profiler struct {
	job *RecurringJob
	eta float64
	rng *rand.Rand
	// first is the number of limits measured in the first run of a batch size, further the number in each later run
	// until all are known. Few are measured at first, because most batch sizes are not run again.
	first, further int
	known          map[int][]measured // by batch size, then by index of the limit
}

// measured is the mean cost of an epoch over the seconds of its measurement; seconds are 0 if not measured.
type measured struct{ cost, seconds float64 }

// newProfiler returns a profiler without measurements.
func newProfiler(j *RecurringJob, eta float64, first, further int, rng *rand.Rand) *profiler {
	return &profiler{job: j, eta: eta, rng: rng, first: first, further: further, known: map[int][]measured{}}
}

// profile returns the measuring stretches of the next run with a batch size and the power limit for the rest of the
// run. After the planned number it continues until both neighbours of the best limit are measured: the cost has one
// minimum over limits.
func (p *profiler) profile(batch int) (stretches []stretch, watts float64) {
	at, many := p.best(batch), p.further
	if p.known[batch] == nil {
		p.known[batch] = make([]measured, len(p.job.Limits))
		many = p.first
	}
	for n := 0; ; n++ {
		i := p.next(batch, at)
		if i < 0 || n >= many && max(i-at, at-i) > 1 {
			break
		}
		stretches = append(stretches, stretch{p.job.Limits[i], profileSeconds})
		p.measure(batch, i, profileSeconds)
		at = p.best(batch)
	}
	return stretches, p.job.Limits[at]
}

// next returns the index of the limit nearest to the given one that was not measured so far, the higher of two, or -1 if
// none remains.
func (p *profiler) next(batch, at int) int {
	for _, i := range indicesByDistance(len(p.job.Limits), at) {
		if p.known[batch][i].seconds == 0 && p.job.measured(jobSetting{batch, p.job.Limits[i]}) {
			return i
		}
	}
	return -1
}

// ran records a run: limits whose stretch the run did not complete become unmeasured again, and the rest of the run
// counts as a measurement of its own limit.
func (p *profiler) recordRun(a attempt, r recurringRun) {
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

// measure records the cost per epoch at a limit over the given seconds.
func (p *profiler) measure(batch, limit int, seconds float64) {
	if !(seconds > 0) {
		return
	}
	perEpoch, joules := p.job.Epoch(jobSetting{batch, p.job.Limits[limit]})
	cost := p.job.Cost(p.eta, perEpoch, joules) * (1 + profileNoise*math.Sqrt(profileSeconds/seconds)*p.rng.NormFloat64())
	m := &p.known[batch][limit]
	m.cost += (cost - m.cost) * seconds / (m.seconds + seconds)
	m.seconds += seconds
}

// best returns the index of the cheapest measured limit of a batch size. Without measurements it uses the nearest
// batch size that has some, and without any the highest limit; of a hole in the table, the nearest limit beside it.
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
	near := indicesByDistance(len(p.job.Limits), best)
	return near[slices.IndexFunc(near, func(i int) bool { return p.job.measured(jobSetting{batch, p.job.Limits[i]}) })]
}

// indicesByDistance lists 0…n-1 by distance from start, the higher index first.
func indicesByDistance(n, start int) []int {
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

// log2Positions returns the positions of the batch sizes, in powers of two, for a bandit that shares information between
// neighbours.
func log2Positions(batches []int) []float64 {
	out := make([]float64, len(batches))
	for i, b := range batches {
		out[i] = math.Log2(float64(b))
	}
	return out
}
