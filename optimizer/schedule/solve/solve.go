// Package solve solves the optimisation programs that scheduling policies need: shares of time on a cluster with several kinds
// of devices, and assignments.
//
// The programs have one shape (program.go): every job has a few columns and at most three rows of its own, and only the
// capacities couple jobs. One interior-point method that exploits the shape (interior.go) solves all of them; jobs that are
// equal in every number are one block. Max-min that only the capacities hold back has a faster way (cuts.go): prices of the
// capacities, at which every job answers by itself. What is returned is proven: Solution.Gap is the distance of a feasible point
// to a bound that the prices give, computed from the inputs anew and not from the method's own residuals.
//
// It is no general solver: no integers but in Assign, no rows beyond those of Sharing.
//
//	s := solve.Sharing{Rate: [][]float64{{1, 2}, {1, 4}}, Scale: []float64{1, 1}, Devices: []float64{1, 1}}
//	best, err := solve.MaxMin(s, []float64{1, 1}, nil)
package solve

import (
	"errors"
	"fmt"
	"math"
)

// ErrInfeasible says that no shares meet the demands.
var ErrInfeasible = errors.New("infeasible")

// ErrUnfinished says that the proven gap is still above what is promised; the solution beside it is feasible and its gap proven.
var ErrUnfinished = errors.New("not solved to the promised gap")

// Sharing is a cluster that is shared in time: n jobs, J kinds of devices. A share x_ij is the part of its time that job i
// spends on kind j: x ≥ 0, Σ_j x_ij ≤ 1, Σ_i Scale_i x_ij ≤ Devices_j.
type Sharing struct {
	Rate    [][]float64 // n × J: what job i gets done per second on kind j, ≥ 0
	Scale   []float64   // n: devices that the job takes at once
	Devices []float64   // J
	// Pairs share devices: further columns. A job's time in all its pairs and alone is at most 1.
	Pairs []Pair
	// Beside is the short form of Pairs: what a job of class a gets done beside one of class b, and that one, by kind; nil when
	// they cannot. Jobs of a Class have equal rates and scales. Of two jobs of one class both get the mean of the two rates.
	Class  []int // n
	Beside func(a, b int) (rateA, rateB []float64)
}

// Pair is two jobs of equal Scale that run beside each other.
type Pair struct {
	A, B         int
	RateA, RateB []float64 // J
}

// Solution are shares and the value of the objective.
type Solution struct {
	X     [][]float64 // n × J, alone
	Pairs [][]float64 // by pair × J
	// Shared are the pairs with a share when they were given by class, by A and B; A < B.
	Shared []PairShare
	Value  float64
	Gap    float64 // proven distance to the optimum, relative
}

// PairShare is the share of time that two jobs spend beside each other, by kind.
type PairShare struct {
	A, B int
	X    []float64
}

const (
	wantedGap        = 1e-10 // where iterating ends
	promisedGap      = 1e-7  // above it there is an error
	promisedPairsGap = 1e-4  // the same with pairs
	slackPairsGap    = 1e-6  // the same with pairs
	slackGap         = 1e-9  // how far floors and demands may be missed, relative
)

// check refuses shapes and numbers that no program can be made of. perJob are further slices of length n (nil is fine).
func (s *Sharing) check(what string, perJob ...[]float64) error {
	n, J := len(s.Rate), len(s.Devices)
	if len(s.Scale) != n {
		return fmt.Errorf("%s: %d scales for %d jobs", what, len(s.Scale), n)
	}
	for j, d := range s.Devices {
		if !(d >= 0) || math.IsInf(d, 1) {
			return fmt.Errorf("%s: %g devices of kind %d", what, d, j)
		}
	}
	for i, r := range s.Rate {
		if len(r) != J {
			return fmt.Errorf("%s: job %d has %d rates for %d kinds", what, i, len(r), J)
		}
		if !(s.Scale[i] > 0) || math.IsInf(s.Scale[i], 1) {
			return fmt.Errorf("%s: job %d takes %g devices", what, i, s.Scale[i])
		}
		for j, v := range r {
			if !(v >= 0) || math.IsInf(v, 1) {
				return fmt.Errorf("%s: job %d has rate %g on kind %d", what, i, v, j)
			}
		}
	}
	for _, list := range perJob {
		if list != nil && len(list) != n {
			return fmt.Errorf("%s: %d weights, floors or demands for %d jobs", what, len(list), n)
		}
		for i, v := range list {
			if !(v >= 0) || math.IsInf(v, 1) {
				return fmt.Errorf("%s: weight, floor or demand %g of job %d", what, v, i)
			}
		}
	}
	return nil
}

func unfinished(what string, gap float64) error {
	return fmt.Errorf("%s: %w: reached %.2g", what, ErrUnfinished, gap)
}
