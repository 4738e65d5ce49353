package morl

import (
	"math"

	"trainopt/morl/network"
)

// conditioned is an actor-critic with one actor and an ensemble of vector critics. All of them take the preference as
// an input, so that one agent serves every preference (conditioning: Abels et al., Dynamic weights in multi-objective
// deep reinforcement learning, ICML 2019).
//
// Critics: one value per action and objective, trained on
//
//	y = r + γ Σ_a π(a|s',w) Q̄(s',a,w)
//
// Actor: trained towards the Boltzmann policy of its critics, π* ∝ exp(w·Q/α) over the allowed actions, by
// cross-entropy (the projection step of maximum a posteriori policy optimisation, Abdolmaleki et al., ICLR 2018). α
// decreases with exploration to a final temperature; w·Q is in the networks' scale, of order 1.
//
// Transitions are relabelled with newly drawn preferences. A gradient step costs O(batch × (critics + 1) ×
// parameters).
type conditioned struct {
	learner
	actor   *network.Network
	trainer *network.Trainer
	critics []*critic

	in, logits []float32
	w, tilde   []float32
	x, next    []float32
	pi, meanQ  []float32
	grad       []float32
	y, prior   []float32
}

// critic is one member of an ensemble: the online network, its target network and its trainer.
type critic struct {
	online, target *network.Network
	trainer        *network.Trainer
	out, goal      []float32
}

func newCritic(nc network.Config, c Config, seed, which uint64) *critic {
	rng := stream(seed, which)
	k := &critic{online: network.New(nc, rng), target: network.New(nc, stream(seed, which))}
	k.target.CopyFrom(k.online)
	k.trainer = network.NewTrainer(k.online, c.Batch, network.Adam{Rate: float32(c.Rate), ClipNorm: 10})
	return k
}

// descend makes one step of a critic along the gradient of its outputs and moves its target towards it.
func (l *learner) descend(c *critic, grad []float32) {
	c.trainer.Backward(grad, nil)
	c.trainer.SetRate(l.rate())
	c.trainer.Step()
	c.target.Blend(c.online, float32(l.config.Tau))
}

// firstTemperature and finalTemperature are the initial and the final value of α.
const (
	firstTemperature = 0.1
	finalTemperature = 1e-4
)

var _ Agent = (*conditioned)(nil)

// newConditioned returns an untrained agent.
func newConditioned(s Shape, c Config, seed uint64) *conditioned {
	a := &conditioned{learner: newLearner("conditioned", s, c, seed)}
	c = a.config
	m := len(s.Objectives)
	ac := c.network(s, s.State+m, s.Actions)
	a.actor = network.New(ac, stream(seed, 3))
	a.trainer = network.NewTrainer(a.actor, c.Batch, network.Adam{Rate: float32(c.Rate), ClipNorm: 10})
	cc := ac
	cc.Outputs = s.Actions * m
	for i := range c.Critics {
		a.critics = append(a.critics, newCritic(cc, c, seed, uint64(10+i)))
	}
	return a
}

// Act returns the actor's most probable action; with explore it samples from the policy, and a share ε is uniform.
func (a *conditioned) Act(o Observation, w []float32, explore bool) int {
	return a.act(o, explore, func() []float32 { return a.Policy(o, w) })
}

// Policy returns the probability of each action, 0 where masked. The result is valid until the next call.
func (a *conditioned) Policy(o Observation, w []float32) []float32 {
	a.in = resize(a.in, a.shape.State+len(w))
	a.join(a.in, o.State, w, 1)
	a.logits = a.actor.Forward(a.logits, a.in, 1)
	softmax(a.logits, o.Mask)
	return a.logits
}

// Observe stores a transition and trains when due.
func (a *conditioned) Observe(t transition, w []float32) {
	for range a.store(t) {
		a.update()
	}
	a.renew.check(a, t.Reward, a.stats.Steps, "")
}

// temperature returns the current α.
func (a *conditioned) temperature() float32 {
	done := min(1, float64(a.stats.Steps)/float64(a.config.ExploreSteps))
	return float32(firstTemperature * math.Pow(finalTemperature/firstTemperature, done))
}

func (a *conditioned) update() {
	n := a.config.Batch
	a.sample(n)
	loss := a.updateCritics(n)
	a.updateActor(n)
	a.stats.Updates++
	a.smooth(loss)
}

// sample draws a batch and its preferences.
func (a *conditioned) sample(n int) {
	a.replay.Sample(&a.batch, n, a.sampler)
	a.prepare(n)
}

