package share

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// maxSumThroughput maximizes the total throughput of all jobs, or the throughput per dollar of device price (Gavel,
// section 4.2). With deadlines, every job with a deadline has a minimum throughput of R_i / D_i, remaining steps by
// remaining seconds. One program per decision, and a few more when not all deadlines can be met.
type maxSumThroughput struct {
	solver
	perDollar bool
	deadlines bool
}

func newMaxSumThroughput(o Options) schedule.Policy {
	return maxSumThroughput{solver: solver{"ThroughputSumWithPerf", heterogeneousView, o.Compat}}
}

func newMaxSumPerDollar(view throughputView, deadlines bool) func(Options) schedule.Policy {
	return func(o Options) schedule.Policy {
		return maxSumThroughput{solver{"ThroughputNormalizedByCostSum", view, o.Compat}, true, deadlines}
	}
}

// Traits returns those of the policy in Gavel, whose names are irregular.
func (p maxSumThroughput) Traits() schedule.Traits {
	t := p.solver.Traits()
	switch {
	case !p.perDollar:
		t.Name = p.name
	case p.deadlines:
		t.Name += "SLOs"
	}
	return t
}

// Decide solves the program. In compat mode, either all deadlines are met or all are ignored; otherwise as many as
// possible are met.
func (p maxSumThroughput) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	if len(g.jobs) == 0 {
		return schedule.Allocation{}, nil
	}
	value, pairs, err := p.values(g)
	if err != nil {
		return schedule.Allocation{}, err
	}
	sol, err := p.solve(g, func(s solve.Sharing, floor []float64) (solve.Solution, error) {
		return solve.MaxSum(s, value, pairs[:len(s.Pairs)], floor)
	})
	return g.allocation(sol), err
}

// solve selects the floors of a program and solves it.
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

// values returns the objective coefficients of jobs and pairs by device type. If no price of the cluster is known,
// all prices are 1.
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
	// Either all prices are known or none is.
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

// paces returns the throughput in steps/s required by each deadline; 0 without a deadline or after it has passed.
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

// almost is the fraction of a pace that counts as all of it.
const almost = 1 - 1e-8

// meetable returns feasible floors: the paces of as many deadlines as possible. It adds deadlines in ascending order
// and, when they become infeasible, drops the one with the largest load on the cluster (Moore's rule for the minimum
// number of late jobs). Dropped jobs receive what the objective assigns to them: floors in proportion to their paces
// made more jobs late (125 of 600 instead of 116), because the capacity spread over all of them saved none.
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

// load returns the number of devices that a pace occupies where the job is fastest.
func (g *program) load(i int, pace []float64) float64 { return g.Scale[i] * pace[i] / g.bestRate(i) }

// prefix returns the number of deadlines, from the first, that can be met together; the first n are known to be
// feasible. Found by bisection.
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

// meets reports whether the given jobs can all have their paces. The program without pairs is tried first: it is
// smaller and often sufficient.
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
