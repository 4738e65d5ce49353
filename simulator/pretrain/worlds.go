package pretrain

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"

	"trainopt/morl"
	"trainopt/morl/pareto"
	"trainopt/morl/problems"
)

// measured is the measurement of an agent by its environment.
type measured struct {
	// Front contains the non-dominated returns of the agent's policies, one number per objective.
	Front [][]float64
	// Hypervolume is the hypervolume of Front above the reference point of the environment.
	Hypervolume float64
	// ExpectedUtility is the mean utility of the agent over preferences. On a problem it is the utility of the best
	// point of the front for equally spaced (two objectives), lattice (three) or uniformly drawn preferences; for
	// jobs, see Jobs.
	ExpectedUtility float64
	// Jobs is the comparison with references; nil on a problem.
	Jobs *comparison

	reached []morl.FrontPoint
	// linear is the hypervolume of the points of Front that are optimal for some linear preference, or of all if the agent
	// does not select them by preferences.
	linear float64
}

// world is an environment together with the means to measure an agent in it.
type world struct {
	env       morl.Environment
	data      string // data of the environment, "" if its name identifies them
	reference []float64
	measure   func(a morl.Agent) measured
	// preferences draws the preferences of the episodes; nil: see morl.TrainOptions. settle is called after each
	// measurement and may adjust them. note records in the agent file what has to be kept of them. settle and note may
	// be nil.
	preferences func(w []float32, rng *rand.Rand)
	settle      func()
	note        func(m *morl.Meta)
	// failed returns the failure of a measurement; nil: measurements do not fail.
	failed func() error
	// close releases the environment and makes a step in progress return; nil: nothing to release. It may be called at any
	// time, and more than once.
	close func()
	// outdoes reports whether the earlier measurement is better than the current one, beyond noise.
	outdoes func(before, now *measured) bool
}

// worlds contains a constructor for each environment. A new environment is one line here and a recipe.
var worlds = map[string]func(o *Options, c morl.Config, r recipe) (*world, error){
	"cluster":                           clusterWorld,
	"training":                          jobWorld,
	"problem:deep-sea-treasure":         problemWorld,
	"problem:deep-sea-treasure-concave": problemWorld,
	"problem:fruit-tree-5":              problemWorld,
	"problem:fruit-tree-6":              problemWorld,
	"problem:minecart-deterministic":    problemWorld,
	"problem:resource-gathering":        problemWorld,
}

// Prefixes of environment names.
const (
	problemPrefix = "problem:"
	// ProcessPrefix precedes the command of an environment in another process.
	ProcessPrefix = "process:"
)

// worldOf returns the constructor of an environment; ok is false if it does not exist.
func worldOf(env string) (build func(o *Options, c morl.Config, r recipe) (*world, error), ok bool) {
	if command, is := strings.CutPrefix(env, ProcessPrefix); is && strings.TrimSpace(command) != "" {
		return processWorld, true
	}
	build, ok = worlds[env]
	return build, ok
}

// processWorld returns an environment in another process. The agent is measured in a second one, since a measurement may
// take place within an episode.
func processWorld(o *Options, c morl.Config, r recipe) (*world, error) {
	if c.Resets.Mode == "evidence" {
		return nil, errors.New("resets on evidence need an agreement that can be violated: an environment in another process has none")
	}
	argv := []string{"/bin/sh", "-c", o.Env[len(ProcessPrefix):]}
	env, err := morl.Start(argv, o.Process)
	if err != nil {
		return nil, err
	}
	judge, err := morl.Start(argv, o.Process)
	if err != nil {
		env.Close()
		return nil, err
	}
	reference := env.Reference()
	if reference == nil {
		reference = judge.Worst(20, c.Gamma)
	}
	if err := judge.Err(); err != nil {
		env.Close()
		judge.Close()
		return nil, err
	}
	w := measuredWorld(env, judge, reference, c, r)
	w.failed = judge.Err
	w.close = func() {
		env.Close()
		judge.Close()
	}
	return w, nil
}

// problemWorld returns the environment of a problem with a known answer.
func problemWorld(o *Options, c morl.Config, r recipe) (*world, error) {
	p := problems.ByName[o.Env[len(problemPrefix):]]()
	if c.Resets.Mode == "evidence" {
		return nil, fmt.Errorf("resets on evidence need an agreement that can be violated: %s has none", o.Env)
	}
	return measuredWorld(p, problems.ByName[p.Name()](), p.Reference(), c, r), nil
}

// measuredWorld returns the world of an environment in which agents are measured by their returns above a reference.
func measuredWorld(env morl.Environment, judge interface {
	morl.Environment
	morl.Evaluator
}, reference []float64, c morl.Config, r recipe) *world {
	if c.History > 1 {
		env, judge = morl.Remember(env, c.History), morl.Remember(judge, c.History)
	}
	weights, dense := utilityWeights(len(reference)), denseWeights(len(reference))
	return &world{
		env: env, reference: reference,
		measure: func(a morl.Agent) measured {
			var m measured
			m.reached = morl.Front(a, judge, morl.FrontOptions{Gamma: c.Gamma, Preferences: r.Preferences})
			for _, x := range m.reached {
				m.Front = append(m.Front, x.Value)
			}
			m.Hypervolume = pareto.Hypervolume(m.Front, reference)
			m.linear = m.Hypervolume
			if len(m.reached) > 0 && m.reached[0].Preference != nil {
				m.linear = pareto.Hypervolume(linearOptima(m.Front, dense), reference)
			}
			m.ExpectedUtility = pareto.ExpectedUtility(m.Front, weights)
			return m
		},
		outdoes: func(before, now *measured) bool { return before.linear > now.linear },
	}
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
