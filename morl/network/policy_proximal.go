package network

import "math/rand/v2"

// proximal is proximal policy optimisation (Schulman et al. 2017, algorithm 1, with the clipped objective), in the
// variant that RLScheduler adopted from Spinning Up: several passes over the batch, which stop once the policies have
// diverged, then passes for the critic. The reported losses and entropy are means over the minibatches of the first
// pass. Cost: O(steps × rows × parameters) per pass.
func (l *Learner) proximal(b *batch) (Report, error) {
	n, rng := b.steps(), newRNG(l.seed, l.updates, forMinibatches)
	advantage, goal := l.estimate(b)
	var r Report
	seen := 0 // steps of the first pass so far
	for range l.config.Iterations {
		done, err := l.minibatches(n, rng, func(idx []int) (bool, error) {
			j := l.policyGradient(b, idx, advantage)
			if r.KL = j.kl / float64(len(idx)); r.Iterations == 0 {
				seen += len(idx)
				share := float64(len(idx)) / float64(seen)
				r.PolicyLoss += share * (j.loss - r.PolicyLoss)
				r.Entropy += share * (j.entropy/float64(len(idx)) - r.Entropy)
			}
			if !(r.KL <= 1.5*l.config.TargetKL) {
				l.forget()
				return true, nil
			}
			return false, l.step(0, l.layout.policy)
		})
		if err != nil {
			return r, err
		}
		if done {
			break
		}
		r.Iterations++
	}
	seen = 0
	for ; r.ValueIteration < l.config.ValueIterations; r.ValueIteration++ {
		_, err := l.minibatches(n, rng, func(idx []int) (bool, error) {
			j := l.valueGradient(b, idx, goal)
			if r.ValueIteration == 0 {
				seen += len(idx)
				r.ValueLoss += float64(len(idx)) / float64(seen) * (j.value - r.ValueLoss)
			}
			return false, l.step(l.layout.value, len(l.nets))
		})
		if err != nil {
			return r, err
		}
	}
	return r, nil
}

// minibatches calls f for random minibatches of the steps, or once for all steps, until f reports done.
func (l *Learner) minibatches(n int, rng *rand.Rand, f func(idx []int) (done bool, err error)) (bool, error) {
	idx := steps(n)
	size := l.config.Minibatch
	if size == 0 || size >= n {
		return f(idx)
	}
	rng.Shuffle(n, func(i, j int) { idx[i], idx[j] = idx[j], idx[i] })
	for len(idx) > 0 {
		k := min(size, len(idx))
		if done, err := f(idx[:k]); done || err != nil {
			return done, err
		}
		idx = idx[k:]
	}
	return false, nil
}

// estimate returns the normalised generalised advantage of every step, and its discounted return in the critic's
// scale.
func (l *Learner) estimate(b *batch) (advantage, goal []float64) {
	n := b.steps()
	advantage, goal = make([]float64, n), make([]float64, n)
	for i, end := range b.episode[1:] {
		discounted(goal[b.episode[i]:end], b.reward[b.episode[i]:end], l.config.Gamma)
	}
	if l.config.ScaleReturns && l.updates == 0 {
		if shift, scale := moments(goal, 0); scale > 0 {
			l.shift, l.scale = shift, scale
		}
	}
	value := make([]float64, n)
	l.over(b, steps(n), func(p pass, chunk []int, _ int) lossSums {
		for k, v := range p.values(b, chunk) {
			value[chunk[k]] = l.shift + l.scale*float64(v)
		}
		return lossSums{}
	})
	for i, end := range b.episode[1:] {
		from := b.episode[i]
		generalised(advantage[from:end], b.reward[from:end], value[from:end], l.config.Gamma, l.config.Lambda)
	}
	mean, deviation := moments(advantage, 0)
	for i := range advantage {
		advantage[i] = (advantage[i] - mean) / (deviation + 1e-8)
		goal[i] = (goal[i] - l.shift) / l.scale
	}
	return advantage, goal
}

// policyGradient accumulates the gradient of the mean clipped loss over the steps idx.
func (l *Learner) policyGradient(b *batch, idx []int, advantage []float64) lossSums {
	share := 1 / float64(len(idx))
	return l.over(b, idx, func(p pass, chunk []int, _ int) lossSums {
		logits := p.logits(b, chunk)
		d := make([]float32, len(logits))
		j := b.differentiate(d, logits, make([]float64, len(logits)), chunk, func(i int, logp float64) (float64, float64) {
			loss, slope := clipped(logp, b.logp[i], advantage[i], l.config.Clip)
			return loss * share, slope * share
		}, l.config.Entropy*share)
		p.backward(d, nil)
		return j
	})
}

// valueGradient accumulates the gradient of the critic's mean squared error.
func (l *Learner) valueGradient(b *batch, idx []int, goal []float64) lossSums {
	share := 1 / float64(len(idx))
	return l.over(b, idx, func(p pass, chunk []int, _ int) (j lossSums) {
		values := p.values(b, chunk)
		d := make([]float32, len(values))
		for k, i := range chunk {
			e := float64(values[k]) - goal[i]
			j.value += e * e * share
			d[k] = float32(2 * e * share)
		}
		p.backward(nil, d)
		return j
	})
}
