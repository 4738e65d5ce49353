package solve

import "math"

// MaxMin maximises min_i weight_i · (what job i gets done per second), over jobs with a weight above 0 (nil: all count 1), where
// each job also gets at least floor_i (nil: none; met to 1e-9 relative, with pairs to 1e-6). When a weighted job can get nothing done anywhere the
// value is 0 and the shares are those of the program without such jobs. Without a weighted job the value is 0 and the shares
// are those of Demand.
func MaxMin(s Sharing, weight, floor []float64) (Solution, error) {
	return maxMin("max-min", &s, weight, floor, false)
}

// Central is a solution of MaxMin in the middle of the optimal face (the analytic centre), as interior-point solvers return.
// Shares on kinds where a job gets nothing done count like all others there, so some may be above 0. With pairs it is the
// middle over those that were needed.
func Central(s Sharing, weight, floor []float64) (Solution, error) {
	return maxMin("central max-min", &s, weight, floor, true)
}

func maxMin(what string, s *Sharing, weight, floor []float64, central bool) (Solution, error) {
	if err := s.check(what, weight, floor); err != nil {
		return Solution{}, err
	}
	pairing, err := newPairing(what, s, nil)
	if err != nil {
		return Solution{}, err
	}
	m := newMaxMin(s, pairing, weight, floor)
	if !m.rising {
		sol, err := demand(what, s, pairing, floor)
		sol.Value = 0
		return sol, err
	}
	first, err := meet(what, s, pairing, floor)
	if err != nil {
		return Solution{}, err
	}
	if first.asked() && pairing != nil {
		m = newMaxMin(s, first.pairing, weight, floor)
		m.activate(first.active)
	}
	sol := m.solution(m.best(central))
	sol.Value = m.scale * sol.Value
	if m.pairing != nil {
		m.revalue(&sol, m.worst(&sol))
	}
	if m.stuck {
		sol.Value, sol.Gap = 0, 0
	}
	return sol, m.judge(what, sol.Gap)
}

// manyGroups is how many different jobs there must be for cutting to pay: below, interior takes less than a try that may fail.
const manyGroups = 64

// best is an optimal point. Where only capacities hold jobs back it is what cutting finds, and the only one or, if it need not be
// central, one of those that differ in where jobs run only.
func (m *maxMinProgram) best(central bool) *point {
	if m.pairing == nil && m.groups() >= manyGroups {
		m.set()
		if c := newCutting(m.program); c != nil {
			if p := c.solve(m.wanted); p != nil && (!central || c.alone()) {
				return p
			}
		}
	}
	p, it := m.optimise(m.set, nil)
	if central {
		it.recentre(p)
	}
	return p
}

// judge is the error of a gap above what is promised; nil below.
func (l *layout) judge(what string, gap float64) error {
	limit := promisedGap
	switch {
	case l.pairing == nil:
	case l.pairing.uneven():
		limit = nearly
	default:
		limit = promisedPairsGap
	}
	if gap <= limit {
		return nil
	}
	return unfinished(what, gap)
}

// recentre moves the point to the central path at the gap reached, when it stays as good.
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
	*layout
	weight, floor []float64
	base          []float64 // nil: 0
	scale         float64
	stuck         bool // a weighted job can get nothing done
}

// newMaxMin builds the program. The unit of t is what the worst job has when every kind is cut into equal parts.
func newMaxMin(s *Sharing, p *pairing, weight, floor []float64) *maxMinProgram {
	m := &maxMinProgram{weight: weight, floor: floor, scale: math.Inf(1)}
	for i := range s.Rate {
		m.stuck = m.stuck || m.weightOf(i) > 0 && s.idle(p, i)
	}
	m.layout = newLayout(s, p, nil, nil, weight, floor)
	for _, i := range m.member {
		if w := m.risingWeight(i); w > 0 {
			m.scale = min(m.scale, w*m.equalPart(i))
			m.rising = true
		}
	}
	return m
}

// risingWeight is the weight of a job whose progress counts: 0 where it gets nothing done anywhere.
func (m *maxMinProgram) risingWeight(i int) float64 {
	if m.sharing.idle(m.pairing, i) {
		return 0
	}
	return m.weightOf(i)
}

// worst is the objective that the shares of a solution have.
func (m *maxMinProgram) worst(sol *Solution) float64 {
	least := math.Inf(1)
	for i, v := range sol.done(m.sharing) {
		if w := m.risingWeight(i); w > 0 {
			least = min(least, w*v)
		}
	}
	return least
}

func (m *maxMinProgram) weightOf(i int) float64 {
	if m.weight == nil {
		return 1
	}
	return m.weight[i]
}

func (m *maxMinProgram) set() {
	for g, i := range m.member {
		if w := m.risingWeight(i); w > 0 {
			m.setLevel(g, m.scale/w/m.unit[g])
			if m.base != nil {
				m.program.base[g] = m.base[i] / m.unit[g]
			}
		}
	}
	m.setFloors(m.floor)
}

// setFloors sets what the jobs are to get done per second at least; nil: nothing.
func (l *layout) setFloors(floor []float64) {
	if floor == nil {
		return
	}
	for g, i := range l.member {
		if floor[i] > 0 {
			l.setFloor(g, floor[i]/l.unit[g])
		}
	}
}

// equalPart is about what a job gets done when every kind is cut into equal parts for all jobs.
func (l *layout) equalPart(i int) float64 {
	s := l.sharing
	n := float64(len(s.Rate))
	time, rate := 0.0, 0.0
	for j, d := range s.Devices {
		x := d / (n * s.Scale[i])
		time += x
		rate += x * s.Rate[i][j]
	}
	rate /= max(1, time)
	if rate == 0 { // it runs beside others only
		rate = l.pairing.best(i) * min(1, time) / 2
	}
	return rate
}
