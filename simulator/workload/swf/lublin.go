package swf

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/optimizer/schedule/order"
)

// Lublin generates workloads by the model of Lublin and Feitelson ("The workload on parallel supercomputers: modeling
// the characteristics of rigid jobs", JPDC 63(11), 2003), with its authors' parameters for all job types together.
// Job sizes follow a two-stage uniform distribution of their logarithms, most of them powers of two; run times follow
// a hyper-gamma distribution of their logarithms and grow with the size of the job; logarithms of interarrival times
// follow a gamma distribution and are stretched by the hour of the day. The model has no estimates; see Overestimate.
//
// The random numbers differ from those of the authors' C code. The zero value of each field except Jobs is a useful
// default.
type Lublin struct {
	Jobs int
	// Procs is the size of the machine, at least 2; 0 means 128, as in the model.
	Procs int
	Seed  uint64
	// Load scales the interarrival times to an offered load of this fraction of the machine, for example 0.7; 0 means
	// no scaling.
	Load float64
	// Overestimate is the largest ratio of requested time to run time. The ratio is drawn uniformly from 1 to
	// Overestimate, and the request is rounded up to a customary value (1, 5, 15, 30 minutes, 1, 2, 4, 8, 12, 18 h,
	// or whole days). 0 means exact requests.
	Overestimate float64
}

// Parameters of the model, as in the authors' program. Gamma distributions have shape A and scale B.
const (
	serialShare  = 0.244
	powerShare   = 0.576 // powers of two, share
	lowSize      = 0.8   // smallest parallel size, log2
	belowTop     = 2.5   // distance of the middle size from the machine's, log2
	lowerShare   = 0.86  // parallel jobs below the middle size, share
	bucketLength = 1800  // s
	buckets      = 48    // number per day
	dayBegins    = 10    // bucket at which the day of the model begins
	longestRun   = 12    // ln s
	longestGap   = 13    // ln s

	shortA, shortB         = 4.2, 0.94
	longA, longB           = 312.0, 0.03
	shortSlope, shortShare = -0.0054, 0.78
	gapA, gapB             = 10.2303 * 1.0225, 0.4871
	dayA, dayB             = 8.1737, 3.9631
)

// maxGenerated bounds the number of generated jobs, and thereby memory.
const maxGenerated = 1 << 26

// Validate returns all problems of the settings joined.
func (l Lublin) Validate() error {
	var errs []error
	if l.Jobs < 1 || l.Jobs > maxGenerated {
		errs = append(errs, fmt.Errorf("%d jobs: want 1 to %d", l.Jobs, maxGenerated))
	}
	if l.Procs != 0 && (l.Procs < 2 || l.Procs > 1<<30) {
		errs = append(errs, fmt.Errorf("a machine of %d processors: want 2 to %d, or 0 for 128", l.Procs, 1<<30))
	}
	if !(l.Load >= 0 && l.Load <= 100) {
		errs = append(errs, fmt.Errorf("load %v: want 0 (the model's) to 100", l.Load))
	}
	if l.Overestimate != 0 && !(l.Overestimate >= 1 && l.Overestimate <= 1000) {
		errs = append(errs, fmt.Errorf("overestimate %v: want 0 (none) or 1 to 1000", l.Overestimate))
	}
	return errors.Join(errs...)
}

// Generate draws the jobs in order of submission. Equal settings produce equal jobs: arrivals, sizes, run times and
// requests use separate random streams of the seed. With a Load, submissions are finally stretched so that the work
// offered over the whole span equals it.
func (l Lublin) Generate() ([]order.Job, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("draw a workload: %w", err)
	}
	procs := cmp.Or(l.Procs, 128)
	arrivals := newArrivals(l.Seed)
	sizes, runs, requests := stream(l.Seed, 2), stream(l.Seed, 3), rand.New(stream(l.Seed, 4))
	choose := rand.New(sizes)
	jobs := make([]order.Job, l.Jobs)
	work := 0.0
	for i := range jobs {
		j := &jobs[i]
		*j = order.Job{ID: i + 1, User: -1, Group: -1, Executable: -1, Deadline: math.NaN()}
		j.Submit = math.Floor(arrivals.next())
		j.Procs = size(choose, procs)
		j.Run = runTime(runs, j.Procs)
		j.Request = j.Run
		if l.Overestimate > 0 {
			j.Request = canonical(j.Run * (1 + requests.Float64()*(l.Overestimate-1)))
		}
		work += j.Run * float64(j.Procs)
	}
	if span := jobs[len(jobs)-1].Submit - jobs[0].Submit; l.Load > 0 && span > 0 {
		stretch := work / (span * float64(procs)) / l.Load
		for i := range jobs {
			jobs[i].Submit = math.Floor(jobs[i].Submit * stretch)
		}
	}
	return jobs, nil
}

