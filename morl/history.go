package morl

import (
	"math"
	"math/rand/v2"
)

// memory is an environment whose states hold several observations.
type memory struct {
	env   Environment
	shape Shape
	width int
	state []float32
}

var (
	_ Environment = (*memory)(nil)
	_ Evaluator   = (*memory)(nil)
)

// Remember returns an environment whose state is the last n observations of env, oldest first; those before the first
// of an episode are zeros. Agents can thus act on what an observation alone does not show.
func Remember(env Environment, n int) *memory {
	s := env.Shape()
	m := &memory{env: env, shape: s, width: s.State, state: make([]float32, n*s.State)}
	m.shape.State = len(m.state)
	return m
}

// Shape returns the dimensions.
func (m *memory) Shape() Shape { return m.shape }

// Reset starts an episode.
func (m *memory) Reset(rng *rand.Rand) Observation {
	clear(m.state)
	return m.observe(m.env.Reset(rng))
}

// Step executes an action.
func (m *memory) Step(action int) Outcome {
	out := m.env.Step(action)
	out.Observation = m.observe(out.Observation)
	return out
}

func (m *memory) observe(o Observation) Observation {
	copy(m.state, m.state[m.width:])
	copy(m.state[len(m.state)-m.width:], o.State)
	o.State = m.state
	return o
}

// Err returns the failure of the environment, if it can fail.
func (m *memory) Err() error {
	if f, ok := m.env.(failing); ok {
		return f.Err()
	}
	return nil
}

// Return implements Evaluator by simulation. It ends the current episode; it is NaN after a failure.
func (m *memory) Return(policy func(state []float32, mask []bool) int, gamma float64) []float64 {
	return simulated(m, policy, gamma)
}

// evaluationEpisodes is the number of episodes over which simulated averages.
const evaluationEpisodes = 5

// simulated returns the mean discounted return of a policy over five episodes with the same seeds in every call.
func simulated(env Environment, policy func(state []float32, mask []bool) int, gamma float64) []float64 {
	mean := make([]float64, len(env.Shape().Objectives))
	rng := rand.New(rand.NewPCG(1, 0xe7a1))
	for range evaluationEpisodes {
		for i, v := range playEpisode(env, policy, gamma, rng) {
			mean[i] += v / evaluationEpisodes
		}
	}
	return mean
}

// playEpisode returns the discounted return of a policy in one episode; NaN after a failure.
func playEpisode(env Environment, policy func(state []float32, mask []bool) int, gamma float64, rng *rand.Rand) []float64 {
	sum := make([]float64, len(env.Shape().Objectives))
	f, _ := env.(failing)
	failed := func() bool { return f != nil && f.Err() != nil }
	o, discount := env.Reset(rng), 1.0
	for over := failed(); !over; {
		out := env.Step(policy(o.State, o.Mask))
		for i, r := range out.Reward {
			sum[i] += discount * float64(r)
		}
		discount *= math.Pow(gamma, float64(out.Work))
		o, over = out.Observation, out.Done || out.Cut
	}
	if failed() {
		for i := range sum {
			sum[i] = math.NaN()
		}
	}
	return sum
}
