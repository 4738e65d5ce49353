package hdeeprm

import "trainopt/simulator/workload"

// numpyDraws draws the random numbers of HDeepRM's converter after numpy.random.seed(seed).
type numpyDraws struct{ *workload.NumPy }

func newNumpyDraws(seed uint32) numpyDraws { return numpyDraws{workload.NewNumPy(seed)} }

// share draws the used share of the requested time, as numpy.random.choice does with the probabilities of usedBelow.
func (d numpyDraws) share() float64 {
	x, k := d.Random(), 0
	for k < len(usedBelow)-1 && usedBelow[k] <= x {
		k++
	}
	return 0.05 + float64(float64(k)*0.05) // rounds as numpy.arange does
}

// bandwidth draws 4, 8, … or 24 GB/s, as numpy.random.choice does.
func (d numpyDraws) bandwidth() int {
	for {
		if n := d.Word() & 7; n <= 5 {
			return 4 * int(n+1)
		}
	}
}

// usedBelow[k] is the probability that a job uses at most the share 0.05·(k+1) of its requested time, after Tsafrir,
// Etsion and Feitelson (TPDS 18(6), 2007): the cumulative sums of 0.15, 0.09, 0.07, five of 0.04, five of 0.03, ten
// of 0.02, 0.06 and 0.08, divided by the last sum.
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