func stream(seed, n uint64) rand.Source { return rand.NewPCG(seed, n) }

// size draws a number of processors: one, a power of two, or, for the remaining share, any number up to procs.
func size(r *rand.Rand, procs int) int {
	kind := r.Float64()
	if kind <= serialShare {
		return 1
	}
	// Most sizes are drawn below the middle of the logarithmic range, the others between it and the machine's size.
	top := math.Log2(float64(procs))
	middle := math.Max(top-belowTop, lowSize)
	low, high := lowSize, middle
	if r.Float64() > lowerShare {
		low, high = middle, math.Max(top, middle)
	}
	log := low + r.Float64()*(high-low)
	if kind <= serialShare+powerShare {
		log = math.Round(log)
	}
	return min(int(math.Round(math.Exp2(log))), procs)
}

// runTime draws a run time of 1 s to e¹² s (45 hours).
func runTime(src rand.Source, procs int) float64 {
	p := min(max(shortSlope*float64(procs)+shortShare, 0), 1)
	for {
		a, b := longA, longB
		if rand.New(src).Float64() <= p {
			a, b = shortA, shortB
		}
		if log := gamma(src, a, b); log <= longestRun {
			return math.Max(1, math.Floor(math.Exp(log)))
		}
	}
}

// gamma draws from a gamma distribution with the given shape and scale.
func gamma(src rand.Source, shape, scale float64) float64 {
	return distuv.Gamma{Alpha: shape, Beta: 1 / scale, Src: src}.Rand()
}

// arrivals draws arrival times. An interarrival time is drawn in points and spent half hour by half hour; a half hour
// of greater weight consumes more points.
type arrivals struct {
	src    rand.Source
	weight [buckets]float64 // mean 1
	bucket int              // half hours since midnight of the first day
	paid   float64          // fraction of the current half hour that has passed
}

func newArrivals(seed uint64) *arrivals {
	a := &arrivals{src: stream(seed, 1)}
	sum := 0.0
	// The weight of a half hour is its probability under the daily arrival cycle, a gamma distribution, normalised to
	// mean 1 below.
	for i := range buckets {
		at := float64(i + dayBegins + 1)
		w := mathext.GammaIncReg(dayA, (at+0.5)/dayB) - mathext.GammaIncReg(dayA, (at-0.5)/dayB)
		a.weight[(i+dayBegins)%buckets] = w
		sum += w
	}
	for i := range a.weight {
		a.weight[i] *= buckets / sum
	}
	return a
}

// next returns the submission time of the next job, s after midnight of the first day.
func (a *arrivals) next() float64 {
	log := longestGap + 1.0
	for log > longestGap {
		log = gamma(a.src, gapA, gapB)
	}
	// A point is half an hour at mean weight; the points already spent in the current half hour are added back.
	points := math.Exp(log)/bucketLength + a.paid*a.weight[a.bucket%buckets]
	for points > a.weight[a.bucket%buckets] {
		points -= a.weight[a.bucket%buckets]
		a.bucket++
	}
	a.paid = points / a.weight[a.bucket%buckets]
	return (float64(a.bucket) + a.paid) * bucketLength
}

// canonical rounds a requested time, s, up to a customary request.
func canonical(s float64) float64 {
	const minute, hour = 60, 3600
	for _, r := range []float64{
		minute, 5 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 4 * hour, 8 * hour, 12 * hour, 18 * hour, 24 * hour, 48 * hour,
	} {
		if s <= r {
			return r
		}
	}
	return 24 * hour * math.Ceil(s/(24*hour))
}
