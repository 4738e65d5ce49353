package solve

import (
	"fmt"
	"math"
)

// MaxSum maximizes Σ_ij value_ij x_ij plus the values of pairs (pairValue; nil: 0), subject to a minimum throughput
// floor_i of each job (nil: none; met to 1e-9 relative, with pairs to 1e-6). It returns ErrInfeasible when the floors
// cannot be met. Gap is relative to the value, or to one thousandth of the absolute value of an equal split of the
// cluster where that is larger.
func MaxSum(s Sharing, value, pairValue [][]float64, floor []float64) (Solution, error) {
	const what = "max-sum"
	if err := s.check(what, floor); err != nil {
		return Solution{}, err
	}
	if err := s.checkValues(what, value); err != nil {
		return Solution{}, err
	}
	pairing, err := newPairing(what, &s, pairValue)
	if err != nil {
		return Solution{}, err
	}
	first, err := meet(what, &s, pairing, floor)
	if err != nil {
		return Solution{}, err
	}
	unit := s.worth(value)
	if first.asked() {
		pairing = first.pairing
	}
	m := newLayout(&s, pairing.divided(unit), nil, scaled(value, unit), floor)
	if len(m.count) == 0 {
		return Solution{X: zeros(len(s.Rate), len(s.Devices)), Pairs: zeros(len(s.Pairs), len(s.Devices))}, nil
	}
	if first.asked() {
		m.activate(first.active)
	}
	p, _ := m.optimise(func() { m.setFloors(floor) }, nil)
	sol := m.solution(p)
	sol.Value *= unit
	return sol, m.judge(what, sol.Gap)
}

// checkValues validates the shape of the values and that they are finite.
func (s *Sharing) checkValues(what string, value [][]float64) error {
	if len(value) != len(s.Rate) {
		return fmt.Errorf("%s: values of %d jobs for %d jobs", what, len(value), len(s.Rate))
	}
	for i, row := range value {
		if len(row) != len(s.Devices) {
			return fmt.Errorf("%s: %d values of job %d for %d kinds", what, len(row), i, len(s.Devices))
		}
		for j, v := range row {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				return fmt.Errorf("%s: value %g of job %d on kind %d", what, v, i, j)
			}
		}
	}
	return nil
}

// scaled returns a copy of the values divided by unit.
func scaled(value [][]float64, unit float64) [][]float64 {
	out := make([][]float64, len(value))
	for i, row := range value {
		out[i] = make([]float64, len(row))
		for j, v := range row {
			out[i][j] = v / unit
		}
	}
	return out
}

// divided returns a copy of the pairing with its gains divided by unit.
func (p *pairing) divided(unit float64) *pairing {
	if p == nil {
		return nil
	}
	q := *p
	q.options = make([]option, len(p.options))
	for i, o := range p.options {
		o.gain /= unit
		q.options[i] = o
	}
	return &q
}

// worth returns the absolute value of an equal split of every device type among the jobs; costs count as values. It
// serves as the unit of the objective and is never 0.
func (s *Sharing) worth(value [][]float64) float64 {
	n := float64(len(s.Rate))
	sum, most := 0.0, 0.0
	for i, row := range value {
		time, worth := 0.0, 0.0
		for j, d := range s.Devices {
			x := d / (n * s.Scale[i])
			time += x
			worth += x * math.Abs(row[j])
			most = max(most, math.Abs(row[j]))
		}
		sum += worth / max(1, time)
	}
	switch {
	case sum > 0:
		return sum
	case most > 0:
		return most
	}
	return 1
}
