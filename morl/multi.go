package morl

import (
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/morl/network"
)

// multiPolicy holds several policies, each for one preference, with its own actor, critic, target networks,
// optimisers and replay buffer, as in SLA-MORL (arXiv 2508.03509 and its code). The policy whose preference is
// nearest decides and learns. Differences from that code: preferences do weigh the rewards (the critic has one output
// per objective), the actor follows the expectation over all actions instead of soft actions that no critic was
// trained on, actions are sampled from the policy, and dropout is active in training.
//
// The critic of a policy takes state ⊕ action (one-hot) and is trained on y = r + γ Σ_a π̄(a|s') Q̄(s',a); the actor
// on E_π[w·Q] + α H(π) (discrete soft actor-critic: Christodoulou 2019, arXiv 1910.07207), with α decreasing with
// exploration. A gradient step costs O(batch × actions × parameters).
type multiPolicy struct {
	shape    Shape
	policies []*policy
}

var (
	_ Agent    = (*multiPolicy)(nil)
	_ resetter = (*multiPolicy)(nil)
)

// multiLayouts are the values of Config.Policies.
var multiLayouts = []string{"", "one", "unweighted"}

// newMulti returns untrained policies for defaultPreferences, or as Config.Policies requires.
func newMulti(s Shape, c Config, seed uint64) *multiPolicy {
	all := defaultPreferences(len(s.Objectives))
	if c.Policies == "one" {
		all = all[:1]
	}
	a := newMultiFor(all, s, c, seed)
	for _, p := range a.policies {
		if c.Policies == "unweighted" {
			p.aim = all[0]
		}
	}
	return a
}

// newMultiFor returns one untrained policy per preference (weights ≥ 0 that sum to 1, one per objective).
func newMultiFor(preferences [][]float32, s Shape, c Config, seed uint64) *multiPolicy {
	if c.Dropout == 0 {
		c.Dropout = defaultDropout
	}
	a := &multiPolicy{shape: s}
	for k, w := range preferences {
		a.policies = append(a.policies, newPolicy(w, s, c, seed+uint64(k)*0x9e3779b97f4a7c15))
	}
	return a
}

// defaultPreferences returns the balanced preference and, for each objective, one with weight 0.6 on it and 0.4
// spread over the others. With three objectives these are the four of SLA-MORL.
func defaultPreferences(objectives int) [][]float32 {
	m := objectives
	if m == 1 {
		return [][]float32{{1}}
	}
	out := [][]float32{make([]float32, m)}
	for i := range m {
		out[0][i] = 1 / float32(m)
		w := make([]float32, m)
		for j := range w {
			w[j] = 0.4 / float32(m-1)
		}
		w[i] = 0.6
		out = append(out, w)
	}
	return out
}

// Name returns the key of the agent in Agents.
func (a *multiPolicy) Name() string { return "multi" }

// Shape returns the shape of the environment that the agent was created for.
func (a *multiPolicy) Shape() Shape { return a.shape }

func (a *multiPolicy) trainable() error { return a.policies[0].trainable() }

// Preferences returns the preferences of the policies, in order; they must not be modified.
func (a *multiPolicy) Preferences() [][]float32 {
	var out [][]float32
	for _, p := range a.policies {
		out = append(out, p.w)
	}
	return out
}

// Select returns the index of the policy for preference w, given the projected severities of the violations that the
// objectives repair (0…1, one per objective; nil: none): the policy nearest to w adapted by Weights. A violation thus
// selects the policy of the objective that repairs it, the earlier the more weight the preference gives that
// objective; without violations the user's preference decides. Ties go to the first.
func (a *multiPolicy) Select(w []float32, severities []float64) int {
	return nearest(a.policies, Weights{}.Target(w, severities))
}

// nearest returns the index of the policy with the preference nearest to w in Euclidean distance.
func nearest(policies []*policy, w []float32) int {
	at, least := 0, float32(math.Inf(1))
	for k, p := range policies {
		var d float32
		for i, v := range p.w {
			d += (v - w[i]) * (v - w[i])
		}
		if d < least {
			at, least = k, d
		}
	}
	return at
}

// Act returns the most probable action of the policy nearest to w; with explore it samples, and a share ε is uniform.
// ε decreases with the number of decisions of that policy.
func (a *multiPolicy) Act(o Observation, w []float32, explore bool) int {
	return a.policies[nearest(a.policies, w)].act(o, explore)
}

// Observe passes a transition to the policy that decided it, and trains that policy when due.
func (a *multiPolicy) Observe(t transition, w []float32) {
	k := nearest(a.policies, w)
	p := a.policies[k]
	for range p.store(t) {
		p.update()
	}
	p.renew.check(p, t.Reward, a.Stats().Steps, fmt.Sprintf("policy %d: ", k))
}

