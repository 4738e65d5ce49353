// Package morl implements multi-objective reinforcement learning: agents for finite-action Markov decision processes
// with vector rewards, and a linear preference over the objectives as an input of every decision.
//
// It is independent of training jobs: problems implement Environment. Package morl/network contains the networks and
// policies of scalar rewards, morl/pareto the fronts and their indicators, morl/problems test problems with known fronts.
// Thompson is a bandit, for choices that do not affect later ones.
//
// All results are deterministic: randomness comes only from seeded generators, sums have a fixed order, and the same
// seed yields the same bytes on any number of cores.
//
// Example:
//
//	env := problems.DeepSeaTreasure(problems.Convex)
//	agent, err := morl.New("envelope", env.Shape(), morl.Config{Gamma: 0.99}, 1)
//	if err != nil { … }
//	_, err = morl.Train(ctx, agent, env, morl.TrainOptions{Steps: 30_000, Seed: 1})
//	front := morl.Front(agent, env, morl.FrontOptions{})
package morl
