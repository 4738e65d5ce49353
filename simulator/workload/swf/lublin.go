package swf

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/optimizer/schedule/order"
)

// Lublin draws workloads by the model of Lublin and Feitelson ("The workload on parallel supercomputers: modeling the
// characteristics of rigid jobs", JPDC 63(11), 2003) with the parameters that its authors give for jobs of all types together:
// sizes by a two-stage uniform distribution of their logarithms, most of them powers of two; run times by a hyper-gamma
// distribution of their logarithms, the longer the larger the job; arrivals by a gamma distribution of the logarithms of the times
// between them, stretched by the hour of the day. The model has no estimates; see Overestimate.
//
// The draws are this program's, not those of the authors' C code. Every field but Jobs has a useful zero value.
type Lublin struct {
	Jobs int
	// Procs is the size of the machine, 2 at least; 0 is 128, the model's.
	Procs int
	Seed  uint64
	// Load changes the times between arrivals so that jobs offer about this share of the machine, 0.7 say; 0 leaves them.
	Load float64
	// Overestimate is the most by which a request is longer than the run time: it is drawn between 1 and so many times the run time
	// and rounded up to what people ask for (1, 5, 15, 30 minutes, 1, 2, 4, 8, 12, 18 h, 1, 2 days). 0 is none: requests are exact.
	Overestimate float64
}

// Parameters of the model, as in the program of its authors. Gamma distributions are by shape A and scale B.
const (
	serialShare  = 0.244
	powerShare   = 0.576 // of two
	lowSize      = 0.8   // of parallel jobs, log2
	belowTop     = 2.5   // of the middle of sizes under the machine's, log2
	lowerShare   = 0.86  // of parallel jobs below the middle
	bucketLength = 1800  // s
	buckets      = 48    // of a day
	dayBegins    = 10    // bucket at which the model's day does
	longestRun   = 12    // ln s
	longestGap   = 13    // ln s

	shortA, shortB         = 4.2, 0.94
	longA, longB           = 312.0, 0.03
	shortSlope, shortShare = -0.0054, 0.78
	gapA, gapB             = 10.2303 * 1.0225, 0.4871
	dayA, dayB             = 8.1737, 3.9631
)

// maxGenerated is where memory ends before patience.
const maxGenerated = 1 << 26

// Validate names all that is wrong.
func (l Lublin) Validate() error {
	var errs []error
	if l.Jobs < 1 || l.Jobs > maxGenerated {
		errs = append(errs, fmt.Errorf("%d jobs: want 1 to %d", l.Jobs, maxGenerated))
	}
	if l.Procs != 0 && (l.Procs < 2 || l.Procs > 1<<30) {
		errs = append(errs, fmt.Errorf("a machine of %d processors: want 2 or more, or 0 for 128", l.Procs))
	}
	if !(l.Load >= 0 && l.Load <= 100) {
		errs = append(errs, fmt.Errorf("load %v: want 0 (the model's) to 100", l.Load))
	}
	if l.Overestimate != 0 && !(l.Overestimate >= 1 && l.Overestimate <= 1000) {
		errs = append(errs, fmt.Errorf("overestimate %v: want 0 (none) or 1 to 1000", l.Overestimate))
	}
	return errors.Join(errs...)
}

// Generate draws the jobs, by submission; the same settings give the same jobs.
func (l Lublin) Generate() ([]order.Job, error) {
	if err := l.Validate(); err != nil {
		return nil, fmt.Errorf("draw a workload: %w", err)
	}
	procs := l.Procs
	if procs == 0 {
		procs = 128
	}
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

// size is 1, a power of two, or anything.
func size(r *rand.Rand, procs int) int {
	kind := r.Float64()
	if kind <= serialShare {
		return 1
	}
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

// runTime is at least a second and at most e¹² s, 45 hours.
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

// gamma draws by shape and scale.
func gamma(src rand.Source, shape, scale float64) float64 {
	return distuv.Gamma{Alpha: shape, Beta: 1 / scale, Src: src}.Rand()
}

// arrivals draws times: what is drawn for a time between two jobs is paid half hour by half hour, which are dear at night.
type arrivals struct {
	src    rand.Source
	weight [buckets]float64 // mean 1
	bucket int              // whole half hours since midnight of the first day
	paid   float64          // of the weight of the half hour, share
}

func newArrivals(seed uint64) *arrivals {
	a := &arrivals{src: stream(seed, 1)}
	sum := 0.0
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

// next is the time of the next job, s after midnight of the first day.
func (a *arrivals) next() float64 {
	log := longestGap + 1.0
	for log > longestGap {
		log = gamma(a.src, gapA, gapB)
	}
	points := math.Exp(log)/bucketLength + a.paid*a.weight[a.bucket%buckets]
	for points > a.weight[a.bucket%buckets] {
		points -= a.weight[a.bucket%buckets]
		a.bucket++
	}
	a.paid = points / a.weight[a.bucket%buckets]
	return (float64(a.bucket) + a.paid) * bucketLength
}

// canonical is the next request, s, that people write.
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
