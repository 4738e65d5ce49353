package morl

import (
	"io"
	"math"
	"math/rand/v2"

	"trainopt/morl/network"
)

const (
	// The weight of the entropy bonus decreases, like exploration, from the first to the final value; advantages are
	// of order 1.
	firstEntropy = 0.2
	finalEntropy = 0.01
	// longestRollout is the number of batches after which an unfinished episode is trained on in parts.
	longestRollout = 16
)

// simplePolicy is REINFORCE (Williams 1992, Simple statistical gradient-following algorithms for connectionist
// reinforcement learning) on the scalarised return Σ γ^work w·r. The preference is an input, so one policy serves all
// preferences. As with any on-policy gradient, however, preferences with large advantages dominate, and an agent
// trained for one preference (TrainOptions.Preferences) performs better on it. A second network learns the return as
// a baseline, which reduces the variance of the gradient without bias; advantages are divided by their spread, and an
// entropy bonus prevents premature commitment.
//
// Actions are sampled from a mixture of the policy and ε of uniform actions, and the gradient is that of the mixture,
// so that data and gradient agree for any ε. Learning is on-policy: at the end of an episode, once at least
// Config.Batch decisions are collected, it makes one step of the policy and one pass of the baseline over them, and
// discards them. Buffer, Tau, Updates and Critics are ignored. A decision costs O(parameters) to act and
// O(parameters) to learn from.
type simplePolicy struct {
	learner
	seed                 uint64
	policy, baseline     *network.Network
	trainer, baseTrainer *network.Trainer
	dropping             *rand.Rand

	roll                  rollout
	in, logits, grad, out []float32
	gain, advantage       []float32
	tilde                 []float32
}

// rollout holds the decisions since the last step, row by row.
type rollout struct {
	rows      int
	input     []float32 // state and preference
	w, reward []float32
	mask      []bool
	action    []int
	discount  []float32 // γ^work, 0 at the end of an episode
	epsilon   []float32
	cut       []bool      // the episode was truncated after this row
	beyond    [][]float32 // state after a truncation, joined with its preference; nil elsewhere
	last      []float32   // state after the last row
}

var _ Agent = (*simplePolicy)(nil)

// newSimple returns an untrained policy.
func newSimple(s Shape, c Config, seed uint64) *simplePolicy {
	if c.Dropout == 0 {
		c.Dropout = defaultDropout
	}
	c.Buffer = 1 // on-policy: no replay
	a := &simplePolicy{learner: newLearner("simple", s, c, seed), seed: seed, dropping: stream(seed, 5)}
	c = a.config
	nc := c.network(s, s.State+len(s.Objectives), s.Actions)
	a.policy = network.New(nc, stream(seed, 3))
	nc.Outputs = 1
	a.baseline = network.New(nc, stream(seed, 4))
	opt := network.Adam{Rate: float32(c.Rate), ClipNorm: 10}
	a.trainer, a.baseTrainer = network.NewTrainer(a.policy, c.Batch, opt), network.NewTrainer(a.baseline, c.Batch, opt)
	return a
}

// defaultDropout is the share of hidden units dropped in training for agents that use dropout to estimate
// uncertainty.
const defaultDropout = 0.1

// Reset discards all training: the policy is as returned by newSimple.
func (a *simplePolicy) Reset() {
	c := a.config
	if c.Dropout == 0 {
		c.Dropout = -1 // restore the setting "none"
	}
	*a = *newSimple(a.shape, c, a.seed)
}

// Act returns the most probable action; with explore it samples from the policy, and a share ε is uniform.
func (a *simplePolicy) Act(o Observation, w []float32, explore bool) int {
	return a.act(o, explore, func() []float32 { return a.Policy(o, w) })
}

