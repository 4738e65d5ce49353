package network

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"trainopt/internal/wording"
)

// Evolution holds the settings of an evolver. Zero values mean the documented defaults.
type Evolution struct {
	Population int     // candidates per generation; 0: 4 + 3·ln(parameters), Hansen's default
	Sigma      float64 // initial standard deviation of the parameters; 0: 0.3
	Episodes   int     // episodes per candidate, identical for a whole generation; 0: 8
	Workers    int     // number of goroutines; 0: 1. Results do not depend on it.
}

// Validate joins all invalid settings.
func (e Evolution) Validate() error {
	var errs wording.Problems
	errs.If(e.Population < 0 || e.Population == 1 || e.Population > 1<<16, "a population of %d: want 2 to 65536, or 0", e.Population)
	errs.If(!(e.Sigma >= 0 && e.Sigma <= 1e3), "sigma %v: want 0 to 1000", e.Sigma)
	errs.If(e.Episodes < 0 || e.Episodes > 1<<20, "%d episodes: want 1 to %d, or 0", e.Episodes, 1<<20)
	return errors.Join(errs...)
}

// evolver searches the parameters of a policy by an evolution strategy that adapts a diagonal covariance matrix
// (separable CMA-ES, Ros and Hansen 2008): candidates run the same whole episodes with greedy actions, and the better
// half determines the new mean. It suits networks of up to some thousand parameters and episodes whose only reward is
// at the end. Cost per generation: population × episodes, plus O(population × parameters).
type evolver struct {
	l          *Learner
	config     Evolution
	mean       []float64
	deviation  []float64 // of each parameter, in units of sigma
	sigma      float64
	pathSigma  []float64
	pathC      []float64
	weights    []float64
	mass       float64 // effective number of parents
	generation uint64
	candidates []*Policy
}

// NewEvolver returns an evolver that starts at the parameters of the learner and writes the mean of every generation
// to the learner's policy. The critic is not changed.
func NewEvolver(l *Learner, c Evolution) (*evolver, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	e := &evolver{l: l}
	for _, n := range l.nets[:l.layout.policy] {
		for _, p := range n.Params() {
			e.mean = append(e.mean, float64(p))
		}
	}
	n := len(e.mean)
	setDefault(&c.Population, 4+int(3*math.Log(float64(n))))
	setDefault(&c.Sigma, 0.3)
	setDefault(&c.Episodes, 8)
	setDefault(&c.Workers, 1)
	e.config, e.sigma = c, c.Sigma
	e.deviation, e.pathSigma, e.pathC = make([]float64, n), make([]float64, n), make([]float64, n)
	for i := range e.deviation {
		e.deviation[i] = 1
	}
	sum, squares := 0.0, 0.0
	for i := range c.Population / 2 {
		w := math.Log(float64(c.Population+1)/2) - math.Log(float64(i+1))
		e.weights = append(e.weights, w)
		sum += w
	}
	for i := range e.weights {
		e.weights[i] /= sum
		squares += e.weights[i] * e.weights[i]
	}
	e.mass = 1 / squares
	for range c.Population {
		p := l.Policy()
		p.nets = slices.Clone(p.nets)
		for i, n := range p.nets {
			p.nets[i] = New(n.Config, newRNG(0))
		}
		e.candidates = append(e.candidates, p)
	}
	return e, nil
}

// Generation evaluates a new population in environments created by env, one per worker, and updates the mean. It
// returns the mean return of every candidate over its episodes, best first. A NaN return counts as the worst.
// Candidates are normal draws around the mean; the better half, weighted by rank, updates mean and deviations.
func (e *evolver) Generation(env func() Environment) ([]float64, error) {
	n, population := len(e.mean), e.config.Population
	rng := newRNG(e.l.seed, e.generation, forEvolution)
	draws := make([][]float64, population)
	for k := range draws {
		draws[k] = make([]float64, n)
		x := make([]float64, n)
		for i := range x {
			draws[k][i] = e.deviation[i] * rng.NormFloat64()
			x[i] = e.mean[i] + e.sigma*draws[k][i]
		}
		write(e.candidates[k].nets, x)
	}
	fitness, err := e.judge(env)
	if err != nil {
		return nil, err
	}
	order := steps(population)
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case fitness[a] > fitness[b]:
			return -1
		case fitness[a] < fitness[b]:
			return 1
		}
		return 0
	})
	parents := make([][]float64, len(e.weights))
	for i := range parents {
		parents[i] = draws[order[i]]
	}
	e.move(parents)
	write(e.l.nets[:e.l.layout.policy], e.mean)
	e.generation++
	sorted := make([]float64, population)
	for i, k := range order {
		sorted[i] = fitness[k]
	}
	return sorted, nil
}

