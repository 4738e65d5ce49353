package network

import "math"

// affine computes y (rows×out) = x (rows×in) · w (in×out) + b, each element summed over the inputs in order, then the
// bias, then max(0, ·) when relu.
func affine(y, x, w, b []float32, rows, in, out int, relu bool) {
	for r := range rows {
		yr := y[r*out : (r+1)*out]
		clear(yr)
		for i, a := range x[r*in : (r+1)*in] {
			if a == 0 {
				continue
			}
			for j, v := range w[i*out : (i+1)*out] {
				yr[j] += float32(a * v)
			}
		}
		for j, v := range b {
			s := yr[j] + v
			if relu && !(s > 0) {
				s = 0
			}
			yr[j] = s
		}
	}
}

// addWeightGradient adds xᵀ (in×rows) · delta (rows×out) to g (in×out).
func addWeightGradient(g, x, delta []float32, rows, in, out int) {
	for r := range rows {
		d := delta[r*out : (r+1)*out]
		for i, a := range x[r*in : (r+1)*in] {
			if a == 0 {
				continue
			}
			gi := g[i*out : (i+1)*out]
			for j, v := range d {
				gi[j] += float32(a * v)
			}
		}
	}
}

// inputGradient computes dx (rows×in) = delta (rows×out) · turned (out×in).
func inputGradient(dx, delta, turned []float32, rows, in, out int) {
	for r := range rows {
		d := dx[r*in : (r+1)*in]
		clear(d)
		for j, a := range delta[r*out : (r+1)*out] {
			for i, v := range turned[j*in : (j+1)*in] {
				d[i] += float32(a * v)
			}
		}
	}
}

// addColumnSums adds the sums of the columns of delta (rows×out) to g.
func addColumnSums(g, delta []float32, rows, out int) {
	for r := range rows {
		for j, v := range delta[r*out : (r+1)*out] {
			g[j] += v
		}
	}
}

// transpose writes w (in×out) into t (out×in).
func transpose(t, w []float32, in, out int) {
	for i := range in {
		for j, v := range w[i*out : (i+1)*out] {
			t[j*in+i] = v
		}
	}
}

// reluBackward clears d where the unit h was not active, and scales it where it was.
func reluBackward(d, h []float32, scale float32) {
	for i, v := range h {
		if v > 0 {
			d[i] *= scale
		} else {
			d[i] = 0
		}
	}
}

// threshold turns a probability into the number of 32-bit values that mean "dropped".
func threshold(p float32) uint32 { return uint32(math.Round(float64(p) * (1 << 32))) }

// drop multiplies each h by scale, or by 0 when the hash of key and its index is below the threshold. A finaliser with
// little bias (two rounds, each keyed) takes the place of a generator with state, so that masks are cheap, vectorised
// and the same on every machine.
func drop(h []float32, key uint64, threshold uint32, scale float32) {
	lo, hi := uint32(key), uint32(key>>32)
	for i, v := range h {
		if mix(mix(uint32(i)^lo)+hi) < threshold {
			h[i] = 0
		} else {
			h[i] = v * scale
		}
	}
}

func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

// sumOfSquares adds in 16 lanes of float64 (products are exact), then the lanes in order.
func sumOfSquares(g []float32) float64 {
	var lanes [16]float64
	for i, v := range g {
		lanes[i%16] += float64(v) * float64(v)
	}
	s := 0.0
	for _, l := range lanes {
		s += l
	}
	return s
}

// adamFactors are the numbers of one step of Adam: gradient scale, decays and their rests, bias-corrected rate, inverse
// root of the second correction, epsilon.
type adamFactors struct{ scale, beta1, beta2, rest1, rest2, rate, root, epsilon float32 }

// Moments below these are set to zero: too small to matter, and subnormal numbers would slow every later step.
const (
	tinyM = 1e-30
	tinyV = 1e-36
)

// adam moves p along the moments m and v of the gradient g, and clears g.
func adam(p, g, m, v []float32, f adamFactors) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i := range p {
		x := g[i] * f.scale
		mi := float32(f.beta1*m[i]) + float32(f.rest1*x)
		vi := float32(f.beta2*v[i]) + float32(float32(f.rest2*x)*x)
		if mi < tinyM && mi > -tinyM {
			mi = 0
		}
		if vi < tinyV {
			vi = 0
		}
		m[i], v[i] = mi, vi
		p[i] -= f.rate * (mi / (float32(float32(math.Sqrt(float64(vi)))*f.root) + f.epsilon))
		g[i] = 0
	}
}

// blend moves p towards o: p += tau (o - p).
func blend(p, o []float32, tau float32) {
	for i, v := range o {
		p[i] += float32(tau * (v - p[i]))
	}
}
