// Package pretrain trains an agent in a simulated environment: on elastic training jobs ("training") or on a problem
// with a known answer ("problem:NAME"). It measures the agent's return during training, keeps the agent with the best
// measurement, and can resume an interrupted training.
//
// It is not a learning algorithm (see morl), it does not decide on real jobs, and only Replace opens files: agents are
// passed as bytes, and the caller provides the clock. The same Options yield the same bytes of the agent file on any
// number of cores.
//
// Measurements are returns from the environment and do not use the known optimum. A problem returns the exact return
// of each of the agent's policies, which determine front, hypervolume and expected utility. For jobs, the agent
// chooses for a fixed set of jobs on which it is not trained, under four preferences, and each choice is simulated.
//
// Example:
//
//	t, err := pretrain.Prepare(pretrain.Options{Env: "problem:deep-sea-treasure", Agent: "envelope"})
//	if err != nil { … }
//	r, err := t.Run(ctx)
//	r.Hypervolume // 854.85: all ten points
//	err = (&pretrain.Files{Path: "agent.bin"}).Save(r.Data, nil)
package pretrain
