package morl

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// The measures of estimated uncertainties, and the ensemble with which Dropout is compared.

// ErrNoData reports that no input is available.
var ErrNoData = errors.New("no data")

// Ensemble estimates uncertainty by the spread of independently initialised critics (Lakshminarayanan, Pritzel,
// Blundell, Simple and scalable predictive uncertainty estimation using deep ensembles, NeurIPS 2017). Cost: critics
// × parameters.
type Ensemble struct {
	agent valued
	sums  moments
}

// NewEnsemble returns an Ensemble of an agent with at least two critics per preference (Envelope, Conditioned).
func NewEnsemble(a Agent) (*Ensemble, error) {
	v, ok := a.(valued)
	if !ok {
		return nil, fmt.Errorf("ensemble of agent %s: it has no critics", a.Name())
	}
	if critics, _, _, _ := v.ask(Observation{State: make([]float32, a.Shape().State)}, make([]float32, len(a.Shape().Objectives))); len(critics) < 2 {
		return nil, fmt.Errorf("ensemble of agent %s: %d critics, want at least 2", a.Name(), len(critics))
	}
	return &Ensemble{agent: v}, nil
}

// Estimate returns mean and standard deviation over the critics.
func (e *Ensemble) Estimate(o Observation, w []float32) (mean, sd []float64) {
	critics, x, rows, scale := e.agent.ask(o, w)
	for i, c := range critics {
		c.out = c.online.Forward(c.out, x, rows)
		if i == 0 {
			e.sums.start(len(c.out))
		}
		e.sums.add(c.out)
	}
	e.sums.finish(scale)
	return e.sums.mean, e.sums.sd
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
