package morl

import (
	"math"
)

const (
	// envelopeAnchors is the number of preferences over which the target is maximised, besides the transition's own.
	envelopeAnchors = 4
	// scalarShare is the weight of the scalarised error in the loss (the λ of Yang et al.); the rest is the vector
	// error.
	scalarShare = 0.5
)

// Envelope is multi-objective Q-learning over all linear preferences simultaneously (Yang, Sun, Narasimhan, A
// generalized algorithm for multi-objective reinforcement learning and policy adaptation, NeurIPS 2019). One network
// maps (state, preference) to a vector Q for each action. The target of a transition is the best value of the next
// state, for the transition's preference, over actions *and* over a sample of preferences:
//
//	y = r + γ Q̄(s', a*, w*),  (a*, w*) = argmax over a and w' of w·Q̄(s', a, w')
//
// both from target networks. A maximum over noisy values is biased upwards, and this one is over preferences too.
// Therefore an ensemble of networks is trained, and the lowest utility among them is used (clipped double Q-learning,
// Fujimoto, van Hoof, Meger, ICML 2018); with a single network the values diverge even on deep-sea-treasure. The
// maximum over preferences and the plain one over actions have the same fixed point. The former transfers experience
// between preferences and is used during exploration, with decreasing probability; the latter is more accurate. Every
// transition is trained for newly drawn preferences (hindsight relabelling). The loss is a fixed mix of the errors of
// the vector and of the utility (see vectorLoss).
//
// A gradient step costs O(batch × anchors × parameters).
type envelope struct {
	learner
	critics []*critic

	in, mean       []float32 // for acting
	w, wide, tilde []float32 // preferences of a batch; [own + anchors] × batch; scaled
	x, next        []float32
	grad           []float32
}

var _ Agent = (*envelope)(nil)

// newEnvelope returns an untrained agent.
func newEnvelope(s Shape, c Config, seed uint64) *envelope {
	a := &envelope{learner: newLearner("envelope", s, c, seed)}
	c = a.config
	m := len(s.Objectives)
	nc := c.network(s, s.State+m, s.Actions*m)
	for i := range c.Critics {
		a.critics = append(a.critics, newCritic(nc, c, seed, uint64(10+i)))
	}
	return a
}

// Act returns the greedy action in w·Q; with explore a share ε of the actions is random.
func (a *envelope) Act(o Observation, w []float32, explore bool) int {
	if explore && a.acting.Float64() < a.epsilon() {
		return random(o.Mask, a.shape.Actions, a.acting)
	}
	q := a.Q(o, w)
	tilde := resize(a.tilde, len(w))
	a.scaled(tilde, w)
	return best(q, tilde, o.Mask)
}

// Q returns the vector value of each action, actions × objectives, in the networks' scale, as the mean over the
// networks. The result is valid until the next call.
func (a *envelope) Q(o Observation, w []float32) []float32 {
	a.in = resize(a.in, a.shape.State+len(w))
	a.join(a.in, o.State, w, 1)
	a.mean = resize(a.mean, a.shape.Actions*len(w))
	clear(a.mean)
	for _, c := range a.critics {
		c.out = c.online.Forward(c.out, a.in, 1)
		for i, v := range c.out {
			a.mean[i] += v / float32(len(a.critics))
		}
	}
	return a.mean
}

// Observe stores a transition and trains when due.
func (a *envelope) Observe(t transition, w []float32) {
	for range a.store(t) {
		a.update()
	}
	a.renew.check(a, t.Reward, a.stats.Steps, "")
}

// update makes one gradient step of every critic on a sampled batch. The target uses anchors with a probability that
// decreases to 0 over ExploreSteps.
func (a *envelope) update() {
	n, s, m := a.config.Batch, a.shape.State, len(a.shape.Objectives)
	a.replay.Sample(&a.batch, n, a.sampler)
	a.draw(n)
	anchors := 0
	if a.sampler.Float64() >= float64(a.stats.Steps)/float64(a.config.ExploreSteps) {
		anchors = envelopeAnchors
	}
	y := a.goal(n, anchors)
	a.x = resize(a.x, n*(s+m))
	a.join(a.x, a.batch.State, a.w, n)
	loss := 0.0
	for _, c := range a.critics {
		q := c.trainer.Forward(a.x, n, nil)
		a.grad = resize(a.grad, len(q))
		clear(a.grad)
		for k := range n {
			loss += vectorLoss(a.grad, q, y[k*m:(k+1)*m], a.tilde[k*m:(k+1)*m], (k*a.shape.Actions+a.batch.Action[k])*m, n)
		}
		a.descend(c, a.grad)
	}
	a.stats.Updates++
	a.smooth(loss / float64(n*len(a.critics)))
}

