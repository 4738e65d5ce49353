package solve

import "math"

// MaxMin maximizes min_i weight_i · throughput_i over the jobs with a positive weight (nil: all weights are 1),
// subject to a minimum throughput floor_i of each job (nil: none; met to 1e-9 relative, with pairs to 1e-6). When a
// weighted job has no throughput on any device, the value is 0 and the shares are those of the program without such
// jobs. Without any weighted job, the value is 0 and the shares are those of Demand.
func MaxMin(s Sharing, weight, floor []float64) (Solution, error) {
	return maxMin("max-min", &s, weight, floor, false)
}

// Central returns a solution of MaxMin at the analytic centre of the optimal face, as interior-point solvers do.
// Shares on types where a job has no throughput are treated like all others, so some may be positive. With pairs, the
// centre is taken over the pairs that have columns.
func Central(s Sharing, weight, floor []float64) (Solution, error) {
	return maxMin("central max-min", &s, weight, floor, true)
}

// maxMin implements MaxMin and Central. Floors are handled in two stages: meet establishes feasibility and supplies
// the pairs needed, then the program with the objective is solved.
func maxMin(what string, s *Sharing, weight, floor []float64, central bool) (Solution, error) {
	if err := s.check(what, weight, floor); err != nil {
		return Solution{}, err
	}
	pairing, err := newPairing(what, s, nil)
	if err != nil {
		return Solution{}, err
	}
	m := newMaxMin(s, pairing, weight, floor)
	// No weighted job can progress: any shares that meet the floors are optimal.
	if !m.rising {
		sol, err := demand(what, s, pairing, floor)
		sol.Value = 0
		return sol, err
	}
	first, err := meet(what, s, pairing, floor)
	if err != nil {
		return Solution{}, err
	}
	// Start with the pairs that the floors required.
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

// manyGroups is the minimum number of distinct groups for which the cutting-plane method is tried. With fewer, the
// interior-point method is faster than an attempt that may fail.
const manyGroups = 64

// best returns an optimal point. Where the capacities alone bind, it is the result of the cutting-plane method. If
// the point must be central, that result is used only if the optimum is unique; otherwise the optima differ only in
// where jobs run.
func (m *maxMinProgram) best(central bool) *point {
	if m.pairing == nil && m.groups() >= manyGroups {
		m.set()
		if c := newCutting(m.program); c != nil {
			if p := c.solve(m.wanted); p != nil && (!central || c.alone()) {
				return p
			}
		}
	}
	for {
		p, it := m.optimise(m.set, nil)
		if central {
			it.recentre(p)
		}
		if !m.separate(p) {
			return p
		}
	}
}

// judge returns ErrUnfinished when the gap exceeds the promised one, else nil. The promised gap is larger with pairs,
// and larger still where jobs of one class have different rates beside each other (nearly).
func (l *layout) judge(what string, gap float64) error {
	limit := promisedGap
	switch {
	case l.pairing == nil:
	case l.pairing.uneven():
		limit = maxPairRateSpread
	default:
		limit = promisedPairsGap
	}
	if gap <= limit {
		return nil
	}
	return unfinished(what, gap)
}

// recentre moves the point to the central path at the current gap unless that lowers the objective or violates a
// floor.
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

// maxMinProgram is the program of MaxMin, with t in units of scale.
type maxMinProgram struct {
	*layout
	weight weights
	floor  []float64
	base   []float64 // throughput at t = 0; nil: 0
	scale  float64
	stuck  bool // a weighted job has no throughput on any device
}

// newMaxMin builds the program. The unit of t is the weighted throughput of the worst job under an equal split of the
// cluster.
func newMaxMin(s *Sharing, p *pairing, weight, floor []float64) *maxMinProgram {
	m := &maxMinProgram{weight: weight, floor: floor, scale: math.Inf(1)}
	for i := range s.Rate {
		m.stuck = m.stuck || m.weight.of(i) > 0 && s.idle(p, i)
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

// risingWeight returns the weight of a job in the objective, or 0 for a job without throughput on any device.
func (m *maxMinProgram) risingWeight(i int) float64 {
	if m.sharing.idle(m.pairing, i) {
		return 0
	}
	return m.weight.of(i)
}

// worst returns the objective value of the shares of a solution.
func (m *maxMinProgram) worst(sol *Solution) float64 {
	least := math.Inf(1)
	for i, v := range sol.done(m.sharing) {
		if w := m.risingWeight(i); w > 0 {
			least = min(least, w*v)
		}
	}
	return least
}

// weights are the weights of the jobs; nil: all are 1.
type weights []float64

func (w weights) of(i int) float64 {
	if w == nil {
		return 1
	}
	return w[i]
}

// set writes the levels, bases and floors of the groups into the program.
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

// setFloors sets the minimum throughputs of the jobs; nil sets none.
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

// equalPart returns the approximate throughput of a job under an equal split of every device type among all jobs.
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
	if rate == 0 { // the job progresses only when co-located
		rate = l.pairing.best(i) * min(1, time) / 2
	}
	return rate
}
