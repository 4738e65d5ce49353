// Package solve solves the optimization programs of scheduling policies: allocations of device time on a cluster with
// several device types, and assignments.
//
// All allocation programs have the same block structure (program.go): each job has a few columns and at most three
// rows of its own, and only the capacity rows couple jobs. One interior-point method that exploits this structure
// (interior.go) solves all of them; identical jobs form one block. Max-min programs that are bound by the capacities
// alone are solved faster by price decomposition (cuts.go): given prices of the capacities, the subproblem of each
// job is independent. Results are certified: Solution.Gap is the distance of a feasible point from a dual bound, and
// both are recomputed from the inputs rather than taken from the residuals of the method.
//
// The package is not a general solver: only Assign has integer variables, and no rows beyond those of Sharing are
// supported.
//
//	s := solve.Sharing{Rate: [][]float64{{1, 2}, {1, 4}}, Scale: []float64{1, 1}, Devices: []float64{1, 1}}
//	best, err := solve.MaxMin(s, []float64{1, 1}, nil)
package solve

import (
	"errors"
	"fmt"
	"math"
)

// ErrInfeasible reports that no allocation meets the demands.
var ErrInfeasible = errors.New("infeasible")

// ErrUnfinished reports that the certified gap exceeds the promised one. The solution returned with it is feasible
// and its gap is certified.
var ErrUnfinished = errors.New("not solved to the promised gap")

// Sharing describes a time-shared cluster: n jobs and J device types. The share x_ij is the fraction of its time that
// job i spends on type j: x ≥ 0, Σ_j x_ij ≤ 1, Σ_i Scale_i x_ij ≤ Devices_j.
type Sharing struct {
	Rate    [][]float64 // n × J: throughput of job i on type j, per second, ≥ 0
	Scale   []float64   // n: number of devices that the job holds simultaneously
	Devices []float64   // J: number of devices of each type
	// Pairs are co-located jobs and add columns to the program. The time of a job alone and in all its pairs is at
	// most 1.
	Pairs []Pair
}

// Pair is two co-located jobs of equal Scale.
type Pair struct {
	A, B         int
	RateA, RateB []float64 // J: throughputs of A and B on each type
}

// Solution contains the optimal shares and the value of the objective.
type Solution struct {
	X     [][]float64 // n × J: shares of the jobs alone
	Pairs [][]float64 // pairs × J, in the order of Sharing.Pairs
	Value float64
	Gap   float64 // certified relative distance to the optimum
}

const (
	wantedGap        = 1e-10 // gap at which iteration stops
	promisedGap      = 1e-7  // a larger gap is reported as ErrUnfinished
	promisedPairsGap = 1e-4  // promisedGap for programs with pairs
	slackPairsGap    = 1e-6  // slackGap for programs with pairs
	slackGap         = 1e-9  // relative tolerance on floors and demands
)

// check validates shapes and values. perJob contains further slices of length n; nil slices are skipped.
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
