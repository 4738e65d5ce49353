package rounds

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule/solve"
)

// maxSumThroughput maximises the steps per second of all jobs together, or those per dollar of the device's price (Gavel, section
// 4.2), where with deadlines every job that has one gets at least R_i / D_i, steps that remain by seconds that are left. One program
// in each decision, and a few more when deadlines cannot all be met.
type maxSumThroughput struct {
	solver
	perDollar bool
	deadlines bool
}

var _ Described = maxSumThroughput{}

func newMaxSumThroughput(o PolicyOptions) Policy {
	return maxSumThroughput{solver: solver{"ThroughputSumWithPerf", measured, o.Compat}}
}

func newMaxSumPerDollar(sees sight, deadlines bool) func(PolicyOptions) Policy {
	return func(o PolicyOptions) Policy {
		return maxSumThroughput{solver{"ThroughputNormalizedByCostSum", sees, o.Compat}, true, deadlines}
	}
}

// Traits are those of the policy in Gavel, whose names do not follow the rule of the others.
func (p maxSumThroughput) Traits() Traits {
	t := p.solver.Traits()
	switch {
	case !p.perDollar:
		t.Name = p.name
	case p.deadlines:
		t.Name += "SLOs"
	}
	return t
}

// Decide solves the program. With compat, deadlines are met all or are disregarded all. Else as many as possible are met.
func (p maxSumThroughput) Decide(s *Snapshot) (Allocation, error) {
	g := p.program(s)
	if len(g.jobs) == 0 {
		return Allocation{}, nil
	}
	value, pairs, err := p.values(g)
	if err != nil {
		return Allocation{}, err
	}
	sol, err := p.solve(g, func(s solve.Sharing, floor []float64) (solve.Solution, error) {
		return solve.MaxSum(s, value, pairs[:len(s.Pairs)], floor)
	})
	return g.allocation(sol), err
}

// solve chooses the floors of a program.
func (p maxSumThroughput) solve(g *program, with func(s solve.Sharing, floor []float64) (solve.Solution, error)) (solve.Solution, error) {
	pace := g.paces()
	switch {
	case !p.deadlines || !slices.ContainsFunc(pace, func(v float64) bool { return v > 0 }):
		return g.solve(func(s solve.Sharing) (solve.Solution, error) { return with(s, nil) })
	case p.compat:
		sol, err := usable(with(g.Sharing, pace))
		if errors.Is(err, solve.ErrInfeasible) || errors.Is(err, solve.ErrUnfinished) {
			return g.solve(func(s solve.Sharing) (solve.Solution, error) { return with(s, nil) })
		}
		return sol, err
	}
	floor, err := g.meetable(pace)
	if err != nil {
		return solve.Solution{}, err
	}
	return g.above(floor, with)
}

// values are what the time of a job, and of a pair, on a device type is worth. A cluster of which no price is known has equal
// prices.
func (p maxSumThroughput) values(g *program) (alone, pairs [][]float64, err error) {
	price := make([]float64, len(g.Devices))
	unknown := 0
	for d := range price {
		price[d] = g.snapshot.Devices[d].USDHour
		if math.IsNaN(price[d]) || !p.perDollar {
			price[d] = 1
			unknown++
		}
		if !(price[d] > 0) {
			return nil, nil, fmt.Errorf("steps per dollar: %s costs %v USD/h, want a number above 0", g.snapshot.Devices[d].Name, price[d])
		}
	}
	if unknown > 0 && unknown < len(price) {
		return nil, nil, fmt.Errorf("steps per dollar: the price of %d of %d device types is unknown", unknown, len(price))
	}
	alone = make([][]float64, len(g.Rate))
	for i, r := range g.Rate {
		alone[i] = make([]float64, len(price))
		for d := range r {
			alone[i][d] = r[d] / price[d]
		}
	}
	pairs = make([][]float64, len(g.Pairs))
	for k := range g.Pairs {
		pairs[k] = make([]float64, len(price))
		for d := range price {
			pairs[k][d] = (g.Pairs[k].RateA[d] + g.Pairs[k].RateB[d]) / price[d]
		}
	}
	return alone, pairs, nil
}

// paces are the steps/s that deadlines ask for; 0 where there is none, or where it has passed.
func (g *program) paces() []float64 {
	pace := make([]float64, len(g.jobs))
	for i := range pace {
		j := g.job(i)
		if left := j.Deadline - g.snapshot.Now; left > 0 {
			pace[i] = j.Remaining / left
		}
	}
	return pace
}

// almost is what is taken for all of a pace.
const almost = 1 - 1e-8

// meetable are floors that can be met: the paces of as many deadlines as possible. It goes through deadlines from the earliest,
// and where they cannot all be met it gives up the one that takes most of the cluster (Moore's rule for the fewest late jobs).
// Jobs that are given up get what the objective gives them: floors in proportion to their paces made more jobs late (125 of
// 600 instead of 116), because what is spread over all of them saves none.
func (g *program) meetable(pace []float64) ([]float64, error) {
	var open []int
	for i, v := range pace {
		if v > 0 && v*almost <= g.bestRate(i) {
			open = append(open, i)
		}
	}
	slices.SortStableFunc(open, func(a, b int) int { return cmp.Compare(g.job(a).Deadline, g.job(b).Deadline) })
	for from := 0; ; {
		n, err := g.prefix(pace, open, from)
		if err != nil {
			return nil, err
		}
		if n == len(open) {
			break
		}
		heaviest := 0
		for k := range n + 1 {
			if g.load(open[k], pace) > g.load(open[heaviest], pace) {
				heaviest = k
			}
		}
		open = slices.Delete(open, heaviest, heaviest+1)
		if from = n; heaviest < n {
			from--
		}
	}
	floor := make([]float64, len(pace))
	for _, i := range open {
		floor[i] = pace[i]
	}
	return floor, nil
}

// load is the part of a device type that a pace takes where the job is fastest.
func (g *program) load(i int, pace []float64) float64 { return g.Scale[i] * pace[i] / g.bestRate(i) }

// prefix is how many of the deadlines can be met together, from the first; the first n are known to be.
func (g *program) prefix(pace []float64, order []int, n int) (int, error) {
	lo, hi := n, len(order)
	for try := hi; lo < hi; try = lo + (hi-lo+1)/2 {
		ok, err := g.meets(pace, order[:try])
		switch {
		case err != nil:
			return 0, err
		case ok:
			lo = try
		default:
			hi = try - 1
		}
	}
	return lo, nil
}

// meets says whether some jobs can all have their paces. The program without pairs is the smaller one, and often enough.
func (g *program) meets(pace []float64, who []int) (bool, error) {
	weight := make([]float64, len(pace))
	for _, i := range who {
		weight[i] = 1 / pace[i]
	}
	alone := g.Sharing
	alone.Pairs = nil
	sol, err := usable(solve.MaxMin(alone, weight, nil))
	if err == nil && sol.Value < almost && len(g.Pairs) > 0 {
		sol, err = g.solve(func(s solve.Sharing) (solve.Solution, error) { return solve.MaxMin(s, weight, nil) })
	}
	return err == nil && sol.Value >= almost, err
}
