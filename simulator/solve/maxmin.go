package solve

import "math"

// MaxMin maximises min_i weight_i · (what job i gets done per second), over jobs with a weight above 0 (nil: all count 1), where
// each job also gets at least floor_i (nil: none; met to 1e-9 relative). When a weighted job can get nothing done anywhere the
// value is 0 and the shares are those of the program without such jobs. Without a weighted job the value is 0 and the shares
// are those of Demand.
func MaxMin(s Sharing, weight, floor []float64) (Solution, error) {
	return maxMin("max-min", &s, weight, floor, false)
}

// Central is a solution of MaxMin in the middle of the optimal face (the analytic centre), as interior-point solvers return.
// Shares on kinds where a job gets nothing done count like all others there, so some may be above 0.
func Central(s Sharing, weight, floor []float64) (Solution, error) {
	return maxMin("central max-min", &s, weight, floor, true)
}

func maxMin(what string, s *Sharing, weight, floor []float64, central bool) (Solution, error) {
	if err := s.check(what, weight, floor); err != nil {
		return Solution{}, err
	}
	m := newMaxMin(s, weight, floor)
	if !m.rising {
		sol, err := demand(what, s, floor)
		sol.Value = 0
		return sol, err
	}
	if _, err := s.meet(what, floor); err != nil {
		return Solution{}, err
	}
	it := newInterior(m.program)
	it.begin()
	p := it.optimise(nil)
	if gap := p.gap(); !(gap <= promisedGap) {
		return Solution{}, unfinished(what, gap)
	}
	if central {
		it.recentre(p)
	}
	sol := Solution{X: m.shares(s, p.x), Value: p.value * m.scale, Gap: p.gap()}
	if m.stuck {
		sol.Value, sol.Gap = 0, 0
	}
	return sol, nil
}

// recentre moves the point to the central path at the smallest gap that rounding allows, when it stays as good.
func (s *interior) recentre(p *point) {
	mu := s.measure().mu
	s.centre(mu, 20)
	trial := make([]float64, s.cols)
	s.repair(trial)
	if v := s.valueOf(trial); v >= p.value-slackGap*math.Abs(p.value) && s.meetsFloors(trial) {
		copy(p.x, trial)
		p.value = v
	}
}

// maxMinProgram is the program of MaxMin, with t in the unit of scale.
type maxMinProgram struct {
	*alone
	scale float64
	stuck bool // a weighted job can get nothing done
}

// newMaxMin builds the program. The unit of t is what the worst job has when every kind is cut into equal parts.
func newMaxMin(s *Sharing, weight, floor []float64) *maxMinProgram {
	m := &maxMinProgram{scale: math.Inf(1)}
	weightOf := func(i int) float64 {
		if weight == nil {
			return 1
		}
		return weight[i]
	}
	m.alone = groupAlone(s, func(i int) bool {
		idle := s.best(i) == 0
		m.stuck = m.stuck || idle && weightOf(i) > 0
		return idle
	}, nil, weight, floor)
	for g, i := range m.member {
		if w := weightOf(i); w > 0 {
			m.scale = min(m.scale, w*s.equalPart(i))
		}
		if floor != nil && floor[i] > 0 {
			m.setFloor(g, floor[i]/m.unit[g])
		}
	}
	for g, i := range m.member {
		if w := weightOf(i); w > 0 {
			m.setLevel(g, m.scale/w/m.unit[g])
			m.rising = true
		}
	}
	return m
}

// equalPart is what a job gets done when every kind is cut into equal parts for all jobs.
func (s *Sharing) equalPart(i int) float64 {
	n := float64(len(s.Rate))
	time, rate := 0.0, 0.0
	for j, d := range s.Devices {
		x := d / (n * s.Scale[i])
		time += x
		rate += x * s.Rate[i][j]
	}
	return rate / max(1, time)
}