// act returns the most probable action of a policy; with explore it samples from it, and a share ε is uniform.
func (l *learner) act(o Observation, explore bool, policy func() []float32) int {
	if explore && l.acting.Float64() < l.epsilon() {
		return random(o.Mask, l.shape.Actions, l.acting)
	}
	pi := policy()
	if !explore {
		return argmax(pi)
	}
	return draw(pi, l.acting)
}

// Policy returns the probability of each action, 0 where masked. The result is valid until the next call.
func (a *simplePolicy) Policy(o Observation, w []float32) []float32 {
	a.in = resize(a.in, a.policy.Inputs)
	a.join(a.in, o.State, w, 1)
	a.logits = a.policy.Forward(a.logits, a.in, 1)
	softmax(a.logits, o.Mask)
	return a.logits
}

// draw samples an action from probabilities; actions of probability 0 are never drawn.
func draw(pi []float32, rng *rand.Rand) int {
	u := rng.Float32()
	for i, p := range pi {
		if u -= p; u < 0 && p > 0 {
			return i
		}
	}
	return argmax(pi)
}

// Observe records a decision, and trains at the end of an episode once enough decisions are collected.
func (a *simplePolicy) Observe(t transition, w []float32) {
	a.roll.add(a, t, w, float32(a.epsilon()))
	a.store(t)
	n := a.roll.rows
	over := t.Done || t.Cut
	switch {
	case a.scale == nil || a.stats.Steps < a.config.Warmup: // the policy is unchanged so far: all rows are still on-policy
		if n >= a.config.Warmup+longestRollout*a.config.Batch {
			a.roll.rows = 0
		}
	case over && n >= a.config.Batch, n >= longestRollout*a.config.Batch:
		a.learn()
		a.roll.rows = 0
	}
}

// add appends a decision to the rollout, which starts over if it is empty.
func (r *rollout) add(a *simplePolicy, t transition, w []float32, epsilon float32) {
	k, s, m, actions := r.rows, a.shape.State, len(w), a.shape.Actions
	if k == 0 {
		r.input, r.w, r.reward, r.mask = r.input[:0], r.w[:0], r.reward[:0], r.mask[:0]
		r.action, r.discount, r.epsilon, r.cut, r.beyond = r.action[:0], r.discount[:0], r.epsilon[:0], r.cut[:0], r.beyond[:0]
	}
	r.input = append(append(r.input, t.State...), w...)
	r.w = append(r.w, w...)
	r.reward = append(r.reward, t.Reward...)
	r.mask = append(r.mask, make([]bool, actions)...)
	copyMask(r.mask[k*actions:], t.Mask)
	r.action = append(r.action, t.Action)
	d := float32(math.Pow(a.config.Gamma, float64(t.Work)))
	if t.Done {
		d = 0
	}
	r.discount = append(r.discount, d)
	r.epsilon = append(r.epsilon, epsilon)
	r.cut = append(r.cut, t.Cut && !t.Done)
	r.last = resize(r.last, s+m)
	copy(r.last, t.Next)
	copy(r.last[s:], w)
	var beyond []float32
	if t.Cut && !t.Done {
		beyond = append(beyond, r.last...)
	}
	r.beyond = append(r.beyond, beyond)
	r.rows++
}

// learn makes one step of the policy and one pass of the baseline over the rollout. Advantages are returns minus the
// baseline, divided by their root mean square; gradients of all batches are accumulated for the policy, while the
// baseline makes one step per batch.
func (a *simplePolicy) learn() {
	n := a.roll.rows
	a.returns(n)
	a.out = a.baseline.Forward(a.out, a.roll.input, n)
	a.advantage = resize(a.advantage, n)
	var square float64
	for k := range n {
		a.advantage[k] = a.gain[k] - a.out[k]
		square += float64(a.advantage[k]) * float64(a.advantage[k])
	}
	if spread := float32(math.Sqrt(square / float64(n))); spread > 0 {
		for k := range n {
			a.advantage[k] /= spread
		}
	}
	done := min(1, float64(a.stats.Steps)/float64(a.config.ExploreSteps))
	bonus := float32(firstEntropy * math.Pow(finalEntropy/firstEntropy, done))
	a.trainer.SetRate(a.rate())
	a.baseTrainer.SetRate(a.rate())
	for from := 0; from < n; from += a.config.Batch {
		to := min(n, from+a.config.Batch)
		a.policyGradient(from, to, bonus)
		a.fitBaseline(from, to)
	}
	a.trainer.Step()
	a.stats.Updates++
	a.smooth(square / float64(n))
}

