//go:build highs && cgo

package solve

import (
	"errors"
	"fmt"

	"github.com/bartolsthoorn/gohighs/highs"
)

func init() {
	solver = (*reference).highs
	solverSlack = 1e-8
	largest = 40
}

// highs solves by HiGHS.
func (r *reference) highs() (float64, error) {
	m := highs.Model{Maximize: true, ColCosts: r.cost, ColLower: make([]float64, len(r.cost))}
	for i, row := range r.rows {
		var cols []int
		var values []float64
		for k, v := range row {
			if v != 0 {
				cols, values = append(cols, k), append(values, v)
			}
		}
		if len(cols) == 0 { // gohighs refuses a matrix without entries
			if r.limit[i] < 0 {
				return 0, errors.New("a row without columns that cannot hold")
			}
			continue
		}
		m.AddSparseRow(highs.NegInf(), cols, values, r.limit[i])
	}
	sol, err := m.Solve(highs.WithOutput(false), highs.WithThreads(1), highs.WithTimeLimit(5),
		highs.WithFloatOption("primal_feasibility_tolerance", 1e-10), highs.WithFloatOption("dual_feasibility_tolerance", 1e-10))
	if err != nil {
		return 0, err
	}
	if !sol.IsOptimal() {
		return 0, fmt.Errorf("HiGHS: %v", sol.Status)
	}
	return sol.Objective, nil
}
