// Package solve solves the optimisation programs that scheduling policies need.
package solve

import "errors"

// ErrInfeasible says that no shares meet the demands.
var ErrInfeasible = errors.New("infeasible")

// Sharing is a cluster that is shared in time: n jobs, J kinds of devices. A share x_ij is the part of its time that job i
// spends on kind j: x ≥ 0, Σ_j x_ij ≤ 1, Σ_i Scale_i x_ij ≤ Devices_j.
type Sharing struct {
	Rate    [][]float64 // n × J: what job i gets done per second on kind j, ≥ 0
	Scale   []float64   // n: devices that the job takes at once
	Devices []float64   // J
	// Pairs share devices: further columns. A job's time in all its pairs and alone is at most 1.
	Pairs []Pair
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
	Value float64
	Gap   float64 // proven distance to the optimum, relative
}

// MaxMin maximises min_i weight_i · (what job i gets done per second), over jobs with a weight above 0, where each job
// also gets at least floor_i (nil: none).
func MaxMin(s Sharing, weight, floor []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// Demand finds shares by which every job gets at least its demand done per second, with as much spare as can be spread evenly,
// or says ErrInfeasible.
func Demand(s Sharing, demand []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// MaxSum maximises Σ_ij value_ij x_ij (pairs: pairValue), where each job gets at least floor_i done per second (nil: none).
func MaxSum(s Sharing, value, pairValue [][]float64, floor []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// WaterFill is max-min that goes on above the worst: the lexicographic optimum of weight_i · (what job i gets done).
func WaterFill(s Sharing, weight []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// Central is a solution of MaxMin in the middle of the optimal face (the analytic centre), as interior-point solvers return.
func Central(s Sharing, weight, floor []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// Nash maximises Σ_i log(weight_i · what job i gets done): proportional fairness.
func Nash(s Sharing, weight []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// Assign is a minimum-cost assignment of every row to a column of its own; cost is rows × columns, rows ≤ columns. The result is
// the column of each row.
func Assign(cost [][]float64) []int { return nil }