// Stats returns the sums of the policies' counters; the loss is the mean of theirs.
func (a *multiPolicy) Stats() stats {
	var s stats
	var sum float64
	known := 0
	for _, p := range a.policies {
		s.Steps += p.stats.Steps
		s.Updates += p.stats.Updates
		s.Resets += p.stats.Resets
		if !math.IsNaN(p.stats.Loss) {
			sum += p.stats.Loss
			known++
		}
	}
	s.Loss = sum / float64(known) // NaN if no policy has one
	return s
}

// ResetLog lists the resets of all policies' critics, ordered by step.
func (a *multiPolicy) ResetLog() []reset {
	var all []reset
	for _, p := range a.policies {
		all = append(all, p.renew.log...)
	}
	slices.SortStableFunc(all, func(x, y reset) int { return x.Step - y.Step })
	return all
}

// Reset discards the networks and the replay buffer of policy k.
func (a *multiPolicy) Reset(k int) {
	old := a.policies[k]
	c := old.config
	if c.Dropout == 0 {
		c.Dropout = -1 // restore the setting "none"
	}
	a.policies[k] = newPolicy(old.w, a.shape, c, old.seed)
	a.policies[k].aim = old.aim
}

// Save writes the preferences, and actor and critic of every policy.
func (a *multiPolicy) Save(w io.Writer) error {
	if err := binary.Write(w, binary.LittleEndian, a.head()); err != nil {
		return fmt.Errorf("save agent multi: %w", err)
	}
	for k, p := range a.policies {
		if err := p.save(w, p.actor, p.critics[0].online); err != nil {
			return fmt.Errorf("policy %d: %w", k, err)
		}
	}
	return nil
}

// head returns the number of policies and their preferences.
func (a *multiPolicy) head() []float32 {
	h := []float32{float32(len(a.policies))}
	for _, p := range a.policies {
		h = append(h, p.w...)
	}
	return h
}

// Load restores the output of Save by an agent with the same preferences; the replay buffers are not part of it.
// After an error the agent is unchanged.
func (a *multiPolicy) Load(r io.Reader) error {
	head := make([]float32, len(a.head()))
	if err := binary.Read(r, binary.LittleEndian, head); err != nil {
		return fmt.Errorf("load agent multi: %w", err)
	}
	if !slices.Equal(head, a.head()) {
		return fmt.Errorf("load agent multi: other preferences than %v: %w", a.Preferences(), ErrForeign)
	}
	var read []*policy
	for k, p := range a.policies {
		c := p.config
		c.Buffer = 1
		fresh := newPolicy(p.w, a.shape, c, p.seed)
		if err := fresh.load(r, fresh.actor, fresh.critics[0].online); err != nil {
			return fmt.Errorf("policy %d: %w", k, err)
		}
		read = append(read, fresh)
	}
	for k, p := range a.policies {
		p.actor.CopyFrom(read[k].actor)
		p.target.CopyFrom(read[k].actor)
		p.trainer.Forget()
		p.critics[0].online.CopyFrom(read[k].critics[0].online)
		restart(p.critics)
		p.scale, p.stats = read[k].scale, read[k].stats
	}
	return nil
}

// policy is one policy of a multiPolicy.
type policy struct {
	learner
	seed          uint64
	w, aim        []float32 // the preference that selects it, and the one that it learns
	actor, target *network.Network
	trainer       *network.Trainer
	critics       []*critic // length 1
	dropping      *rand.Rand

	logits, pi       []float32
	x, wide, y, grad []float32
	q, tilde         []float32
}

func newPolicy(w []float32, s Shape, c Config, seed uint64) *policy {
	p := &policy{learner: newLearner("multi", s, c, seed), seed: seed, w: slices.Clone(w), aim: w, dropping: stream(seed, 5)}
	c = p.config
	m := len(s.Objectives)
	ac := c.network(s, s.State, s.Actions)
	p.actor, p.target = network.New(ac, stream(seed, 3)), network.New(ac, stream(seed, 3))
	p.trainer = network.NewTrainer(p.actor, c.Batch, network.Adam{Rate: float32(c.Rate), ClipNorm: 10})
	cc := ac
	cc.Inputs, cc.Outputs = s.State+s.Actions, m
	p.critics = []*critic{newCritic(cc, c, seed, 10)}
	p.tilde = make([]float32, m)
	return p
}

// act returns an action of the policy, see multiPolicy.Act.
func (p *policy) act(o Observation, explore bool) int {
	if explore && p.acting.Float64() < p.epsilon() {
		return random(o.Mask, p.shape.Actions, p.acting)
	}
	p.logits = p.actor.Forward(p.logits, o.State, 1)
	softmax(p.logits, o.Mask)
	if !explore {
		return argmax(p.logits)
	}
	return draw(p.logits, p.acting)
}

