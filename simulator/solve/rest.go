package solve

import "errors"

// MaxSum maximises Σ_ij value_ij x_ij (pairs: pairValue), where each job gets at least floor_i done per second (nil: none).
func MaxSum(s Sharing, value, pairValue [][]float64, floor []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// WaterFill is max-min that goes on above the worst: the lexicographic optimum of weight_i · (what job i gets done).
func WaterFill(s Sharing, weight []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}

// Nash maximises Σ_i log(weight_i · what job i gets done): proportional fairness.
func Nash(s Sharing, weight []float64) (Solution, error) {
	return Solution{}, errors.New("not written yet")
}