// judge returns the mean return of every candidate.
func (e *evolver) judge(env func() Environment) ([]float64, error) {
	envs := make([]Environment, e.config.Workers)
	for i := range envs {
		envs[i] = env()
	}
	fitness := make([]float64, len(e.candidates))
	err := each(len(e.candidates), len(envs), func(w, k int) error {
		for i := range e.config.Episodes {
			r, err := playGreedily(e.candidates[k], envs[w], e.l.seed, e.generation, uint64(i))
			if err != nil {
				return fmt.Errorf("candidate %d: %w", k, err)
			}
			fitness[k] += r / float64(e.config.Episodes)
		}
		if math.IsNaN(fitness[k]) {
			fitness[k] = math.Inf(-1)
		}
		return nil
	})
	return fitness, err
}

// playGreedily runs one episode with greedy actions and returns its return; a NaN reward at the end is ignored.
func playGreedily(p *Policy, env Environment, numbers ...uint64) (sum float64, err error) {
	o, done := env.Reset(newRNG(append(numbers, forEnvironment)...))
	for !done {
		if err := p.check(o); err != nil {
			return 0, err
		}
		var r float64
		if o, r, done = env.Step(p.Greedy(o)); !done || !math.IsNaN(r) {
			sum += r
		}
	}
	return sum, nil
}

// move updates mean, paths, deviations and sigma from the draws of the parents, best first (Hansen's tutorial, 2016,
// table 1; learning rates of the matrix times (n+2)/3).
func (e *evolver) move(parents [][]float64) {
	n, mu := float64(len(e.mean)), e.mass
	cs := (mu + 2) / (n + mu + 5)
	ds := 1 + 2*max(0, math.Sqrt((mu-1)/(n+1))-1) + cs
	cc := (4 + mu/n) / (n + 4 + 2*mu/n)
	faster := (n + 2) / 3
	c1 := min(1, faster*2/((n+1.3)*(n+1.3)+mu))
	cmu := min(1-c1, faster*2*(mu-2+1/mu)/((n+2)*(n+2)+mu))
	chi := math.Sqrt(n) * (1 - 1/(4*n) + 1/(21*n*n))
	length := 0.0
	step := make([]float64, len(e.mean))
	for i := range step {
		for k, p := range parents {
			step[i] += e.weights[k] * p[i]
		}
		e.mean[i] += e.sigma * step[i]
		e.pathSigma[i] = (1-cs)*e.pathSigma[i] + math.Sqrt(cs*(2-cs)*mu)*step[i]/e.deviation[i]
		length += e.pathSigma[i] * e.pathSigma[i]
	}
	length = math.Sqrt(length)
	stall := 0.0 // the covariance path stalls while the step-size path is long
	if length/math.Sqrt(1-math.Pow(1-cs, 2*float64(e.generation+1))) < (1.4+2/(n+1))*chi {
		stall = 1
	}
	for i := range step {
		e.pathC[i] = (1-cc)*e.pathC[i] + stall*math.Sqrt(cc*(2-cc)*mu)*step[i]
		variance := e.deviation[i] * e.deviation[i]
		next := (1-c1-cmu)*variance + c1*(e.pathC[i]*e.pathC[i]+(1-stall)*cc*(2-cc)*variance)
		for k, p := range parents {
			next += cmu * e.weights[k] * p[i] * p[i]
		}
		e.deviation[i] = math.Sqrt(max(next, 1e-20))
	}
	e.sigma *= math.Exp(min(1, cs/ds*(length/chi-1)))
}

// write copies parameters to networks, in order.
func write(nets []*Network, x []float64) {
	for _, n := range nets {
		for i := range n.Params() {
			n.Params()[i] = float32(x[i])
		}
		x = x[len(n.Params()):]
	}
}
