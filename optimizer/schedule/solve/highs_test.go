//go:build highs && cgo

package solve

import (
	"errors"
	"fmt"
	"testing"

	"github.com/bartolsthoorn/gohighs/highs"
)

func init() {
	solver = (*reference).highs
	solverSlack = 1e-8
	largest = 40
}

// highs solves the program with HiGHS.
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
		if len(cols) == 0 { // gohighs rejects a matrix without entries
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

// BenchmarkHiGHS solves the programs of BenchmarkMaxMin in explicit form.
func BenchmarkHiGHS(b *testing.B) {
	for _, n := range []int{128, 512} {
		s, w := instance(n, n, oneTo8)
		r := sparseMaxMin(s, w)
		for _, method := range []string{"simplex", "ipm"} {
			b.Run(fmt.Sprintf("max-min/%s/jobs=%d", method, n), func(b *testing.B) {
				for b.Loop() {
					sol, err := r.Solve(highs.WithOutput(false), highs.WithThreads(1), highs.WithStringOption("solver", method))
					if err != nil || !sol.IsOptimal() {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// sparseMaxMin returns the max-min program in sparse form.
func sparseMaxMin(s Sharing, weight []float64) *highs.Model {
	n, J := len(s.Rate), len(s.Devices)
	m := &highs.Model{Maximize: true, ColCosts: make([]float64, n*J+1), ColLower: make([]float64, n*J+1)}
	t := n * J
	m.ColCosts[t] = 1
	for i, rate := range s.Rate {
		var cols []int
		var ones, done []float64
		for j, r := range rate {
			cols, ones, done = append(cols, i*J+j), append(ones, 1), append(done, r)
		}
		m.AddSparseRow(highs.NegInf(), cols, ones, 1)
		m.AddSparseRow(0, append(cols, t), append(done, -1/weight[i]), highs.Inf())
	}
	for j, d := range s.Devices {
		var cols []int
		var scales []float64
		for i, scale := range s.Scale {
			cols, scales = append(cols, i*J+j), append(scales, scale)
		}
		m.AddSparseRow(highs.NegInf(), cols, scales, d)
	}
	return m
}
