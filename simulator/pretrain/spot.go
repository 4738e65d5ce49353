package pretrain

import (
	"math/rand/v2"

	"trainopt/simulator/training"
)

// spotModel is spot capacity without a trace: alternating times up and away, each exponentially distributed.
type spotModel struct{ MeanUp, MeanAway float64 } // seconds

// The ranges of the generated capacity, in seconds: 10 % and 90 % quantiles over 26 traces of AWS spot capacity,
// 2022-10 to 2023-08 (skypilot-org/spot-traces at 221da1a; V100, K80 and 64-CPU machines), of the mean time up between
// two interruptions and of the mean time away. TestSpotFacts repeats the calculation.
const (
	spotUpLow, spotUpHigh     = 4030, 22000
	spotAwayLow, spotAwayHigh = 1720, 11500
)

// drawSpot draws the capacity of one zone, log-uniform within the measured ranges.
func drawSpot(rng *rand.Rand) spotModel {
	return spotModel{MeanUp: logUniform(rng, spotUpLow, spotUpHigh), MeanAway: logUniform(rng, spotAwayLow, spotAwayHigh)}
}

// Interruptions draws the interruptions of a job that starts when the machine comes up; the list covers at least the
// given seconds.
func (m spotModel) Interruptions(rng *rand.Rand, seconds float64) []training.Interruption {
	var out []training.Interruption
	for now := 0.0; ; {
		now += m.MeanUp * rng.ExpFloat64()
		if now > seconds {
			return out
		}
		i := training.Interruption{At: now, Away: m.MeanAway * rng.ExpFloat64()}
		out = append(out, i)
		now += i.Away
	}
}

// logUniform draws a log-uniform number in [lo, hi).
func logUniform(rng *rand.Rand, lo, hi float64) float64 {
	return between(rng.Float64(), lo, hi)
}
