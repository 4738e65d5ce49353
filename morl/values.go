package morl

// Valuer is an agent with critics. Its methods Values and Prefer are safe for concurrent use while the agent is not
// trained.
type Valuer interface {
	Agent
	// Values returns, per critic, the expected discounted return of each action followed by the agent's policy for w:
	// actions × objectives, in the units of the reward. The spread over critics measures the uncertainty. Each call
	// returns new slices.
	Values(o Observation, w []float32) [][]float32
	// Prefer returns the action without exploration. Unlike Act it is safe for concurrent use, as is Values.
	Prefer(o Observation, w []float32) int
}

var (
	_ Valuer = (*envelope)(nil)
	_ Valuer = (*conditioned)(nil)
	_ Valuer = (*multiPolicy)(nil)
)

// Values returns the values of each network.
func (a *envelope) Values(o Observation, w []float32) [][]float32 { return a.values(a.critics, o, w) }

// Values returns the values of each critic.
func (a *conditioned) Values(o Observation, w []float32) [][]float32 {
	return a.values(a.critics, o, w)
}

// Prefer returns the greedy action in w·Q.
func (a *envelope) Prefer(o Observation, w []float32) int {
	mean := make([]float32, a.shape.Actions*len(w))
	for _, q := range a.Values(o, w) {
		for i, v := range q {
			mean[i] += v
		}
	}
	action := best(mean, w, o.Mask)
	return action
}

// Prefer returns the actor's most probable action.
func (a *conditioned) Prefer(o Observation, w []float32) int {
	logits := a.actor.Forward(nil, a.input(o, w), 1)
	softmax(logits, o.Mask)
	return argmax(logits)
}

// Values returns the values of the critic of each policy, regardless of w. Each critic follows the policy that it
// belongs to, so the spread includes that of the policies, except in terminal states.
func (a *multiPolicy) Values(o Observation, _ []float32) [][]float32 {
	var out [][]float32
	for _, p := range a.policies {
		out = append(out, inUnits(p.critics[0].online.Forward(nil, p.inputs(o), p.shape.Actions), p.scale))
	}
	return out
}

// inputs returns a state joined with every action in turn.
func (p *policy) inputs(o Observation) []float32 {
	s, actions := p.shape.State, p.shape.Actions
	in := make([]float32, actions*(s+actions))
	for b := range actions {
		row := in[b*(s+actions):]
		copy(row, o.State)
		row[s+b] = 1
	}
	return in
}

// Prefer returns the most probable action of the policy nearest to w.
func (a *multiPolicy) Prefer(o Observation, w []float32) int {
	logits := a.policies[nearest(a.policies, w)].actor.Forward(nil, o.State, 1)
	softmax(logits, o.Mask)
	return argmax(logits)
}

// values returns the values of each critic in the units of the reward.
func (l *learner) values(critics []*critic, o Observation, w []float32) [][]float32 {
	in := l.input(o, w)
	var out [][]float32
	for _, c := range critics {
		out = append(out, inUnits(c.online.Forward(nil, in, 1), l.scale))
	}
	return out
}
