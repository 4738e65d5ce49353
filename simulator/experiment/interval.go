package experiment

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat/distuv"

	"trainopt/internal/stat"
)

// level is the nominal coverage of the intervals.
const level = 0.95

// resampler contains the bootstrap samples of seeds. They are the same for every metric and policy, so that compared
// quantities are resampled alike.
type resampler struct {
	seeds int
	draws [][]int
}

// newResampler draws the bootstrap samples; with fewer than two seeds it draws none. O(resamples × seeds).
func newResampler(seeds, resamples int, seed uint64) *resampler {
	r := &resampler{seeds: seeds}
	if seeds < 2 {
		return r
	}
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	r.draws = make([][]int, resamples)
	for b := range r.draws {
		r.draws[b] = make([]int, seeds)
		for j := range r.draws[b] {
			r.draws[b][j] = rng.IntN(seeds)
		}
	}
	return r
}

// clustered contains the sums of a column by seed, the input of bootstrap and tests.
type clustered struct {
	sum, count []float64
	n          int
	lo, hi     float64
}

// bySeed sums the known values of a column by seed, in the order of the cases.
func (r *resampler) bySeed(column []float64, group []int) clustered {
	c := clustered{sum: make([]float64, r.seeds), count: make([]float64, r.seeds), lo: math.NaN(), hi: math.NaN()}
	for k, v := range column {
		if math.IsNaN(v) || group[k] < 0 {
			continue
		}
		c.sum[group[k]] += v
		c.count[group[k]]++
		c.n++
		if !(c.lo <= v) {
			c.lo = v
		}
		if !(c.hi >= v) {
			c.hi = v
		}
	}
	return c
}

// seeds returns the number of seeds with a value.
func (c *clustered) seeds() int {
	n := 0
	for _, k := range c.count {
		if k > 0 {
			n++
		}
	}
	return n
}

// mean returns the mean over all cases, NaN without cases.
func (c *clustered) mean() float64 {
	var s, n float64
	for j := range c.sum {
		s, n = s+c.sum[j], n+c.count[j]
	}
	return s / n // 0/0 is NaN
}

// without returns the mean without one seed.
func (c *clustered) without(drop int) float64 {
	var s, n float64
	for j := range c.sum {
		if j != drop {
			s, n = s+c.sum[j], n+c.count[j]
		}
	}
	return s / n
}

// interval returns the 95 % interval of the mean by the bias-corrected and accelerated bootstrap (Efron 1987) over
// whole seeds. Its level is widened for few seeds as Hesterberg (2015, "What teachers should know about the
// bootstrap", section 5) widens the percentile bootstrap: the normal quantile is replaced by √(n/(n−1)) times
// Student's with n−1 degrees of freedom, n the number of seeds, because resampling n values understates their scatter.
// For n = 10 the plain percentile and BCa bootstraps cover 91 % on normal data and this one 94 %; on exponential data
// they cover 87, 89 and 93 %. The studentised bootstrap covers 95 % of both, but it exceeds the range of shares and is
// undefined where a resample has no scatter, which is common among shares of met deadlines. NaN with fewer than two
// seeds; with five the coverage is 92 %. O(resamples × seeds).
func (r *resampler) interval(c clustered) (lo, hi float64) {
	n := c.seeds()
	if n < 2 || len(r.draws) == 0 {
		return math.NaN(), math.NaN()
	}
	at := c.mean()
	means := make([]float64, 0, len(r.draws))
	below := 0.0
	for _, draw := range r.draws {
		var s, k float64
		for _, j := range draw {
			s, k = s+c.sum[j], k+c.count[j]
		}
		if k == 0 {
			continue
		}
		m := s / k
		means = append(means, m)
		if near := math.Abs(m-at) <= 1e-12*math.Abs(at); near {
			below += 0.5
		} else if m < at {
			below++
		}
	}
	slices.Sort(means)
	share := min(max(below/float64(len(means)), 0.5/float64(len(means))), 1-0.5/float64(len(means)))
	z0 := distuv.UnitNormal.Quantile(share)
	a := c.acceleration()
	student := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(n - 1)}
	z := math.Sqrt(float64(n)/float64(n-1)) * student.Quantile((1+level)/2)
	bound := func(z float64) float64 {
		w := z0 + z
		den := 1 - a*w
		if den <= 0.1 { // far out on the long tail the correction has no finite value: use the extreme
			den = 0.1
		}
		return stat.Quantile(means, distuv.UnitNormal.CDF(z0+w/den))
	}
	return bound(-z), bound(z)
}

// acceleration returns the skewness of the jackknife over seeds divided by six (Efron 1987).
func (c *clustered) acceleration() float64 {
	var left []float64
	for j, k := range c.count {
		if k > 0 {
			if m := c.without(j); !math.IsNaN(m) {
				left = append(left, m)
			}
		}
	}
	centre := 0.0
	for _, m := range left {
		centre += m / float64(len(left))
	}
	var most, two, three float64
	for _, m := range left {
		most = max(most, math.Abs(centre-m))
	}
	if most == 0 {
		return 0
	}
	for _, m := range left {
		d := (centre - m) / most // avoids underflow of the powers
		two += d * d
		three += d * d * d
	}
	return three / (6 * math.Pow(two, 1.5))
}

// row returns the row of one policy in a metric.
func (r *resampler) row(policy, metric string, column []float64, group []int) Row {
	c := r.bySeed(column, group)
	lo, hi := r.interval(c)
	return Row{Policy: policy, Metric: metric, Mean: Number(c.mean()), Lo: Number(lo), Hi: Number(hi), N: c.n, Min: Number(c.lo), Max: Number(c.hi)}
}

// pair returns the comparison of two columns over the cases in which both are known. Interval and test use the
// differences summed by seed; PHolm is left NaN.
func (r *resampler) pair(a, b, metric string, x, y []float64, group []int, o *Options) Pair {
	d := make([]float64, len(x))
	for k := range d {
		d[k] = x[k] - y[k] // NaN if either is unknown
	}
	c := r.bySeed(d, group)
	lo, hi := r.interval(c)
	p := math.NaN()
	if c.n > 0 {
		p = signFlip(c.sum, o.Flips, o.Seed)
	}
	return Pair{A: a, B: b, Metric: metric, Difference: Number(c.mean()), Lo: Number(lo), Hi: Number(hi), P: Number(p), PHolm: Number(math.NaN()), N: c.n, Seeds: c.seeds()}
}
