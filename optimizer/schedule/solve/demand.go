package solve

import (
	"fmt"
	"math"
)

// Demand returns shares that give each job at least its demanded throughput (met to 1e-9 relative, with pairs to
// 1e-6), or ErrInfeasible. The shares are the analytic centre of the feasible set, as returned by an interior-point
// solver without an objective; with pairs, the centre is taken over the pairs that have columns. Value is min_i
// throughput_i / demand_i over the jobs with a demand, or 0 when no job has one.
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

// demand implements Demand on validated input; nil means no demands. It first finds a point that meets the demands
// and then moves it to the analytic centre, unless the demands leave no slack.
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
		return first.solution(), nil // no slack to distribute
	}
	it := newInterior(c.program)
	it.begin()
	if first.asked() {
		it.beginAt(c, &first)
	}
	now := it.run(func(now progress) bool { return now.primal < 1e-11 && now.dual < 1e-7 && now.spread < 1e-7 })
	p := &point{x: make([]float64, it.cols)}
	it.repair(p.x)
	// Without convergence, the point found first still meets the demands.
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

// met is a point that meets the demands.
type met struct {
	*maxMinProgram // nil: no demands
	point          *point
	factor         float64 // lower bound on the common factor by which all demands could be multiplied
}

func (m *met) asked() bool { return m.maxMinProgram != nil }

func (m *met) solution() Solution {
	sol := m.maxMinProgram.solution(m.point)
	sol.Value, sol.Gap = m.factor, 0
	return sol
}

// meet maximizes the common factor by which every demand can be multiplied. It stops early once the factor is known
// to be below 1 or comfortably (5 %) above it.
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

// beginAt moves a fresh iterate of a centred program to an interior point derived from a point that meets the floors
// with a factor above 1. The shares are divided by the square root of the factor, which leaves slack in every row,
// and part of that slack is distributed over all columns.
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

// leastRatio returns the smallest ratio of progress to floor over the floored groups, or 0 without floors.
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
