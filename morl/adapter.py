"""Serves an environment to `optimize pretrain --env process:COMMAND`, one JSON object per line on standard input and output.

    optimize pretrain adapter > environment.py
    optimize pretrain --env "process:python3 environment.py deep-sea-treasure-v0" --algorithm envelope

The argument is the name of an environment of MO-Gymnasium (pip install mo-gymnasium). For an environment of your own, import
this file and call serve() with an object like those of Gymnasium: reset(seed=…) returns (observation, info), step(action)
returns (observation, reward vector, terminated, truncated, info). Without the attributes observation_space and action_space,
give the number of state numbers and of actions.
"""
import json
import sys


def flatten(space, value):
    """Returns an observation as numbers of order 1: one-hot if discrete, scaled to -1..1 if bounded."""
    kind = type(space).__name__
    if kind == "Discrete":
        return [1.0 if i == int(value) - int(getattr(space, "start", 0)) else 0.0 for i in range(int(space.n))]
    if kind == "MultiDiscrete":
        return [1.0 if i == int(v) else 0.0 for n, v in zip(space.nvec, value) for i in range(int(n))]
    if kind == "Dict":
        return [x for key, inner in space.spaces.items() for x in flatten(inner, value[key])]
    if kind == "Tuple":
        return [x for inner, v in zip(space.spaces, value) for x in flatten(inner, v)]
    numbers = [float(x) for x in (value.ravel() if hasattr(value, "ravel") else value)]
    if kind == "Box":
        scaled = []
        for x, low, high in zip(numbers, space.low.ravel(), space.high.ravel()):
            low, high = float(low), float(high)
            bounded = -1e6 < low < high < 1e6
            scaled.append(2 * (x - low) / (high - low) - 1 if bounded else x)
        return scaled
    return numbers


def size(space):
    """Returns the length of flatten(space, …)."""
    kind = type(space).__name__
    if kind == "Discrete":
        return int(space.n)
    if kind == "MultiDiscrete":
        return int(sum(space.nvec))
    if kind in ("Dict", "Tuple"):
        return sum(size(s) for s in (space.spaces.values() if kind == "Dict" else space.spaces))
    n = 1
    for d in space.shape:
        n *= int(d)
    return n


def serve(env, state=None, actions=None, objectives=None, limit=None, reference=None):
    """Answers requests until the end of standard input. Prints of the environment go to standard error."""
    answers, sys.stdout = sys.stdout, sys.stderr
    observed = getattr(env, "observation_space", None)
    acts = getattr(env, "action_space", None)
    if actions is None:
        if type(acts).__name__ != "Discrete":
            raise SystemExit("the actions of this environment are not discrete: %s" % acts)
        actions = int(acts.n)
    if objectives is None:
        rewards = getattr(getattr(env, "unwrapped", env), "reward_space", None)
        count = int(rewards.shape[0]) if rewards is not None else 1
        objectives = ["objective %d" % (i + 1) for i in range(count)]
    if limit is None:
        limit = getattr(getattr(env, "spec", None), "max_episode_steps", None)
    first = int(getattr(acts, "start", 0))

    def numbers(value):
        return flatten(observed, value) if observed is not None else [float(x) for x in value]

    for line in sys.stdin:
        request = json.loads(line)
        try:
            if request["op"] == "spaces":
                out = {"state": state or size(observed), "actions": actions, "objectives": list(objectives)}
                if limit:
                    out["limit"] = int(limit)
                if reference is not None:
                    out["reference"] = [float(x) for x in reference]
            elif request["op"] == "reset":
                value, _ = env.reset(seed=request["seed"])
                out = {"state": numbers(value)}
            elif request["op"] == "step":
                value, reward, terminated, truncated, _ = env.step(request["action"] + first)
                rewards = reward if hasattr(reward, "__len__") else [reward]
                out = {"state": numbers(value), "reward": [float(x) for x in rewards], "done": bool(terminated), "cut": bool(truncated)}
            else:
                out = {"error": "unknown request %r" % request["op"]}
            mask = getattr(getattr(env, "unwrapped", env), "action_mask", None)
            if "state" in out and request["op"] != "spaces" and mask is not None:
                out["mask"] = [bool(x) for x in (mask() if callable(mask) else mask)]
        except Exception as e:  # the environment's own error ends the training
            out = {"error": "%s: %s" % (type(e).__name__, e)}
        answers.write(json.dumps(out) + "\n")
        answers.flush()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    import mo_gymnasium

    serve(mo_gymnasium.make(sys.argv[1]))
