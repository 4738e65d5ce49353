package share

import (
	"fmt"
	"math"

	"trainopt/optimizer/schedule"
	"trainopt/optimizer/schedule/solve"
)

// strategyProof maximizes the geometric mean of the throughputs (Nash welfare) and withholds from each job the
// fraction by which it reduces the others, so that no job gains by misreporting rates (Cole, Gkatzelis and Goel,
// "Mechanism Design for Fair Division", EC 2013; an unnamed class in Gavel). The withheld shares stay unused:
// redistributing them would invalidate the proof. One program for each kind of job per decision.
type strategyProof struct{ solver }

func newStrategyProof(view throughputView) func(Options) schedule.Policy {
	return func(o Options) schedule.Policy {
		return strategyProof{solver{"MaxMinFairnessStrategyProof", view, o.Compat}}
	}
}

// Decide solves the programs.
func (p strategyProof) Decide(s *schedule.Snapshot) (schedule.Allocation, error) {
	g := p.program(s)
	if len(g.jobs) == 0 {
		return schedule.Allocation{}, nil
	}
	weight, err := p.fairWeights(g)
	if err != nil {
		return schedule.Allocation{}, err
	}
	sol, err := usable(solve.Nash(g.Sharing, weight))
	if err != nil {
		return schedule.Allocation{}, err
	}
	discount, err := g.discounts(sol, weight)
	for i := range discount {
		for d := range sol.X[i] {
			sol.X[i][d] *= discount[i]
		}
	}
	return g.allocation(sol), err
}

// discounts returns, by job, the product over all other jobs of the ratio of their throughput with the job to that
// without it. Jobs that are equal in all numbers share a discount.
func (g *program) discounts(with solve.Solution, weight []float64) ([]float64, error) {
	all := g.done(with)
	known := map[string]float64{}
	out := make([]float64, len(g.jobs))
	for i := range out {
		key := fmt.Sprint(g.Rate[i], g.Scale[i])
		f, ok := known[key]
		if !ok {
			var err error
			if f, err = g.discount(i, all, weight); err != nil {
				return nil, err
			}
			known[key] = f
		}
		out[i] = f
	}
	return out, nil
}

// discount solves the program without job i and returns its discount, at most 1.
func (g *program) discount(i int, all, weight []float64) (float64, error) {
	rest := program{Sharing: solve.Sharing{Devices: g.Devices}}
	var w, before []float64
	for k := range g.jobs {
		if k != i {
			rest.Rate = append(rest.Rate, g.Rate[k])
			rest.Scale = append(rest.Scale, g.Scale[k])
			w = append(w, weight[k])
			before = append(before, all[k])
		}
	}
	if len(w) == 0 {
		return 1, nil
	}
	sol, err := usable(solve.Nash(rest.Sharing, w))
	if err != nil {
		return 0, err
	}
	log := 0.0
	for k, x := range rest.done(sol) {
		log += math.Log(before[k] / x)
	}
	return min(math.Exp(log), 1), nil
}
