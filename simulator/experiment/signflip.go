package experiment

import (
	"math"
	"math/rand/v2"
	"sort"
)

// allFlips is the number of differences up to which every assignment of signs is tried.
const allFlips = 16

// SignFlip is the two-sided randomisation test (Fisher 1935) of paired differences: were the two alike, each
// difference would as likely have the other sign. The answer is the share of all assignments of signs whose sum is at
// least as far from 0 as the observed one: exact for up to 16 differences, else from the given number of seeded random
// assignments, the observed one counted in. It needs no distribution, only that under the hypothesis the differences
// are symmetric; it cannot be below 2^(1−n): ten differences can show p = 0.002, four no less than 0.125.
// 1 for no differences or none but zeros. O(n·2^n) exact, else O(n × flips).
func SignFlip(differences []float64, flips int, seed uint64) float64 {
	var d []float64
	observed, scale := 0.0, 0.0
	for _, v := range differences {
		if v != 0 && !math.IsNaN(v) { // the sign of zero does not matter
			d = append(d, v)
			observed += v
			scale += math.Abs(v)
		}
	}
	if len(d) == 0 {
		return 1
	}
	atLeast := math.Abs(observed) - 1e-12*scale
	if len(d) <= allFlips {
		hits, all := 0, 1<<(len(d)-1) // the other half mirrors this one
		for mask := range all {
			sum := d[len(d)-1]
			for j := range len(d) - 1 {
				if mask>>j&1 == 1 {
					sum -= d[j]
				} else {
					sum += d[j]
				}
			}
			if math.Abs(sum) >= atLeast {
				hits++
			}
		}
		return float64(hits) / float64(all)
	}
	rng := rand.New(rand.NewPCG(seed, 0x51675))
	hits := 1
	for range flips {
		sum := 0.0
		var bits uint64
		for j, v := range d {
			if j%64 == 0 {
				bits = rng.Uint64()
			}
			if bits>>(j%64)&1 == 1 {
				v = -v
			}
			sum += v
		}
		if math.Abs(sum) >= atLeast {
			hits++
		}
	}
	return float64(hits) / float64(flips+1)
}

// Holm corrects p-values for being several (Holm 1979): with the corrected ones, the probability of calling any true
// equality a difference is at most the level. NaN stays NaN and does not count. O(n log n).
func Holm(p []float64) []float64 {
	out := make([]float64, len(p))
	var known []int
	for i, v := range p {
		out[i] = math.NaN()
		if !math.IsNaN(v) {
			known = append(known, i)
		}
	}
	sort.SliceStable(known, func(a, b int) bool { return p[known[a]] < p[known[b]] })
	so := 0.0
	for rank, i := range known {
		so = max(so, min(1, p[i]*float64(len(known)-rank)))
		out[i] = so
	}
	return out
}
