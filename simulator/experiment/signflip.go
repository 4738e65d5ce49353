package experiment

import (
	"math"
	"math/rand/v2"
	"sort"
)

// allFlips is the maximum number of differences for which all assignments of signs are enumerated.
const allFlips = 16

// signFlip returns the p-value of the two-sided randomisation test (Fisher 1935) of paired differences: under the
// hypothesis of equality, each difference has either sign with equal probability. The p-value is the share of all
// assignments of signs whose sum is at least as far from 0 as the observed one. It is exact for up to 16 differences
// and otherwise estimated from the given number of seeded random assignments plus the observed one. The test assumes
// no distribution, only that the differences are symmetric under the hypothesis. The p-value cannot be below 2^(1−n):
// ten differences can reach 0.002, four 0.125. It is 1 for no differences or only zeros. Cost: O(n·2^n) if exact, else
// O(n·flips).
func signFlip(differences []float64, flips int, seed uint64) float64 {
	var d []float64
	observed, scale := 0.0, 0.0
	for _, v := range differences {
		if v != 0 && !math.IsNaN(v) { // zeros do not affect the test
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
		hits, all := 0, 1<<(len(d)-1) // the other half is symmetric
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

// holm corrects p-values for multiple comparisons (Holm 1979): with the corrected ones, the probability of rejecting
// any true hypothesis of equality is at most the level. NaN values remain NaN and are not counted. O(n log n).
func holm(p []float64) []float64 {
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