func (p *policy) update() {
	loss := p.updateCritic()
	p.updateActor()
	p.stats.Updates++
	p.smooth(loss)
}

// updateCritic samples a batch, makes one gradient step of the critic on it and returns the mean loss.
func (p *policy) updateCritic() float64 {
	n, m := p.config.Batch, len(p.shape.Objectives)
	p.replay.Sample(&p.batch, n, p.sampler)
	p.scaled(p.tilde, p.aim)
	y := p.goal(n)
	c := p.critics[0]
	q := c.trainer.Forward(p.pairs(n), n, p.dropping)
	p.grad = resize(p.grad, len(q))
	clear(p.grad)
	loss := 0.0
	for k := range n {
		loss += vectorLoss(p.grad, q, y[k*m:(k+1)*m], p.tilde, k*m, n)
	}
	p.descend(c, p.grad)
	return loss / float64(n)
}

// goal returns the target vector of each row of the batch, in the networks' scale.
func (p *policy) goal(n int) []float32 {
	m, actions := len(p.shape.Objectives), p.shape.Actions
	p.pi = p.target.Forward(p.pi, p.batch.Next, n)
	c := p.critics[0]
	c.goal = c.target.Forward(c.goal, p.everyAction(p.batch.Next, n), n*actions)
	p.y = resize(p.y, n*m)
	for k := range n {
		pi := p.pi[k*actions : (k+1)*actions]
		softmax(pi, p.batch.NextMask[k*actions:(k+1)*actions])
		for i := range m {
			v := p.batch.Reward[k*m+i] / p.scale[i]
			if d := p.batch.Discount[k]; d > 0 {
				var follow float32
				for b, q := range pi {
					follow += q * c.goal[(k*actions+b)*m+i]
				}
				v += d * follow
			}
			p.y[k*m+i] = v
		}
	}
	return p.y
}

// pairs returns the batch's states, each joined with the action taken.
func (p *policy) pairs(n int) []float32 {
	s, width := p.shape.State, p.shape.State+p.shape.Actions
	p.x = resize(p.x, n*width)
	clear(p.x)
	for k := range n {
		copy(p.x[k*width:], p.batch.State[k*s:(k+1)*s])
		p.x[k*width+s+p.batch.Action[k]] = 1
	}
	return p.x
}

// everyAction returns rows states, each joined with every action in turn.
func (p *policy) everyAction(states []float32, rows int) []float32 {
	s, actions := p.shape.State, p.shape.Actions
	width := s + actions
	p.wide = resize(p.wide, rows*actions*width)
	clear(p.wide)
	for k := range rows {
		for b := range actions {
			row := p.wide[(k*actions+b)*width : (k*actions+b+1)*width]
			copy(row, states[k*s:(k+1)*s])
			row[s+b] = 1
		}
	}
	return p.wide
}

// updateActor makes one step along the gradient of Σ_a π(a|s) (w·Q(s,a) − α log π(a|s)), exact over the actions.
func (p *policy) updateActor() {
	n, m, actions := p.config.Batch, len(p.shape.Objectives), p.shape.Actions
	done := min(1, float64(p.stats.Steps)/float64(p.config.ExploreSteps))
	alpha := firstTemperature * math.Pow(finalTemperature/firstTemperature, done)
	p.q = p.critics[0].online.Forward(p.q, p.everyAction(p.batch.State, n), n*actions)
	logits := p.trainer.Forward(p.batch.State, n, p.dropping)
	p.grad = resize(p.grad, n*actions)
	copy(p.grad, logits)
	for k := range n {
		pi := p.grad[k*actions : (k+1)*actions]
		softmax(pi, p.batch.Mask[k*actions:(k+1)*actions])
		var mean float64
		for b, v := range pi {
			if v > 0 {
				mean += float64(v) * p.regret(k*actions+b, v, m, alpha)
			}
		}
		for b, v := range pi {
			if v > 0 {
				pi[b] = v * float32((p.regret(k*actions+b, v, m, alpha)-mean)/float64(n))
			}
		}
	}
	p.trainer.Backward(p.grad, nil)
	p.trainer.SetRate(p.rate())
	p.trainer.Step()
	p.target.Blend(p.actor, float32(p.config.Tau))
}

// regret returns log π − w·Q/α of one action.
func (p *policy) regret(at int, pi float32, m int, alpha float64) float64 {
	return math.Log(float64(pi)) - float64(utility(p.tilde, p.q[at*m:(at+1)*m]))/alpha
}
