// Package morl learns decisions with vector rewards: agents for finite-action Markov decision processes whose rewards
// have several objectives, weighed by a linear preference that is given with every decision.
//
// It knows nothing of training jobs: problems come through Environment. morl/network has the networks, morl/pareto
// the fronts and their indicators, morl/problems test problems with known fronts, morl/bandit the bandits.
//
// Everything is deterministic: randomness comes from a seeded *rand.Rand only, sums run in one order, and the same
// seed gives the same bytes on any number of cores.
//
// Example:
//
//	env := problems.DeepSeaTreasure(problems.Convex)
//	agent, err := morl.New("envelope", env.Shape(), morl.Config{Gamma: 0.99}, 1)
//	if err != nil { … }
//	_, err = morl.Train(ctx, agent, env, morl.TrainOptions{Steps: 30_000, Seed: 1})
//	front := morl.Front(agent, env, morl.FrontOptions{})
package morl