// vectorLoss adds the gradient of one row's loss at position at of q, and returns the loss: a mix of the Huber losses
// of the vector's components and m times that of the utility, linear beyond an error of 1.
func vectorLoss(grad, q, y, tilde []float32, at, rows int) float64 {
	m := len(y)
	var du float32
	var loss float64
	for i := range m {
		e := q[at+i] - y[i]
		du += tilde[i] * e
		g, l := huber(e)
		grad[at+i] += (1 - scalarShare) * g / float32(rows)
		loss += (1 - scalarShare) * l
	}
	g, l := huber(du)
	for i := range m {
		grad[at+i] += scalarShare * float32(m) * g * tilde[i] / float32(rows)
	}
	return loss + scalarShare*float64(m)*l
}

// huber returns derivative and value of the Huber loss with threshold 1.
func huber(e float32) (derivative float32, loss float64) {
	a := math.Abs(float64(e))
	if a <= 1 {
		return e, 0.5 * a * a
	}
	return float32(math.Copysign(1, float64(e))), a - 0.5
}

// draw draws the batch's preferences and the anchors, and arranges them for the next states: own, then each anchor.
func (a *envelope) draw(n int) {
	m := len(a.shape.Objectives)
	a.w, a.tilde = resize(a.w, n*m), resize(a.tilde, n*m)
	a.wide = resize(a.wide, (1+envelopeAnchors)*n*m)
	for k := range n {
		w := a.w[k*m : (k+1)*m]
		a.preference(w)
		a.scaled(a.tilde[k*m:(k+1)*m], w)
	}
	copy(a.wide, a.w)
	for j := 1; j <= envelopeAnchors; j++ {
		anchor := a.wide[j*n*m : (j*n+1)*m]
		a.preference(anchor)
		for k := 1; k < n; k++ {
			copy(a.wide[(j*n+k)*m:], anchor)
		}
	}
}

// goal returns the target vector of each row, in the networks' scale; it overwrites the rewards of the batch.
func (a *envelope) goal(n, anchors int) []float32 {
	s, m := a.shape.State, len(a.shape.Objectives)
	rows := (1 + anchors) * n
	a.next = resize(a.next, rows*(s+m))
	for j := 0; j <= anchors; j++ {
		a.join(a.next[j*n*(s+m):], a.batch.Next, a.wide[j*n*m:], n)
	}
	a.mean = resize(a.mean, rows*a.shape.Actions*m)
	clear(a.mean)
	for _, c := range a.critics {
		c.goal = c.target.Forward(c.goal, a.next, rows)
		for i, v := range c.goal {
			a.mean[i] += v / float32(len(a.critics))
		}
	}
	y := a.batch.Reward
	for k := range n {
		var follow []float32
		if a.batch.Discount[k] > 0 {
			if anchors > 0 {
				follow = a.envelope(k, n, anchors)
			} else {
				q := a.mean[k*a.shape.Actions*m : (k+1)*a.shape.Actions*m]
				b := best(q, a.tilde[k*m:(k+1)*m], a.batch.NextMask[k*a.shape.Actions:(k+1)*a.shape.Actions])
				follow = q[b*m : (b+1)*m]
			}
		}
		for i := range m {
			v := y[k*m+i] / a.scale[i]
			if follow != nil {
				v += a.batch.Discount[k] * follow[i]
			}
			y[k*m+i] = v
		}
	}
	return y
}

// envelope returns the best value of row k's next state over actions and preferences.
func (a *envelope) envelope(k, n, anchors int) (value []float32) {
	m, actions := len(a.shape.Objectives), a.shape.Actions
	tilde, open := a.tilde[k*m:(k+1)*m], a.batch.NextMask[k*actions:(k+1)*actions]
	var most float32
	for j := 0; j <= anchors; j++ {
		for b := range actions {
			if !open[b] {
				continue
			}
			at := ((j*n+k)*actions + b) * m
			var least []float32
			var u float32
			for _, c := range a.critics {
				if v := utility(tilde, c.goal[at:at+m]); least == nil || v < u {
					least, u = c.goal[at:at+m], v
				}
			}
			if value == nil || u > most {
				value, most = least, u
			}
		}
	}
	return value
}
