package pretrain

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

// Measured is the measurement of an agent by its environment.
type Measured struct {
	// Front contains the non-dominated returns of the agent's policies, one number per objective.
	Front [][]float64
	// Hypervolume is the hypervolume of Front above the reference point of the environment.
	Hypervolume float64
	// ExpectedUtility is the mean utility of the agent over preferences. On a problem it is the utility of the best
	// point of the front for equally spaced (two objectives), lattice (three) or uniformly drawn preferences; for
	// jobs, see Jobs.
	ExpectedUtility float64
	// Jobs is the comparison with references; nil on a problem.
	Jobs *Comparison

	reached []morl.FrontPoint
	linear  float64 // hypervolume of the points of Front that are optimal for some linear preference
}

// world is an environment together with the means to measure an agent in it.
type world struct {
	env       morl.Environment
	data      string // data of the environment, "" if its name identifies them
	reference []float64
	measure   func(a morl.Agent) Measured
	// preferences draws the preferences of the episodes; nil: see morl.TrainOptions. settle is called after each
	// measurement and may adjust them. note records in the agent file what has to be kept of them. settle and note may
	// be nil.
	preferences func(w []float32, rng *rand.Rand)
	settle      func()
	note        func(m *morl.Meta)
	// outdoes reports whether the earlier measurement is better than the current one, beyond noise.
	outdoes func(before, now *Measured) bool
}

// worlds contains a constructor for each environment. A new environment is one line here and a recipe.
var worlds = map[string]func(o *Options, c morl.Config, r recipe) (*world, error){
	"training":                          jobWorld,
	"problem:deep-sea-treasure":         problemWorld,
	"problem:deep-sea-treasure-concave": problemWorld,
	"problem:fruit-tree-5":              problemWorld,
	"problem:fruit-tree-6":              problemWorld,
	"problem:minecart-deterministic":    problemWorld,
	"problem:resource-gathering":        problemWorld,
}

// problemPrefix is the prefix of environment names that identify a problem.
const problemPrefix = "problem:"

// problemWorld returns the environment of a problem with a known answer.
func problemWorld(o *Options, c morl.Config, r recipe) (*world, error) {
	p := problems.ByName[o.Env[len(problemPrefix):]]()
	if c.Resets.Mode == "evidence" {
		return nil, fmt.Errorf("resets on evidence need an agreement that can be violated: %s has none", o.Env)
	}
	weights, dense := utilityWeights(len(p.Shape().Objectives)), denseWeights(len(p.Shape().Objectives))
	return &world{
		env: p, reference: p.Reference(),
		measure: func(a morl.Agent) Measured {
			var m Measured
			m.reached = morl.Front(a, p, morl.FrontOptions{Gamma: c.Gamma, Preferences: r.Preferences})
			for _, x := range m.reached {
				m.Front = append(m.Front, x.Value)
			}
			m.Hypervolume = pareto.Hypervolume(m.Front, p.Reference())
			m.linear = pareto.Hypervolume(linearOptima(m.Front, dense), p.Reference())
			m.ExpectedUtility = pareto.ExpectedUtility(m.Front, weights)
			return m
		},
		outdoes: func(before, now *Measured) bool { return before.linear > now.linear },
	}, nil
}

// linearOptima returns the points that are optimal for at least one of the weights. The others do not count in favour of an
// agent for linear preferences: it reached them under weights for which another of its points is better.
func linearOptima(points, weights [][]float64) [][]float64 {
	if len(points) == 0 {
		return nil
	}
	best := make([]bool, len(points))
	for _, w := range weights {
		at, most := 0, math.Inf(-1)
		for i, p := range points {
			u := 0.0
			for k, v := range w {
				u += v * p[k]
			}
			if u > most {
				at, most = i, u
			}
		}
		best[at] = true
	}
	var out [][]float64
	for i, p := range points {
		if best[i] {
			out = append(out, p)
		}
	}
	return out
}

// denseWeights returns preferences dense enough to contain one for every point that is optimal in a narrow range only.
func denseWeights(objectives int) [][]float64 {
	switch objectives {
	case 1, 2:
		return pareto.Weights(10_001, objectives, nil)
	case 3:
		return pareto.Lattice(3, 100)
	}
	return utilityWeights(objectives)
}

// utilityWeights returns the preferences over which the expected utility is averaged: 50 equally spaced, the lattice
// of 231, or 20,000 drawn uniformly.
func utilityWeights(objectives int) [][]float64 {
	switch objectives {
	case 1, 2:
		return pareto.Weights(50, objectives, nil)
	case 3:
		return pareto.Lattice(3, 20)
	}
	return pareto.Weights(20_000, objectives, rand.New(rand.NewPCG(1, 0xe0e)))
}

// nonDominated returns the points of the front, sorted.
func nonDominated(points [][]float64) [][]float64 {
	var out [][]float64
	for _, i := range pareto.Front(points) {
		out = append(out, points[i])
	}
	slices.SortFunc(out, slices.Compare)
	return out
}
