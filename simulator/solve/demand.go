package solve

import (
	"fmt"
	"math"
)

// Demand finds shares by which every job gets at least its demand done per second (met to 1e-9 relative), with as much spare as
// can be spread evenly, or says ErrInfeasible. The shares are the analytic centre of all that are feasible, as an
// interior-point solver without an objective returns; the value is min_i (what job i gets done / its demand), over jobs with a
// demand; 0 when no job has one.
func Demand(s Sharing, asked []float64) (Solution, error) {
	const what = "demand"
	if err := s.check(what, asked); err != nil {
		return Solution{}, err
	}
	return demand(what, &s, asked)
}

// demand is Demand on checked input; a nil floor asks for nothing.
func demand(what string, s *Sharing, floor []float64) (Solution, error) {
	start, err := s.meet(what, floor)
	if err != nil {
		return Solution{}, err
	}
	c := groupAlone(s, func(int) bool { return false }, nil, floor)
	for g, i := range c.member {
		if floor != nil && floor[i] > 0 {
			c.setFloor(g, floor[i]/c.unit[g])
		}
	}
	c.centred = true
	sol := Solution{X: start.X, Value: start.Value}
	if len(c.kinds) == 0 || start.Value > 0 && start.Value < 1+1e-7 {
		return sol, nil // nothing to spread
	}
	it := newInterior(c.program)
	it.begin()
	if start.Value > 0 {
		it.beginAt(c, start)
	}
	now := it.run(func(now progress) bool { return now.primal < 1e-11 && now.spread < 1e-7 })
	if !(now.primal < 1e-9) {
		return sol, nil
	}
	x := make([]float64, it.cols)
	it.repair(x)
	if !it.meetsFloors(x) {
		return sol, nil
	}
	sol.X = c.shares(s, x)
	sol.Value = s.leastRatio(sol.X, floor)
	return sol, nil
}

// meet solves for the largest factor by which every demand can be multiplied, until it is known whether that is at least 1,
// with some way to go. The value is that factor; 0 when nothing is demanded.
func (s *Sharing) meet(what string, floor []float64) (Solution, error) {
	if err := s.meetable(what, floor); err != nil {
		return Solution{}, err
	}
	inverse := make([]float64, len(s.Rate))
	asked := false
	for i := range inverse {
		if floor != nil && floor[i] > 0 {
			inverse[i] = 1 / floor[i]
			asked = true
		}
	}
	if !asked {
		return Solution{X: zeros(len(s.Rate), len(s.Devices))}, nil
	}
	m := newMaxMin(s, inverse, nil)
	it := newInterior(m.program)
	it.begin()
	p := it.optimise(func(p *point) bool { return p.value*m.scale > 1.05 || p.bound*m.scale < 1-slackGap })
	switch factor := p.value * m.scale; {
	case factor >= 1-slackGap:
		return Solution{X: m.shares(s, p.x), Value: factor}, nil
	case p.bound*m.scale < 1-slackGap || p.gap() <= promisedGap:
		return Solution{}, fmt.Errorf("%s: %w: at most %.6g of every demand can be met", what, ErrInfeasible, p.bound*m.scale)
	default:
		return Solution{}, unfinished(what, p.gap())
	}
}

// meetable refuses floors of jobs that get nothing done anywhere.
func (s *Sharing) meetable(what string, floor []float64) error {
	for i, f := range floor {
		if f > 0 && s.best(i) == 0 {
			return fmt.Errorf("%s: %w: job %d is to get %g done per second and gets nothing done on any device", what, ErrInfeasible, i, f)
		}
	}
	return nil
}

// beginAt moves a fresh iterate of a centred program to a point that meets the floors with a factor above 1: the shares are
// cut by its square root, which leaves room in every row, and a little of the room goes to every column.
func (s *interior) beginAt(c *alone, start Solution) {
	cut := 1 / math.Sqrt(start.Value)
	room := 0.5 * (1 - cut)
	for j := range s.capacity {
		s.x[s.c0+j] = s.capacity[j]
	}
	for g, m := range s.count {
		time, rate := 0.0, 0.0
		from := start.X[c.member[g]]
		for k := s.start[g]; k < s.start[g+1]; k++ {
			x := cut*from[c.kinds[k-s.start[g]]] + room*s.x[k]
			s.x[k] = x
			time += x
			rate += s.rate[k] * x
			s.x[s.c0+int(s.kind[k])] -= m * s.use[k] * x
		}
		s.x[s.u0+g] = 1 - time
		if s.floored[g] {
			s.x[s.w0+g] = rate - s.floor[g]
		}
	}
	for i, w := range s.weight {
		if w > 0 {
			s.x[i] = max(s.x[i], 1e-9)
			s.z[i] = 1 / s.x[i]
		}
	}
}

func (s *Sharing) leastRatio(x [][]float64, floor []float64) float64 {
	least := math.Inf(1)
	for i, f := range floor {
		if f > 0 {
			done := 0.0
			for j, v := range x[i] {
				done += v * s.Rate[i][j]
			}
			least = min(least, done/f)
		}
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

func zeros(rows, cols int) [][]float64 {
	flat := make([]float64, rows*cols)
	out := make([][]float64, rows)
	for i := range out {
		out[i] = flat[i*cols : (i+1)*cols : (i+1)*cols]
	}
	return out
}
