package network

import "math"

// lossSums holds the sums of losses, divergence and entropy over a chunk or a batch.
type lossSums struct {
	loss, value, kl, entropy float64
}

func (j *lossSums) add(o lossSums) {
	j.loss += o.loss
	j.value += o.value
	j.kl += o.kl
	j.entropy += o.entropy
}

// policyLoss returns, for step i of a batch and the current log-probability of its action, the loss and its
// derivative with respect to that log-probability.
type policyLoss func(i int, logp float64) (loss, slope float64)

// differentiate writes to d the derivatives of Σ loss − entropy·H over the steps idx with respect to the logits (H is
// the entropy of a step's distribution), and returns the sums. p is a buffer.
func (b *batch) differentiate(d, logits []float32, p []float64, idx []int, f policyLoss, entropy float64) (j lossSums) {
	at := 0
	for _, i := range idx {
		mask := b.mask[b.from[i]:b.from[i+1]]
		n, a := len(mask), b.taken[i]
		p := p[:n]
		softmax(p, logits[at:at+n], mask)
		h := 0.0
		for _, q := range p {
			if q > 0 {
				h -= q * math.Log(q)
			}
		}
		logp := math.Log(p[a])
		loss, slope := f(i, logp)
		j.loss += loss - entropy*h
		j.entropy += h
		j.kl += b.logp[i] - logp
		for k, q := range p {
			g := -slope * q
			if k == a {
				g += slope
			}
			if entropy != 0 && q > 0 {
				g += entropy * q * (math.Log(q) + h)
			}
			d[at+k] = float32(g)
		}
		at += n
	}
	return j
}

// clipped is the loss of proximal policy optimisation (Schulman et al. 2017, equation 7): −min(r·A, clip(r, 1−ε,
// 1+ε)·A), where r is the ratio of the current to the old probability.
func clipped(logp, old, advantage, clip float64) (loss, slope float64) {
	r := math.Exp(logp - old)
	if advantage > 0 && r > 1+clip {
		return -(1 + clip) * advantage, 0
	}
	if advantage < 0 && r < 1-clip {
		return -(1 - clip) * advantage, 0
	}
	return -r * advantage, -r * advantage
}

// smooth is the smooth L1 loss: quadratic within 1, then linear (Girshick 2015, equation 3).
func smooth(d float64) (loss, slope float64) {
	if math.Abs(d) < 1 {
		return d * d / 2, d
	}
	return math.Abs(d) - 0.5, math.Copysign(1, d)
}

// discounted writes the discounted sum of the rewards from each step onwards.
func discounted(dst, reward []float64, gamma float64) {
	sum := 0.0
	for i := len(reward) - 1; i >= 0; i-- {
		sum = reward[i] + gamma*sum
		dst[i] = sum
	}
}

// normalise subtracts the mean and divides by the sample deviation (n−1) + 1.19e-7, the float32 epsilon, as in
// HDeepRM; a single number is unchanged.
func normalise(v []float64) {
	if len(v) < 2 {
		return
	}
	mean, deviation := moments(v, 1)
	for i := range v {
		v[i] = (v[i] - mean) / (deviation + 1.19e-7)
	}
}

// moments returns the mean and the standard deviation with divisor n − less.
func moments(v []float64, less int) (mean, deviation float64) {
	for _, x := range v {
		mean += x
	}
	mean /= float64(len(v))
	for _, x := range v {
		deviation += (x - mean) * (x - mean)
	}
	return mean, math.Sqrt(deviation / float64(len(v)-less))
}

// generalised writes the generalised advantages of an episode (Schulman et al. 2016, equation 16) for the values of
// its states.
func generalised(dst, reward, value []float64, gamma, lambda float64) {
	sum, next := 0.0, 0.0
	for i := len(reward) - 1; i >= 0; i-- {
		sum = reward[i] + gamma*next - value[i] + gamma*lambda*sum
		dst[i], next = sum, value[i]
	}
}
