package solve

import (
	"fmt"
	"math"
)

// MaxSum maximises Σ_ij value_ij x_ij (pairs: pairValue), where each job gets at least floor_i done per second (nil: none; met to
// 1e-9 relative), or says ErrInfeasible.
func MaxSum(s Sharing, value, pairValue [][]float64, floor []float64) (Solution, error) {
	const what = "max-sum"
	if err := s.check(what, floor); err != nil {
		return Solution{}, err
	}
	if err := s.checkValues(what, value); err != nil {
		return Solution{}, err
	}
	if _, err := s.meet(what, floor); err != nil {
		return Solution{}, err
	}
	m := groupAlone(&s, func(int) bool { return false }, value, floor)
	unit := m.worthOf(&s, value)
	for k := range m.gain {
		m.gain[k] /= unit
	}
	for g, i := range m.member {
		if floor != nil && floor[i] > 0 {
			m.setFloor(g, floor[i]/m.unit[g])
		}
	}
	if len(m.count) == 0 {
		return Solution{X: zeros(len(s.Rate), len(s.Devices))}, nil
	}
	it := newInterior(m.program)
	it.begin()
	p := it.optimise(nil)
	if gap := p.gap(); !(gap <= promisedGap) {
		return Solution{}, unfinished(what, gap)
	}
	return Solution{X: m.shares(&s, p.x), Value: p.value * unit, Gap: p.gap()}, nil
}

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

// worthOf is the value of the cluster when every kind is cut into equal parts, of what is worth something.
func (a *alone) worthOf(s *Sharing, value [][]float64) float64 {
	n := float64(len(s.Rate))
	sum, most := 0.0, 0.0
	for i, row := range value {
		time, worth := 0.0, 0.0
		for _, j := range a.kinds {
			x := s.Devices[j] / (n * s.Scale[i])
			time += x
			worth += x * max(0, row[j])
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

// Nash maximises Σ_i log(weight_i · what job i gets done): proportional fairness. Jobs with weight 0, and those that get nothing
// done anywhere, are not in the sum. Gap is that of the geometric mean.
func Nash(s Sharing, weight []float64) (Solution, error) {
	const what = "proportional fairness"
	if err := s.check(what, weight); err != nil {
		return Solution{}, err
	}
	m := groupAlone(&s, func(i int) bool { return s.best(i) == 0 || weight != nil && weight[i] == 0 }, nil)
	if len(m.count) == 0 {
		return Solution{X: zeros(len(s.Rate), len(s.Devices))}, nil
	}
	m.logs = true
	for g := range m.count {
		m.setLevel(g, 0)
	}
	it := newInterior(m.program)
	it.begin()
	p := it.optimise(nil)
	sol := Solution{X: m.shares(&s, p.x), Gap: math.Expm1(p.gap())}
	if !(sol.Gap <= promisedGap) {
		return Solution{}, unfinished(what, sol.Gap)
	}
	for i, row := range sol.X {
		if m.groupOf[i] < 0 {
			continue
		}
		done := 0.0
		for j, x := range row {
			done += x * s.Rate[i][j]
		}
		if weight != nil {
			done *= weight[i]
		}
		sol.Value += math.Log(done)
	}
	return sol, nil
}

// WaterFill is max-min that goes on above the worst: the lexicographic optimum of weight_i · (what job i gets done).
func WaterFill(s Sharing, weight []float64) (Solution, error) {
	return Solution{}, fmt.Errorf("not written yet")
}
