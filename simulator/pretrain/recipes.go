package pretrain

import (
	"cmp"
	"strings"

	"trainopt/morl"
)

// recipe contains the default settings for training an agent in an environment. If its Config does not set them,
// ExploreSteps is half of the steps and Anneal all of them.
type recipe struct {
	Steps   int
	Measure int // decisions between measurements, 0: a twentieth of the steps
	// Preferences is the number of preferences for which the agent is measured on a problem; 0 means the default of
	// morl.FrontOptions.
	Preferences int
	// Focus trains more on the preferences at which the measured front has its corners (two objectives only).
	Focus  bool
	Config morl.Config
}

// recipeFor returns the recipe of an environment and agent; ok is false if none exists.
func recipeFor(env, agent string) (r recipe, ok bool) {
	if strings.HasPrefix(env, ProcessPrefix) {
		env = ProcessPrefix
	}
	if r, ok = recipes[env][agent]; !ok {
		r, ok = recipes[env][""]
	}
	return r, ok
}

// recipes by environment and agent; "" applies to all agents without a recipe of their own. They were determined by
// experiment; TestGates checks them where the attainable optimum is known.
var recipes = map[string]map[string]recipe{
	"problem:deep-sea-treasure":         {"": treasure, "simple": onPolicy(treasure), "pareto": table(treasure), "pcn": conditionedSet(treasure)},
	"problem:deep-sea-treasure-concave": {"": treasure, "simple": onPolicy(treasure), "pareto": table(treasure), "pcn": conditionedSet(treasure)},
	"problem:resource-gathering":        {"": gathering, "simple": onPolicy(gathering), "pareto": table(gathering), "pcn": conditionedSet(gathering)},
	"problem:fruit-tree-5":              {"": fruits, "simple": onPolicy(fruits), "pareto": table(fruits), "pcn": conditionedSet(fruits)},
	"problem:fruit-tree-6":              {"": fruits, "simple": onPolicy(fruits), "pareto": table(fruits), "pcn": conditionedSet(fruits)},
	"problem:minecart-deterministic":    {"": cart, "simple": onPolicy(cart), "pcn": longer(conditionedSet(cart))},
	ProcessPrefix:                       {"": foreign, "simple": onPolicy(foreign), "pareto": table(foreign), "pcn": conditionedSet(foreign)},
	"cluster":                           {"": clusters, "simple": onPolicy(clusters), "pcn": conditionedSet(clusters)},
	"training":                          {"": jobs, "simple": onPolicy(jobs)},
}

var (
	treasure = recipe{Steps: 60_000, Measure: 2000, Focus: true, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.99, Every: 1,
		Rate: 1e-3, Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	gathering = recipe{Steps: 60_000, Measure: 3000, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.99, Every: 1, Rate: 1e-3,
		Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	fruits = recipe{Steps: 30_000, Measure: 3000, Config: morl.Config{Hidden: []int{256, 256}, Gamma: 0.99, Every: 1, Rate: 1e-3,
		Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	// An episode takes hundreds of decisions, and so does the measurement of each policy.
	cart = recipe{Steps: 200_000, Measure: 20_000, Preferences: 60, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.98, Every: 2,
		Rate: 1e-3, Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	// Every decision is a message to another process, and so is every decision of a measurement.
	foreign = recipe{Steps: 50_000, Measure: 5000, Preferences: 20, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.99, Every: 1,
		Rate: 1e-3, Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	// The measurement of a policy takes as long as some thousand decisions.
	clusters = recipe{Steps: 100_000, Measure: 25_000, Preferences: 6, Focus: true, Config: morl.Config{Hidden: []int{64, 64}, Gamma: 0.95, Every: 2, Critics: 4,
		Rate: 5e-4, Tau: 0.01, Exploration: 0.1, Warmup: 2000}}
	jobs = recipe{Steps: 100_000, Config: unscheduled(agentConfig(1))}
)

// unscheduled clears the schedules, which scheduled fills in.
func unscheduled(c morl.Config) morl.Config {
	c.ExploreSteps, c.Anneal = 0, 0
	return c
}

// onPolicy returns a recipe for an agent that uses each decision once: larger batches and more steps.
func onPolicy(r recipe) recipe {
	r.Steps *= 4
	r.Measure *= 4
	r.Config.Batch = 256
	return r
}

// table returns a recipe for an agent that learns a table: it takes no preferences.
func table(r recipe) recipe {
	r.Focus, r.Preferences = false, 0
	r.Config = morl.Config{Gamma: r.Config.Gamma}
	return r
}

// conditionedSet returns a recipe for an agent that takes no preferences and repeats its best episodes.
func conditionedSet(r recipe) recipe {
	r.Focus, r.Preferences = false, 0
	r.Config = morl.Config{Hidden: []int{128, 128}, Gamma: r.Config.Gamma, Every: 4, Rate: 1e-3, Warmup: 1000}
	return r
}

// longer returns a recipe for many episodes of many decisions each.
func longer(r recipe) recipe {
	r.Steps, r.Measure, r.Config.Every = 4_000_000, 200_000, 10
	return r
}

// scheduled fills in the settings that depend on the number of steps, unless given.
func scheduled(c morl.Config, steps int) morl.Config {
	c.ExploreSteps = cmp.Or(c.ExploreSteps, max(1, steps/2))
	c.Anneal = cmp.Or(c.Anneal, steps)
	return c
}
