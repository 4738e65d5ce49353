package morl

import (
	"math"
	"math/rand/v2"
	"slices"
)

// learner is the common part of the agents: the replay buffer, the schedules, the scale of the objectives and the
// preferences to train for.
type learner struct {
	name   string
	shape  Shape
	config Config

	replay  *replay // nil before the first transition: acting does not require it
	batch   batch
	acting  *rand.Rand // exploration
	sampler *rand.Rand // replay and preferences

	stats stats
	// scale divides each objective inside the networks; nil before training starts.
	scale []float32
	// gain is the discounted return of the current episode, most its largest absolute value so far.
	gain, most []float64
	discount   float64

	focus [][]float32
	renew resetController
}

func newLearner(name string, s Shape, c Config, seed uint64) learner {
	c = c.withDefaults()
	m := len(s.Objectives)
	l := learner{name: name, shape: s, config: c, acting: stream(seed, 1), sampler: stream(seed, 2),
		gain: make([]float64, m), most: make([]float64, m), discount: 1}
	l.stats.Loss = math.NaN()
	l.renew = newRenewer(c, m, seed)
	if c.Scale != nil {
		l.scale = make([]float32, m)
		for i, v := range c.Scale {
			l.scale[i] = float32(v)
		}
	}
	return l
}

// Name returns the key of the agent in Agents.
func (l *learner) Name() string { return l.name }

// Shape returns the shape of the environment that the agent was created for.
func (l *learner) Shape() Shape { return l.shape }

// Stats returns counters of the training so far.
func (l *learner) Stats() stats { return l.stats }

// trainable returns the reason why this build cannot train the agent, nil if it can.
func (l *learner) trainable() error { return l.config.network(l.shape, l.shape.State, 1).Trainable() }

// Focus sets preferences of particular interest: about half of the training preferences are drawn near them.
func (l *learner) Focus(preferences [][]float32) { l.focus = preferences }

// store records a transition and returns the number of gradient steps that are due. It tracks the discounted return
// of the current episode, from which the scale of the objectives is set when the first step is due.
func (l *learner) store(t transition) int {
	g := math.Pow(l.config.Gamma, float64(t.Work))
	next := float32(g)
	if t.Done {
		next = 0
	}
	if l.replay == nil {
		l.replay = newReplay(l.shape, min(l.config.Buffer, 1<<28/l.shape.State))
		l.replay.holdOut = l.renew.config.Mode == "evidence"
	}
	l.replay.Add(t, next)
	l.stats.Steps++
	for i, r := range t.Reward {
		l.gain[i] += l.discount * float64(r)
		l.most[i] = max(l.most[i], math.Abs(l.gain[i]))
	}
	l.discount *= g
	if t.Done || t.Cut {
		clear(l.gain)
		l.discount = 1
	}
	if l.stats.Steps < l.config.Warmup || l.stats.Steps%l.config.Every != 0 {
		return 0
	}
	if l.scale == nil {
		l.scale = make([]float32, len(l.most))
		for i, v := range l.most {
			l.scale[i] = 1
			if v > 0 {
				l.scale[i] = float32(v)
			}
		}
	}
	return l.config.Updates
}

// epsilon returns the current share of random actions.
func (l *learner) epsilon() float64 {
	done := float64(l.stats.Steps) / float64(l.config.ExploreSteps)
	return max(l.config.Exploration, 1-done*(1-l.config.Exploration))
}

// rate returns the current learning rate.
func (l *learner) rate() float32 {
	if l.config.Anneal == 0 {
		return float32(l.config.Rate)
	}
	done := min(1, float64(l.stats.Steps)/float64(l.config.Anneal))
	return float32(l.config.Rate * (0.01 + 0.99*0.5*(1+math.Cos(math.Pi*done))))
}

// preference writes a training preference to w: uniform on the simplex, or near a focus.
func (l *learner) preference(w []float32) { drawPreference(w, l.focus, l.sampler) }

// drawPreference draws uniformly on the simplex or, if focus is not empty, with probability ½ near one of its points:
// exactly that point, or a mixture with up to a tenth of a uniform draw, usually much less.
func drawPreference(w []float32, focus [][]float32, rng *rand.Rand) {
	UniformPreference(w, rng)
	if len(focus) == 0 || rng.IntN(2) == 0 {
		return
	}
	near := focus[rng.IntN(len(focus))]
	mix := float32(0)
	if rng.IntN(2) == 0 {
		u := rng.Float32()
		mix = 0.1 * u * u * u
	}
	for i := range w {
		w[i] = (1-mix)*near[i] + mix*w[i]
	}
}

// UniformPreference draws w uniformly from the simplex: weights ≥ 0 that sum to 1.
func UniformPreference(w []float32, rng *rand.Rand) {
	var sum float64
	for i := range w {
		e := rng.ExpFloat64()
		w[i] = float32(e)
		sum += e
	}
	for i := range w {
		w[i] /= float32(sum)
	}
}

// scaled converts a preference to the networks' scale, summing to 1; the order of utilities is preserved.
func (l *learner) scaled(dst, w []float32) {
	var sum float32
	for i, v := range w {
		dst[i] = v
		if l.scale != nil {
			dst[i] *= l.scale[i]
		}
		sum += dst[i]
	}
	if sum > 0 {
		for i := range dst {
			dst[i] /= sum
		}
	}
}

// join writes rows of [state, preference] as network input.
func (l *learner) join(dst, state, w []float32, rows int) {
	s, m := l.shape.State, len(l.shape.Objectives)
	for k := range rows {
		copy(dst[k*(s+m):], state[k*s:(k+1)*s])
		copy(dst[k*(s+m)+s:], w[k*m:(k+1)*m])
	}
}

// random returns a uniformly drawn allowed action.
func random(mask []bool, actions int, rng *rand.Rand) int {
	if mask == nil {
		return rng.IntN(actions)
	}
	open := 0
	for _, ok := range mask {
		if ok {
			open++
		}
	}
	if open == 0 {
		panic("morl: every action is masked")
	}
	k := rng.IntN(open)
	for a, ok := range mask {
		if ok {
			if k == 0 {
				return a
			}
			k--
		}
	}
	panic("unreachable")
}

// utility returns w·q over the objectives.
func utility(w, q []float32) float32 {
	var u float32
	for i, v := range w {
		u += v * q[i]
	}
	return u
}

// best returns the allowed action with the highest utility, with q as actions × objectives; the first of equals.
func best(q, w []float32, mask []bool) int {
	m, action, u := len(w), -1, float32(0)
	for a := range len(q) / m {
		if mask != nil && !mask[a] {
			continue
		}
		if v := utility(w, q[a*m:(a+1)*m]); action < 0 || v > u {
			action, u = a, v
		}
	}
	if action < 0 {
		panic("morl: every action is masked")
	}
	return action
}

// smooth updates the moving average of the loss.
func (l *learner) smooth(loss float64) {
	if math.IsNaN(l.stats.Loss) {
		l.stats.Loss = loss
	}
	l.stats.Loss += 0.01 * (loss - l.stats.Loss)
}

// resize returns a slice of length n, reusing v if its capacity suffices; the content is undefined.
func resize(v []float32, n int) []float32 { return slices.Grow(v[:0], n)[:n] }
