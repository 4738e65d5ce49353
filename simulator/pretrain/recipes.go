package pretrain

import (
	"trainopt/morl"
)

// Recipe are the settings that an agent is trained with in an environment when the user gives no others. ExploreSteps of
// its Config is half of the steps, Anneal all of them, whatever their number.
type Recipe struct {
	Steps   int
	Measure int // decisions between measurements, 0: a twentieth of the steps
	// Preferences is for how many the agent is asked in a measurement on a problem, 0: the default of morl.FrontOptions.
	Preferences int
	// Focus trains more for the preferences at which the measured front has its corners (with two objectives).
	Focus  bool
	Config morl.Config
}

// RecipeFor is the recipe of an environment and agent. ok is false when there is none.
func RecipeFor(env, agent string) (r Recipe, ok bool) {
	if r, ok = recipes[env][agent]; !ok {
		r, ok = recipes[env][""]
	}
	return r, ok
}

// recipes by environment and agent; "" is for the agents that have none of their own. Found by trying, and checked by
// TestGates where the best that can be reached is known.
var recipes = map[string]map[string]Recipe{
	"problem:deep-sea-treasure":         {"": treasure, "simple": onPolicy(treasure)},
	"problem:deep-sea-treasure-concave": {"": treasure, "simple": onPolicy(treasure)},
	"problem:resource-gathering":        {"": gathering, "simple": onPolicy(gathering)},
	"problem:fruit-tree-5":              {"": fruits, "simple": onPolicy(fruits)},
	"problem:fruit-tree-6":              {"": fruits, "simple": onPolicy(fruits)},
	"problem:minecart-deterministic":    {"": cart, "simple": onPolicy(cart)},
	"training":                          {"": jobs, "simple": onPolicy(jobs)},
}

var (
	treasure = Recipe{Steps: 60_000, Measure: 2000, Focus: true, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.99, Every: 1,
		Rate: 1e-3, Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	gathering = Recipe{Steps: 60_000, Measure: 3000, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.99, Every: 1, Rate: 1e-3,
		Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	fruits = Recipe{Steps: 30_000, Measure: 3000, Config: morl.Config{Hidden: []int{256, 256}, Gamma: 0.99, Every: 1, Rate: 1e-3,
		Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	// An episode takes hundreds of decisions, and so does each policy that is measured.
	cart = Recipe{Steps: 200_000, Measure: 20_000, Preferences: 60, Config: morl.Config{Hidden: []int{128, 128}, Gamma: 0.98, Every: 2,
		Rate: 1e-3, Tau: 0.01, Exploration: 0.1, Warmup: 1000}}
	jobs = Recipe{Steps: 100_000, Config: unscheduled(agentConfig(1))}
)

// unscheduled leaves the schedules to schedule.
func unscheduled(c morl.Config) morl.Config {
	c.ExploreSteps, c.Anneal = 0, 0
	return c
}

// onPolicy is a recipe for an agent that uses each decision once: it needs larger batches, and more of them.
func onPolicy(r Recipe) Recipe {
	r.Steps *= 4
	r.Measure *= 4
	r.Config.Batch = 256
	return r
}

// schedule fills in what depends on the number of steps, where it is not given.
func schedule(c morl.Config, steps int) morl.Config {
	if c.ExploreSteps == 0 {
		c.ExploreSteps = max(1, steps/2)
	}
	if c.Anneal == 0 {
		c.Anneal = steps
	}
	return c
}
