package morl

// An environment may also be a program of its own, so that an agent can be trained in a user's
// environment without building this program. A program is started once and answers requests, one JSON object per line
// on its standard input and output:
//
//	{"op": "spaces"}            {"state": 4, "actions": 3, "objectives": ["time", "cost"], "limit": 100, "reference": [-100, -10]}
//	{"op": "reset", "seed": 7}  {"state": [0, 0, 0.5, 1], "mask": [true, true, false]}
//	{"op": "step", "action": 1} {"state": [0, 1, 0.5, 1], "reward": [-1, 0], "done": false, "cut": false, "work": 1}
//
// The fields are those of morl.Shape, morl.Observation and morl.Outcome; mask, cut, work (default 1), limit and reference
// are optional. An answer {"error": "…"} ends the training with that text. The program ends at the end of its standard
// input. Adapter is a Python file that speaks this protocol for any environment of MO-Gymnasium.
//
//	env, err := morl.Start([]string{"python3", "adapter.py", "deep-sea-treasure-v0"}, morl.Options{})
//	defer env.Close()
//	err = morl.Train(ctx, agent, env, morl.TrainOptions{Steps: 10_000})
