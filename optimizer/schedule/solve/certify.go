package solve

import "math"

// point is a feasible point of a program: shares by column, for one job of the group.
type point struct {
	x            []float64
	value, bound float64 // bound: dual bound on the objective
	latest       float64 // bound from the most recent duals
	unit         float64 // lower bound of the unit in which gaps are measured
}

// gap returns the relative distance of the value from the bound. A value above the bound, which occurs only where
// floors are missed by rounding, counts by its excess.
func (p *point) gap() float64 {
	d := math.Abs(p.bound - p.value)
	if d == 0 {
		return 0
	}
	if math.IsNaN(d) || math.IsInf(d, 1) {
		return math.Inf(1)
	}
	return d / max(math.Abs(p.bound), math.Abs(p.value), p.unit)
}

// repair copies the shares of the iterate and removes rounding errors that would violate a time or capacity row.
func (s *interior) repair(x []float64) {
	for k := range x {
		x[k] = max(0, s.x[k])
	}
	s.fit(x)
}

// fit shrinks shares where they violate a time or capacity row.
func (p *program) fit(x []float64) {
	usage := make([]float64, len(p.capacity))
	for g, m := range p.count {
		time := 0.0
		for k := p.start[g]; k < p.start[g+1]; k++ {
			time += x[k]
		}
		shrink := 1.0
		if time > 1 {
			shrink = 1 / time
		}
		for k := p.start[g]; k < p.start[g+1]; k++ {
			x[k] *= shrink
			usage[p.kind[k]] += m * p.use[k] * x[k]
		}
	}
	// Factors by which the columns of each kind must shrink.
	over := false
	for j, c := range p.capacity {
		usage[j] = min(1, c/usage[j])
		over = over || usage[j] < 1
	}
	if over {
		for k := range x {
			x[k] *= usage[p.kind[k]]
		}
	}
}

// valueOf returns the objective at x.
func (p *program) valueOf(x []float64) float64 {
	sum, least := 0.0, math.Inf(1)
	for g, m := range p.count {
		rate := 0.0
		for k := p.start[g]; k < p.start[g+1]; k++ {
			rate += p.rate[k] * x[k]
			sum += m * p.gain[k] * x[k]
		}
		switch {
		case p.levelled[g] && p.logs:
			sum += m * math.Log(rate)
		case p.levelled[g] && p.level[g] > 0:
			least = min(least, (rate-p.base[g])/p.level[g])
		}
	}
	if p.rising {
		return least
	}
	return sum
}

// dualBound returns the upper bound on the objective that the duals of the iterate prove. For any nonnegative prices
// of capacities, progress and minimum progress it is Σ capacity·price + Σ price of each job's time − the priced
// floors. The price of a job's time is the lowest that its columns allow. A logarithm is bounded by its tangent, log
// v ≤ price·v − 1 − log price.
func (s *interior) dualBound() float64 {
	bound, level := 0.0, 0.0
	for j, c := range s.capacity {
		bound += c * s.z[s.c0+j]
	}
	for g, m := range s.count {
		progress, least := s.z[s.v0+g], s.z[s.w0+g]
		bound += m * (s.timePrice(g) - least*s.floor[g] - progress*s.base[g])
		level += m * progress * s.level[g]
		if s.logs && s.levelled[g] {
			bound -= m * (1 + math.Log(progress))
		}
	}
	if s.rising {
		bound /= level
	}
	return bound
}

// timePrice returns the lowest price of a job's time at which no column has a positive reduced profit.
func (s *interior) timePrice(g int) float64 {
	best := 0.0
	both := s.z[s.v0+g] + s.z[s.w0+g]
	for k := s.start[g]; k < s.start[g+1]; k++ {
		v := both*s.rate[k] + s.gain[k] - s.use[k]*s.z[s.c0+int(s.kind[k])]
		if l := s.link[k]; l >= 0 {
			v -= s.side[k] * s.linkPrice[l]
		}
		best = max(best, v)
	}
	return best
}

// levelPrice returns Σ count · level · price of progress, the divisor of bounds on t.
func (s *interior) levelPrice() float64 {
	sum := 0.0
	for g, m := range s.count {
		sum += m * s.level[g] * s.z[s.v0+g]
	}
	return sum
}

// optimise runs a linear program until the certified gap is at most wanted, and returns the best certified point. It
// stops earlier when enough returns true (nil: never).
func (s *interior) optimise(wanted float64, enough func(*point) bool) *point {
	s.threeType = newThreeTypeInterior(s)
	best := &point{x: make([]float64, s.cols), value: math.Inf(-1), bound: math.Inf(1), unit: s.unit()}
	trial := make([]float64, s.cols)
	look := func() bool {
		s.current()
		best.latest = s.dualBound()
		best.bound = min(best.bound, best.latest)
		s.repair(trial)
		if !s.meetsFloors(trial) {
			return false
		}
		next := point{value: s.valueOf(trial), bound: best.bound, unit: best.unit}
		if next.gap() < best.gap() {
			best.value = next.value
			copy(best.x, trial)
		}
		return best.gap() <= wanted || enough != nil && enough(best)
	}
	s.run(func(now progress) bool {
		near := now.gap < max(1e-5, 10*wanted)*s.worth && now.primal < 1e-6
		return (near || enough != nil) && look()
	})
	look()
	return best
}

