package pretrain

import (
	"math/rand/v2"

	"trainopt/simulator/training"
)

// The scatter of measured step times: Alibaba PAI, alibaba/clusterdata cluster-trace-gpu-v2020/mini-batch-time, commit
// 7a6c496, CC-BY-4.0: "MLaaS in the Wild" (NSDI 2022). In the time series of 40 workers in 4 training jobs, the mean
// step time over 5 neighbouring time buckets is taken as one unit. noiseUnit contains the quantiles of the standard
// deviation of its logarithm, noiseMemory those of its correlation from one unit to the next. The tails beyond the
// outermost quantiles are cut: one worker in forty varies by half. TestNoiseQuantiles repeats the calculation.
//
// For 100 jobs the same data contain the coefficient of variation between the steps inside one bucket: 5 % quantile
// 0.023, 30 % 0.058, median 0.087, the same order of magnitude.
var (
	noiseLevels = []float64{0.05, 0.10, 0.25, 0.50, 0.75, 0.90, 0.95}
	noiseUnit   = []float64{0.0093, 0.0108, 0.0163, 0.0367, 0.0734, 0.1131, 0.1783}
	noiseMemory = []float64{0.138, 0.200, 0.345, 0.632, 0.803, 0.844, 0.952}
)

// drawNoise draws the scatter of one job: both parameters from their measured distributions, independently.
func drawNoise(rng *rand.Rand) training.Noise {
	return training.Noise{Unit: quantileAt(noiseUnit, rng.Float64()), Memory: quantileAt(noiseMemory, rng.Float64())}
}

// quantileAt evaluates a distribution given by its values at noiseLevels, interpolated linearly, constant outside.
func quantileAt(values []float64, level float64) float64 {
	for i, l := range noiseLevels {
		switch {
		case level > l:
		case i == 0:
			return values[0]
		default:
			t := (level - noiseLevels[i-1]) / (l - noiseLevels[i-1])
			return (1-t)*values[i-1] + t*values[i]
		}
	}
	return values[len(values)-1]
}
