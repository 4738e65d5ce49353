package morl

// Valuer is an agent with critics: it says what it expects of each action.
type Valuer interface {
	Agent
	// Values are each critic's expected discounted return of each action, then following the agent's policy for w:
	// actions × objectives, in the units of the reward. Their spread tells how unsure the agent is. Each call gives new
	// slices.
	Values(o Observation, w []float32) [][]float32
}

var (
	_ Valuer = (*Envelope)(nil)
	_ Valuer = (*Conditioned)(nil)
)

// Values are the values of each of the networks.
func (a *Envelope) Values(o Observation, w []float32) [][]float32 { return a.values(a.critics, o, w) }

// Values are the values of each critic.
func (a *Conditioned) Values(o Observation, w []float32) [][]float32 {
	return a.values(a.critics, o, w)
}

func (l *learner) values(critics []*critic, o Observation, w []float32) [][]float32 {
	in := make([]float32, l.shape.State+len(w))
	l.join(in, o.State, w, 1)
	var out [][]float32
	for _, c := range critics {
		q := c.online.Forward(nil, in, 1)
		for i := range q {
			if l.scale != nil {
				q[i] *= l.scale[i%len(w)]
			}
		}
		out = append(out, q)
	}
	return out
}
