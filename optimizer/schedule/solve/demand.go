package solve

import (
	"fmt"
	"math"
)

// Demand finds shares by which every job gets at least its demand done per second (met to 1e-9 relative, with pairs to 1e-6), with as much spare as
// can be spread evenly, or says ErrInfeasible. The shares are the analytic centre of all that are feasible, as an
// interior-point solver without an objective returns (with pairs: over those that were needed); the value is min_i (what job
// i gets done / its demand), over jobs with a demand; 0 when no job has one.
func Demand(s Sharing, asked []float64) (Solution, error) {
	const what = "demand"
	if err := s.check(what, asked); err != nil {
		return Solution{}, err
	}
	pairing, err := newPairing(what, &s, nil)
	if err != nil {
		return Solution{}, err
	}
	return demand(what, &s, pairing, asked)
}

// demand is Demand on checked input; nil asks for nothing.
func demand(what string, s *Sharing, pairing *pairing, asked []float64) (Solution, error) {
	first, err := meet(what, s, pairing, asked)
	if err != nil {
		return Solution{}, err
	}
	if first.asked() {
		pairing = first.pairing
	}
	c := newLayout(s, pairing, nil, nil, asked)
	if first.asked() {
		c.activate(first.active)
	}
	c.setFloors(asked)
	c.centred = true
	if len(c.count) == 0 {
		return Solution{X: zeros(len(s.Rate), len(s.Devices)), Pairs: zeros(len(s.Pairs), len(s.Devices))}, nil
	}
	if first.asked() && first.factor < 1+1e-7 {
		return first.solution(), nil // nothing to spread
	}
	it := newInterior(c.program)
	it.begin()
	if first.asked() {
		it.beginAt(c, &first)
	}
	now := it.run(func(now progress) bool { return now.primal < 1e-11 && now.dual < 1e-7 && now.spread < 1e-7 })
	p := &point{x: make([]float64, it.cols)}
	it.repair(p.x)
	if !(now.primal < 1e-9) || !it.meetsFloors(p.x) {
		if first.asked() {
			return first.solution(), nil
		}
		return Solution{}, unfinished(what, now.primal)
	}
	sol := c.solution(p)
	sol.Value, sol.Gap = c.leastRatio(p.x), 0
	return sol, nil
}

// met is a point that meets demands.
type met struct {
	*maxMinProgram // nil: nothing was demanded
	point          *point
	factor         float64 // every demand can be multiplied by at least this
}

func (m *met) asked() bool { return m.maxMinProgram != nil }

func (m *met) solution() Solution {
	sol := m.maxMinProgram.solution(m.point)
	sol.Value, sol.Gap = m.factor, 0
	return sol
}

// meet looks for the largest factor by which every demand can be multiplied, until it is known whether that is at least 1, with
// some way to go.
func meet(what string, s *Sharing, pairing *pairing, asked []float64) (met, error) {
	inverse := make([]float64, len(s.Rate))
	any := false
	for i, d := range asked {
		if d > 0 {
			if s.idle(pairing, i) {
				return met{}, fmt.Errorf("%s: %w: job %d is to get %g done per second and gets nothing done on any device", what, ErrInfeasible, i, d)
			}
			inverse[i] = 1 / d
			any = true
		}
	}
	if !any {
		return met{}, nil
	}
	m := newMaxMin(s, pairing, inverse, nil)
	p, _ := m.optimise(m.set, func(p *point) bool { return p.value*m.scale > 1.05 || p.bound*m.scale < 1-slackGap })
	switch factor := p.value * m.scale; {
	case factor >= 1-slackGap:
		return met{m, p, factor}, nil
	case p.bound*m.scale < 1-slackGap || m.judge(what, p.gap()) == nil:
		return met{}, fmt.Errorf("%s: %w: at most %.6g of every demand can be met", what, ErrInfeasible, p.bound*m.scale)
	default:
		return met{}, unfinished(what, p.gap())
	}
}

// beginAt moves a fresh iterate of a centred program to a point that meets the floors with a factor above 1: the shares are
// cut by its square root, which leaves room in every row, and a little of the room goes to every column.
func (s *interior) beginAt(c *layout, from *met) {
	cut := 1 / math.Sqrt(from.factor)
	room := 0.5 * (1 - cut)
	for j := range s.capacity {
		s.x[s.c0+j] = s.capacity[j]
	}
	for g, m := range s.count {
		time, rate := 0.0, 0.0
		source := from.groupOf[c.member[g]]
		for k := s.start[g]; k < s.start[g+1]; k++ {
			x := room * s.x[k]
			if source >= 0 {
				x += cut * from.point.x[from.start[source]+k-s.start[g]]
			}
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

// leastRatio is the smallest part of a floor that is met.
func (p *program) leastRatio(x []float64) float64 {
	least := math.Inf(1)
	for g := range p.count {
		if !p.floored[g] {
			continue
		}
		rate := 0.0
		for k := p.start[g]; k < p.start[g+1]; k++ {
			rate += p.rate[k] * x[k]
		}
		least = min(least, rate/p.floor[g])
	}
	if math.IsInf(least, 1) {
		return 0
	}
	return least
}

func zeros(rows, cols int) [][]float64 {
	if rows == 0 {
		return nil
	}
	flat := make([]float64, rows*cols)
	out := make([][]float64, rows)
	for i := range out {
		out[i] = flat[i*cols : (i+1)*cols : (i+1)*cols]
	}
	return out
}