// unit returns the smallest unit in which gaps are measured, since floors may reduce the objective to nearly 0: one
// thousandth of about the value of an equal split. Logarithms are compared per job, so that the gap is that of their
// geometric mean.
func (p *program) unit() float64 {
	if !p.logs {
		return 1e-3
	}
	jobs := 0.0
	for g, m := range p.count {
		if p.levelled[g] {
			jobs += m
		}
	}
	return jobs
}

// meetsFloors reports whether the minimum progress is met up to slackGap, or slackPairsGap with links.
func (p *program) meetsFloors(x []float64) bool {
	slack := slackGap
	if p.links > 0 {
		slack = slackPairsGap
	}
	for g := range p.count {
		if !p.floored[g] {
			continue
		}
		rate := 0.0
		for k := p.start[g]; k < p.start[g+1]; k++ {
			rate += p.rate[k] * x[k]
		}
		if rate < p.floor[g]*(1-slack) {
			return false
		}
	}
	return true
}

// begin places the iterate: shares from an equal split of the cluster, and prices at which the value of the whole
// cluster equals the objective of that split.
func (s *interior) begin() {
	jobs := 0.0
	for _, m := range s.count {
		jobs += m
	}
	const inside = 0.6
	worth := s.beginShares(inside, jobs)
	s.worth = worth
	J := float64(len(s.capacity))
	for j, c := range s.capacity {
		i := s.c0 + j
		s.x[i] = max(c-s.x[i], 0.1*c)
		s.z[i] = worth / (J * c)
		if s.centred {
			s.z[i] = 1 / s.x[i]
		}
	}
	for g := range s.count {
		s.beginPrices(g, worth, jobs)
	}
}

// beginShares sets the columns and the slacks of the groups and returns the objective at that point. The usage of
// each capacity is left in the entry of its slack.
func (s *interior) beginShares(inside, jobs float64) float64 {
	least, sum := math.Inf(1), 0.0
	for g, m := range s.count {
		time, rate := 0.0, 0.0
		for k := s.start[g]; k < s.start[g+1]; k++ {
			s.x[k] = s.capacity[s.kind[k]] / (jobs * s.use[k] * float64(s.columnsOf(g, s.kind[k])))
			time += s.x[k]
		}
		shrink := inside / max(1, time)
		for k := s.start[g]; k < s.start[g+1]; k++ {
			s.x[k] *= shrink
			rate += s.rate[k] * s.x[k]
			sum += m * max(0, s.gain[k]) * s.x[k]
			s.x[s.c0+int(s.kind[k])] += m * s.use[k] * s.x[k]
		}
		s.x[s.u0+g] = 1 - time*shrink
		s.x[s.v0+g] = rate // t is subtracted below
		if s.levelled[g] && s.level[g] > 0 {
			least = min(least, (rate-s.base[g])/s.level[g])
		}
		if s.floored[g] {
			s.x[s.w0+g] = max(rate-s.floor[g], 0.1*s.floor[g])
		}
	}
	// Place t below the level of every group, so that all slacks are positive.
	if s.rising {
		s.t = least - 0.5*max(1, math.Abs(least))
		for g := range s.count {
			s.x[s.v0+g] -= s.base[g] + s.level[g]*s.t
		}
		return max(1, least)
	}
	if s.logs || s.centred {
		return jobs
	}
	return max(sum, 1e-3)
}

// beginPrices sets the duals of a group so that its columns are dual feasible with positive slacks; for centred
// programs it sets them to the reciprocals of the primal variables.
func (s *interior) beginPrices(g int, worth, jobs float64) {
	u, v, w := s.u0+g, s.v0+g, s.w0+g
	share := worth / jobs
	if s.levelled[g] {
		switch {
		case s.logs || s.centred:
			s.z[v] = 1 / s.x[v]
		default:
			s.z[v] = 1 / (jobs * s.level[g])
		}
	} else {
		s.x[v] = 1
	}
	if s.floored[g] {
		s.z[w] = 0.1 * share / s.floor[g]
	}
	// The price of time makes the duals of all columns positive.
	most := 0.0
	for k := s.start[g]; k < s.start[g+1]; k++ {
		s.z[k] = s.use[k]*s.z[s.c0+int(s.kind[k])] - (s.z[v]+s.z[w])*s.rate[k] - s.gain[k]
		most = max(most, -s.z[k])
	}
	s.z[u] = most + 0.1*share
	for k := s.start[g]; k < s.start[g+1]; k++ {
		s.z[k] += s.z[u]
	}
	if s.centred {
		s.z[u] = 1 / s.x[u]
		s.z[w] = 0
		if s.floored[g] {
			s.z[w] = 1 / s.x[w]
		}
		for k := s.start[g]; k < s.start[g+1]; k++ {
			s.z[k] = 1 / s.x[k]
		}
	}
}

// columnsOf returns the number of columns of a group on a kind.
func (p *program) columnsOf(g int, kind int32) int {
	n := 0
	for _, k := range p.kind[p.start[g]:p.start[g+1]] {
		if k == kind {
			n++
		}
	}
	return n
}
