// Package pretrain trains an agent in a simulated environment: on elastic training jobs ("training") or on a problem with a
// known answer ("problem:NAME"). It measures what the agent earns while it learns, keeps the agent that measured best, and
// can go on where an interrupted training stopped.
//
// It is not a learning algorithm (those are in morl), it does not decide on real jobs, and it opens no file but in
// Replace: agents come and go as bytes, the clock is the caller's. The same Options give the same bytes of the agent file on
// any number of cores.
//
// What is measured is told by the environment and never by what is known of the best answer. A problem tells the exact
// return of each of the agent's policies: front, hypervolume and expected utility follow. For jobs, the agent chooses for a
// fixed set of jobs that it is not trained on, under four preferences, and each choice is played.
//
// Example:
//
//	r, err := pretrain.Train(ctx, pretrain.Options{Env: "problem:deep-sea-treasure", Agent: "envelope"})
//	if err != nil { … }
//	r.Hypervolume // 854.85: all ten points
//	err = pretrain.Replace("agent.bin", r.Data)
package pretrain
