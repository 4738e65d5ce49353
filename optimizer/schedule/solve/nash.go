package solve

import "math"

// Nash maximizes Σ_i log(weight_i · throughput of job i), which is proportional fairness. Jobs with weight 0 and jobs
// without any throughput are excluded from the sum and receive nothing. Gap is the relative gap of the geometric
// mean.
func Nash(s Sharing, weight []float64) (Solution, error) {
	const what = "proportional fairness"
	if err := s.check(what, weight); err != nil {
		return Solution{}, err
	}
	pairing, err := newPairing(what, &s, nil)
	if err != nil {
		return Solution{}, err
	}
	m := newLayout(&s, pairing, nil, nil, weight)
	counts := func(i int) bool { return !s.idle(pairing, i) && (weight == nil || weight[i] > 0) }
	for _, i := range m.member {
		m.logs = m.logs || counts(i)
	}
	if !m.logs {
		return Solution{X: zeros(len(s.Rate), len(s.Devices)), Pairs: zeros(len(s.Pairs), len(s.Devices))}, nil
	}
	p, _ := m.optimise(func() {
		for g, i := range m.member {
			if counts(i) {
				m.setLevel(g, 0)
			}
		}
	}, nil)
	sol := m.solution(p)
	sol.Gap = math.Expm1(sol.Gap)
	for i, g := range m.groupOf {
		if g >= 0 && counts(i) {
			sol.Value += math.Log(m.unit[g])
			if weight != nil {
				sol.Value += math.Log(weight[i])
			}
		}
	}
	return sol, m.judge(what, sol.Gap)
}
