package network

// goals returns the discounted return of every step, normalised within each episode or over all of them.
func (l *Learner) goals(b *batch) []float64 {
	g := make([]float64, b.steps())
	for i, end := range b.episode[1:] {
		from := b.episode[i]
		discounted(g[from:end], b.reward[from:end], l.config.Gamma)
		if !l.config.AcrossEpisodes {
			normalise(g[from:end])
		}
	}
	if l.config.AcrossEpisodes {
		normalise(g)
	}
	return g
}

// reinforce makes one step along the gradient of Σ −log π(a)·Ĝ, as a mean over the episodes (Williams 1992; the
// normalisation is HDeepRM's).
func (l *Learner) reinforce(b *batch) (Report, error) {
	goal, share := l.goals(b), 1/float64(len(b.episode)-1)
	j := l.over(b, steps(b.steps()), func(p pass, chunk []int, _ int) lossSums {
		logits := p.logits(b, chunk)
		d := make([]float32, len(logits))
		j := b.differentiate(d, logits, make([]float64, len(logits)), chunk, func(i int, logp float64) (float64, float64) {
			return -logp * goal[i] * share, -goal[i] * share
		}, l.config.Entropy*share)
		p.backward(d, nil)
		return j
	})
	r := Report{PolicyLoss: j.loss, Entropy: j.entropy / float64(b.steps()), Iterations: 1}
	return r, l.step(0, l.layout.policy)
}

// actorCritic makes one step along the gradient of Σ −log π(a)·(Ĝ−v) + Σ smoothL1(v−Ĝ), as a mean over the episodes
// (the advantage form of Mnih et al. 2016, as intended by HDeepRM); the advantage is treated as a constant in the
// first term.
func (l *Learner) actorCritic(b *batch) (Report, error) {
	goal, share := l.goals(b), 1/float64(len(b.episode)-1)
	j := l.over(b, steps(b.steps()), func(p pass, chunk []int, _ int) lossSums {
		values := append([]float32(nil), p.values(b, chunk)...)
		logits := p.logits(b, chunk)
		d, dv := make([]float32, len(logits)), make([]float32, len(values))
		advantage := make(map[int]float64, len(chunk))
		value := 0.0
		for k, i := range chunk {
			advantage[i] = goal[i] - float64(values[k])
			loss, slope := smooth(-advantage[i])
			value += loss * share
			dv[k] = float32(slope * share)
		}
		j := b.differentiate(d, logits, make([]float64, len(logits)), chunk, func(i int, logp float64) (float64, float64) {
			return -logp * advantage[i] * share, -advantage[i] * share
		}, l.config.Entropy*share)
		j.value = value
		p.backward(d, dv)
		return j
	})
	r := Report{PolicyLoss: j.loss, ValueLoss: j.value, Entropy: j.entropy / float64(b.steps()), Iterations: 1, ValueIteration: 1}
	return r, l.step(0, len(l.nets))
}
