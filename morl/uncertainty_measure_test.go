package morl

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// The measures of estimated uncertainties.

// ErrNoData reports that no input is available.
var ErrNoData = errors.New("no data")

// Estimate returns mean and standard deviation (n − 1) of an agent's values over its critics or passes, each actions ×
// objectives.
func Estimate(v Valuer, o Observation, w []float32) (mean, sd []float64) {
	all := v.Values(o, w)
	n := float64(len(all))
	mean, sd = make([]float64, len(all[0])), make([]float64, len(all[0]))
	for i := range mean {
		for _, q := range all {
			mean[i] += float64(q[i]) / n
		}
		for _, q := range all {
			sd[i] += (float64(q[i]) - mean[i]) * (float64(q[i]) - mean[i])
		}
		sd[i] = math.Sqrt(sd[i] / max(1, n-1))
	}
	return mean, sd
}

// Prediction is a predicted normal distribution with its outcome.
type Prediction struct{ Mean, SD, Realised float64 }

// off returns the error in standard deviations; infinite if SD is 0 and the error is not.
func (p Prediction) off() float64 {
	e := math.Abs(p.Realised - p.Mean)
	if e == 0 {
		return 0
	}
	return e / p.SD
}

// Levels are the levels of the central intervals in Calibration.Coverage.
var Levels = [4]float64{0.5, 0.8, 0.9, 0.95}

// Calibration compares predicted uncertainties with outcomes.
type Calibration struct {
	N        int        // number of predictions
	Coverage [4]float64 // share of outcomes inside the central interval of each of Levels
	// Error is the expected calibration error: the mean absolute difference between coverage and level, over the
	// levels 5 %, 10 % … 95 % (Kuleshov, Fenner, Ermon, Accurate uncertainties for deep learning using calibrated
	// regression, ICML 2018, section 3.5, with absolute differences). 0 is perfect; an SD of 0 everywhere yields 0.5.
	Error float64
	// Factor is the multiplier of the standard deviations that minimises Error: 1 if they are correct, above 1 if the
	// predictions are overconfident. Fit and evaluate it on different predictions.
	Factor float64
	// RMS is the root mean squared error of the means, a measure of the accuracy of the estimate itself.
	RMS float64
}

// Calibrate compares predictions with outcomes, in O(n log n). A value that is not finite or a negative SD is an
// error; no predictions are ErrNoData.
func Calibrate(predictions []Prediction) (Calibration, error) {
	c := Calibration{N: len(predictions)}
	if c.N == 0 {
		return c, fmt.Errorf("calibration: %w", ErrNoData)
	}
	off := make([]float64, c.N)
	for i, p := range predictions {
		if v := p.Mean + p.SD + p.Realised; math.IsNaN(v) || math.IsInf(v, 0) || p.SD < 0 {
			return c, fmt.Errorf("calibration: prediction %d: mean %g, standard deviation %g, realised %g", i, p.Mean, p.SD, p.Realised)
		}
		off[i] = p.off()
		c.RMS += (p.Realised - p.Mean) * (p.Realised - p.Mean) / float64(c.N)
	}
	c.RMS = math.Sqrt(c.RMS)
	slices.Sort(off)
	for i, level := range Levels {
		c.Coverage[i] = covered(off, level, 1)
	}
	c.Error = miscalibrated(off, 1)
	c.Factor = bestFactor(off)
	return c, nil
}

// Rescale returns a copy with the standard deviations multiplied by factor.
func Rescale(predictions []Prediction, factor float64) []Prediction {
	out := slices.Clone(predictions)
	for i := range out {
		out[i].SD *= factor
	}
	return out
}

// covered returns the share of sorted errors within the central interval of a level, with spreads multiplied by
// factor.
func covered(off []float64, level, factor float64) float64 {
	reach := math.Sqrt2 * math.Erfinv(level) * factor
	n, _ := slices.BinarySearchFunc(off, reach, func(x, r float64) int {
		if x <= r {
			return -1
		}
		return 1
	})
	return float64(n) / float64(len(off))
}

// miscalibrated returns the expected calibration error with spreads multiplied by factor.
func miscalibrated(off []float64, factor float64) float64 {
	var sum float64
	const levels = 19
	for i := 1; i <= levels; i++ {
		level := float64(i) / (levels + 1)
		sum += math.Abs(covered(off, level, factor) - level)
	}
	return sum / levels
}

// bestFactor evaluates factors from 1/1000 to 1000, 40 per decade, and returns the middle of the best ones.
func bestFactor(off []float64) float64 {
	const each = 40
	least, from, to := math.Inf(1), 0, 0
	for k := -3 * each; k <= 3*each; k++ {
		switch e := miscalibrated(off, math.Pow(10, float64(k)/each)); {
		case e < least:
			least, from, to = e, k, k
		case e == least && k == to+1:
			to = k
		}
	}
	return math.Pow(10, float64(from+to)/2/each)
}

// Lambda returns the current multiplier, 0 before the first Update.
func (p *PID) Lambda() float64 { return p.lambda }
