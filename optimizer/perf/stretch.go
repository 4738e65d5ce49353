package perf

import (
	"math"
	"slices"

	"trainopt/internal/stat"
	"trainopt/resources"
)

// segment is an observation reduced to the statistics of the likelihood.
type segment struct {
	at       resources.Allocation
	logMean  float64 // log of the robust mean seconds per reference unit
	n        float64 // number of units, reduced for autocorrelation
	doubt    float64 // sd of logMean because it is unknown whether the pauses seen will recur
	samples  float64 // samples in a unit, 0 when unknown
	recalled bool
	inferred bool
	effects  []loading
	used     Utilization
	trust    float64 // weight of the drift's Student tails, 1 = ordinary, → 0 = outlier
	blocks   blocks
}

// blocks are the statistics of the drift within a long segment.
type blocks struct {
	n        float64 // number of blocks, 0 for a short segment
	variance float64 // of their log medians
	noise    float64 // part of the variance explained by the noise of single units
}

// A segment of at least leastBlocks × leastBlock units is divided into blocks, at most mostBlocks.
const (
	leastBlock  = 3
	leastBlocks = 4
	mostBlocks  = 8
)

// blocksOf estimates the drift of the pace within a segment, robustly.
func blocksOf(units []float64) blocks {
	count := min(len(units)/leastBlock, mostBlocks)
	if count < leastBlocks {
		return blocks{}
	}
	var middles, inside []float64
	for b := range count {
		part := units[b*len(units)/count : (b+1)*len(units)/count]
		m := stat.Median(part)
		middles = append(middles, math.Log(m))
		for _, u := range part {
			inside = append(inside, math.Abs(math.Log(u/m)))
		}
	}
	var variance float64
	mean := stat.Mean(middles)
	for _, m := range middles {
		variance += (m - mean) * (m - mean) / float64(count-1)
	}
	size := float64(len(units)) / float64(count)
	scale := 1.4826 * stat.Median(inside) * math.Sqrt(size/(size-1))
	// π/2: the variance of a median relative to that of a mean.
	return blocks{n: float64(count), variance: variance, noise: math.Pi / 2 * scale * scale / size}
}

// Prior of the relative sd of single units: 5 % with the weight of three measured units. Step times of real jobs
// scatter by 1–10 %; the units of this run soon outweigh the prior.
const (
	unitNoisePrior       = 0.05
	unitNoisePriorWeight = 3
)

// summarise reduces observations to segments and the pooled relative sd of a unit, both robustly. Values that are not
// positive and finite are dropped, as are observations without any other value.
func summarise(obs []Observation) (out []segment, noise float64) {
	var deviations []float64
	for _, o := range obs {
		units := cleanUnits(o.UnitSeconds)
		if len(units) == 0 || o.Allocation.CPUs < 0 || o.Allocation.GPUs < 0 {
			continue
		}
		mean, doubt := robustMean(units)
		n := effectiveCount(units)
		effects, offset := loadings(o)
		out = append(out, segment{
			at: o.Allocation, logMean: math.Log(mean) - offset, n: n, doubt: doubt, effects: effects,
			samples: positiveOr0(o.UnitSamples), recalled: o.Recalled, inferred: o.Inferred, trust: 1, blocks: blocksOf(units), used: o.Used,
		})
		if k := float64(len(units)); k > 1 {
			for _, u := range units {
				deviations = append(deviations, math.Abs(u/mean-1)*math.Sqrt(k/(k-1)))
			}
		}
	}
	return out, pooledNoise(deviations)
}

// pooledNoise returns the relative sd of a unit: 1.4826 × the median absolute deviation, robust against up to half of
// the units, shrunk towards the prior.
func pooledNoise(deviations []float64) float64 {
	k := float64(len(deviations))
	if k == 0 {
		return unitNoisePrior
	}
	s := 1.4826 * stat.Median(deviations)
	return math.Sqrt((unitNoisePriorWeight*unitNoisePrior*unitNoisePrior + k*s*s) / (unitNoisePriorWeight + k))
}

// cleanUnits returns the positive, finite values.
func cleanUnits(seconds []float64) []float64 {
	units := make([]float64, 0, len(seconds))
	for _, s := range seconds {
		if s > 0 && !math.IsInf(s, 0) {
			units = append(units, s)
		}
	}
	return units
}

func positiveOr0(v float64) float64 {
	if v > 0 && !math.IsInf(v, 0) {
		return v
	}
	return 0
}

// An episode is a run of units more than outlierCut robust standard deviations from the median. Up to
// isolatedEpisodes per segment may be accidents or the first of a series; more are normal behaviour of the job.
const (
	outlierCut       = 4
	isolatedEpisodes = 2
	pauseFactor      = 1.5 // ratio of a unit with a pause to the median
)

// robustMean returns the mean seconds per unit of a segment. Recurring pauses count in full, as they will in the long
// run. One or two are as likely an accident, to be clipped, as the first evaluations of a training: the mean is then
// between both, and doubt is the sd of its logarithm. O(n log n).
func robustMean(units []float64) (mean, doubt float64) {
	centre := stat.Median(units)
	if len(units) < 3 {
		return centre, 0
	}
	dev := make([]float64, len(units))
	for i, u := range units {
		dev[i] = math.Abs(u - centre)
	}
	cut := outlierCut * max(1.4826*stat.Median(dev), 0.01*centre)
	episodes, inside := 0, true
	clipped := 0.0
	for i, u := range units {
		if odd := dev[i] > cut; odd && inside {
			episodes++
			inside = false
		} else if !odd {
			inside = true
		}
		clipped += min(max(u, centre-cut/2), centre+cut/2) / float64(len(units))
	}
	plain := stat.Mean(units)
	switch {
	case episodes > isolatedEpisodes:
		return plain, 0
	case slices.Max(units[1:]) <= pauseFactor*centre: // a slow first unit is a rest of the warm-up
		return clipped, 0
	}
	return math.Sqrt(plain * clipped), math.Abs(math.Log(plain/clipped)) / 2
}

// effectiveCount returns the number of units reduced for lag-one autocorrelation, n(1-ρ)/(1+ρ), for segments of at
// least 8 units.
func effectiveCount(units []float64) float64 {
	n := float64(len(units))
	if len(units) < 8 {
		return n
	}
	logs := make([]float64, len(units))
	var mean float64
	for i, u := range units {
		logs[i] = math.Log(u)
		mean += logs[i] / n
	}
	var c0, c1 float64
	for i := range logs {
		c0 += (logs[i] - mean) * (logs[i] - mean)
		if i > 0 {
			c1 += (logs[i] - mean) * (logs[i-1] - mean)
		}
	}
	if c0 <= 0 {
		return n
	}
	rho := min(max(c1/c0, 0), 0.95)
	return max(1, n*(1-rho)/(1+rho))
}
