package pretrain

import (
	"math"
	"math/rand/v2"

	"trainopt/morl"
	"trainopt/simulator/training"
)

// agentConfig returns the settings of the default agent for a training of the given number of steps.
func agentConfig(steps int) morl.Config {
	return morl.Config{Hidden: []int{128, 128}, Gamma: 0.95, Tau: 0.01, Rate: 1e-3, Every: 1, Warmup: 2000, Exploration: 0.1,
		ExploreSteps: steps / 2, Anneal: steps, Critics: 4, Scale: []float64{1, 1, 1, 1}, Resets: morl.Resets{Mode: "evidence", Debt: 3}}
}

// curriculum draws the preferences of the episodes on which an agent for training jobs learns: uniform over cost, time
// and resource, with a weight of at least 0.6 for one of them in half of the episodes. It adds the Lagrange multiplier
// of the SLA, which a PID controller adjusts so that at most 5 % of the jobs that could meet their SLA violate
// it.
type curriculum struct {
	pid    morl.PID
	lambda float64
}

// newCurriculum returns a curriculum with a multiplier of 0.5.
func newCurriculum() *curriculum {
	return &curriculum{pid: morl.PID{Kp: 0.2, Ki: 0.05, Most: 4, Smooth: 0.5}, lambda: 0.5}
}

// Draw writes the weights of one episode into w, in the order of perf.Objectives.
func (c *curriculum) Draw(w []float32, rng *rand.Rand) {
	morl.UniformPreference(w[:3], rng)
	w[3] = 0
	if lead := rng.IntN(6); lead < 3 {
		for i := range 3 {
			w[i] *= 0.4
		}
		w[lead] += 0.6
	}
	copy(w, morl.Constrained(w, []float64{0, 0, 0, c.lambda}))
}

// Update adjusts the multiplier to the episodes an environment completed since the last update.
func (c *curriculum) Update(seen training.Tally) {
	if seen.Agreed > 0 {
		c.lambda = max(0.1, c.pid.Update(float64(seen.Missed)/float64(seen.Agreed), 0.05))
	}
	if math.IsNaN(c.lambda) {
		c.lambda = 0.5
	}
}

// Multiplier returns the current multiplier.
func (c *curriculum) Multiplier() float64 { return c.lambda }
