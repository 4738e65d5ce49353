package hdeeprm

import "trainopt/simulator/workload"

// numpyDraws draws what the converter draws after numpy.random.seed(seed).
type numpyDraws struct{ *workload.NumPy }

func newNumpyDraws(seed uint32) numpyDraws { return numpyDraws{workload.NewNumPy(seed)} }

// share is numpy.random.choice of the shares of the requested time that jobs use, by their probabilities.
func (d numpyDraws) share() float64 {
	x, k := d.Random(), 0
	for k < len(usedBelow)-1 && usedBelow[k] <= x {
		k++
	}
	return 0.05 + float64(float64(k)*0.05) // as numpy.arange: 0.3 is 0.3, not 6·0.05
}

// bandwidth is numpy.random.choice of 4, 8, … 24 GB/s.
func (d numpyDraws) bandwidth() int {
	for {
		if n := d.Word() & 7; n <= 5 {
			return 4 * int(n+1)
		}
	}
}

// usedBelow[k] is how likely a job uses at most the k-th share, 0.05·(k+1), of the time that its user asks for, after Tsafrir,
// Etsion and Feitelson (TPDS 18(6), 2007): the sums of 0.15, 0.09, 0.07, five of 0.04, five of 0.03, ten of 0.02, 0.06 and 0.08,
// divided by the last of them.
var usedBelow = func() (below [25]float64) {
	sum := 0.0
	for k := range below {
		switch {
		case k < 3:
			sum += [3]float64{0.15, 0.09, 0.07}[k]
		case k < 8:
			sum += 0.04
		case k < 13:
			sum += 0.03
		case k < 23:
			sum += 0.02
		default:
			sum += [2]float64{0.06, 0.08}[k-23]
		}
		below[k] = sum
	}
	for k := range below {
		below[k] /= sum
	}
	return below
}()