// returns computes the scalarised discounted return of each decision, in the networks' scale. Where an episode
// continues beyond the rollout, the baseline estimates the remainder.
func (a *simplePolicy) returns(n int) {
	r, m := &a.roll, len(a.shape.Objectives)
	a.gain, a.tilde = resize(a.gain, n), resize(a.tilde, m)
	var follow float32
	for k := n - 1; k >= 0; k-- {
		switch {
		case r.discount[k] == 0:
			follow = 0
		case r.beyond[k] != nil:
			follow = a.baseline.Forward(nil, r.beyond[k], 1)[0]
		case k == n-1:
			follow = a.baseline.Forward(nil, r.last, 1)[0]
		}
		a.scaled(a.tilde, r.w[k*m:(k+1)*m])
		u := r.discount[k] * follow
		for i, w := range a.tilde {
			u += w * r.reward[k*m+i] / a.scale[i]
		}
		a.gain[k], follow = u, u
	}
}

// policyGradient adds the gradient of −A log b(a) − bonus·H(π) for rows from…to, where b is the mixture that acted.
func (a *simplePolicy) policyGradient(from, to int, bonus float32) {
	r, actions, width := &a.roll, a.shape.Actions, a.policy.Inputs
	logits := a.trainer.Forward(r.input[from*width:to*width], to-from, a.dropping)
	a.grad = resize(a.grad, len(logits))
	copy(a.grad, logits)
	for k := from; k < to; k++ {
		pi, mask := a.grad[(k-from)*actions:(k-from+1)*actions], r.mask[k*actions:(k+1)*actions]
		softmax(pi, mask)
		open, entropy := 0, 0.0
		for b, p := range pi {
			if mask[b] {
				open++
			}
			if p > 0 {
				entropy -= float64(p) * math.Log(float64(p))
			}
		}
		chosen := (1 - r.epsilon[k]) * pi[r.action[k]]
		pull := a.advantage[k] * chosen / (chosen + r.epsilon[k]/float32(open))
		if chosen == 0 {
			pull = 0
		}
		for b, p := range pi {
			g := pull * p
			if b == r.action[k] {
				g -= pull
			}
			if p > 0 {
				g += bonus * p * float32(math.Log(float64(p))+entropy)
			}
			pi[b] = g / float32(r.rows)
		}
	}
	a.trainer.Backward(a.grad, nil)
}

// fitBaseline fits the baseline to the returns of rows from…to.
func (a *simplePolicy) fitBaseline(from, to int) {
	width := a.baseline.Inputs
	v := a.baseTrainer.Forward(a.roll.input[from*width:to*width], to-from, a.dropping)
	a.grad = resize(a.grad, to-from)
	for k := range a.grad {
		a.grad[k] = (v[k] - a.gain[from+k]) / float32(to-from)
	}
	a.baseTrainer.Backward(a.grad, nil)
	a.baseTrainer.Step()
}

// Save writes the policy and the baseline.
func (a *simplePolicy) Save(w io.Writer) error { return a.save(w, a.policy, a.baseline) }

// Load restores the output of Save and discards the current rollout.
func (a *simplePolicy) Load(r io.Reader) error {
	if err := a.load(r, a.policy, a.baseline); err != nil {
		return err
	}
	a.trainer.Forget()
	a.baseTrainer.Forget()
	a.roll.rows = 0
	return nil
}