// prepare draws preferences for the batch and joins them with its states.
func (a *conditioned) prepare(n int) {
	s, m := a.shape.State, len(a.shape.Objectives)
	a.w, a.tilde = resize(a.w, n*m), resize(a.tilde, n*m)
	for k := range n {
		a.preference(a.w[k*m : (k+1)*m])
		a.scaled(a.tilde[k*m:(k+1)*m], a.w[k*m:(k+1)*m])
	}
	a.x, a.next = resize(a.x, n*(s+m)), resize(a.next, n*(s+m))
	a.join(a.x, a.batch.State, a.w, n)
	a.join(a.next, a.batch.Next, a.w, n)
}

// follow computes the policy and the critics' values in the next states.
func (a *conditioned) follow(n int) {
	actions := a.shape.Actions
	a.pi = a.actor.Forward(a.pi, a.next, n)
	for k := range n {
		softmax(a.pi[k*actions:(k+1)*actions], a.batch.NextMask[k*actions:(k+1)*actions])
	}
	for _, c := range a.critics {
		c.goal = c.target.Forward(c.goal, a.next, n)
	}
}

// goal computes the target vector of each row for one critic, in the networks' scale.
func (a *conditioned) goal(c *critic, n int) {
	m, actions := len(a.shape.Objectives), a.shape.Actions
	a.y = resize(a.y, n*m)
	for k := range n {
		for i := range m {
			v := a.batch.Reward[k*m+i] / a.scale[i]
			if d := a.batch.Discount[k]; d > 0 {
				var follow float32
				for b := range actions {
					follow += a.pi[k*actions+b] * c.goal[(k*actions+b)*m+i]
				}
				v += d * follow
			}
			a.y[k*m+i] = v
		}
	}
}

// updateCritics makes one gradient step of every critic on the batch and returns the mean loss. It leaves the mean of
// their values in meanQ for the actor.
func (a *conditioned) updateCritics(n int) (loss float64) {
	m, actions := len(a.shape.Objectives), a.shape.Actions
	a.follow(n)
	a.meanQ = resize(a.meanQ, n*actions*m)
	clear(a.meanQ)
	for _, c := range a.critics { // separate targets keep the spread of the ensemble meaningful
		a.goal(c, n)
		q := c.trainer.Forward(a.x, n, nil)
		a.grad = resize(a.grad, len(q))
		clear(a.grad)
		for k := range n {
			loss += vectorLoss(a.grad, q, a.y[k*m:(k+1)*m], a.tilde[k*m:(k+1)*m], (k*actions+a.batch.Action[k])*m, n)
		}
		for i, v := range q {
			a.meanQ[i] += v / float32(len(a.critics))
		}
		a.descend(c, a.grad)
	}
	return loss / float64(n*len(a.critics))
}

// updateActor makes one gradient step of the actor towards the Boltzmann policy of the critics' mean.
func (a *conditioned) updateActor(n int) {
	m, actions := len(a.shape.Objectives), a.shape.Actions
	alpha := a.temperature()
	logits := a.trainer.Forward(a.x, n, nil)
	a.grad = resize(a.grad, len(logits))
	a.prior = resize(a.prior, actions)
	copy(a.grad, logits)
	for k := range n {
		row, mask := a.grad[k*actions:(k+1)*actions], a.batch.Mask[k*actions:(k+1)*actions]
		softmax(row, mask)
		for b := range actions {
			a.prior[b] = utility(a.tilde[k*m:(k+1)*m], a.meanQ[(k*actions+b)*m:(k*actions+b+1)*m]) / alpha
		}
		softmax(a.prior, mask)
		for b := range row {
			row[b] = (row[b] - a.prior[b]) / float32(n)
		}
	}
	a.trainer.Backward(a.grad, nil)
	a.trainer.SetRate(a.rate())
	a.trainer.Step()
}

// softmax turns logits into probabilities in place, 0 where masked.
func softmax(v []float32, mask []bool) {
	most := float32(math.Inf(-1))
	for i, x := range v {
		if (mask == nil || mask[i]) && x > most {
			most = x
		}
	}
	var sum float32
	for i, x := range v {
		if mask != nil && !mask[i] {
			v[i] = 0
			continue
		}
		e := float32(math.Exp(float64(x - most)))
		v[i] = e
		sum += e
	}
	for i := range v {
		v[i] /= sum
	}
}

// argmax returns the index of the largest value; the first of equals.
func argmax(v []float32) int {
	at := 0
	for i, x := range v {
		if x > v[at] {
			at = i
		}
	}
	return at
}
