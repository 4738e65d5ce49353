package network

import (
	"math"

	blas "gonum.org/v1/gonum/blas/gonum"
)

// The vector routines in Go: the reference for the C of vector.c, and its replacement where C is not available.
// Products are rounded by a conversion before they are added, so that no compiler fuses them.

// goProduct implements product as rank-one updates of rows of c. Zero factors, which are frequent (ReLU, dropout,
// one-hot states), are skipped.
func goProduct(m, n, k int, a []float32, rs, cs int, b, c, bias []float32, flags int) {
	for i := range m {
		row := c[i*n : (i+1)*n]
		if flags&accumulate == 0 {
			clear(row)
			copy(row, bias)
		}
		for p := range k {
			if f := a[i*rs+p*cs]; f != 0 {
				axpy(f, b[p*n:(p+1)*n], row)
			}
		}
		for j, v := range row {
			v += 0 // -0 becomes 0, as in C
			if flags&relu != 0 && v < 0 {
				v = 0
			}
			row[j] = v
		}
	}
}

// axpy adds f·x to y.
func axpy(f float32, x, y []float32) {
	if len(x) >= 16 {
		blas.Implementation{}.Saxpy(len(x), f, x, 1, y, 1)
		return
	}
	y = y[:len(x)]
	for j, v := range x {
		y[j] += float32(f * v)
	}
}

// goColumnSums adds the column sums of d (rows×out) to g.
func goColumnSums(g, d []float32, rows, out int) {
	for r := range rows {
		for j, v := range d[r*out : (r+1)*out] {
			g[j] += v
		}
	}
}

// goTranspose writes w (in×out) to t (out×in).
func goTranspose(t, w []float32, in, out int) {
	for i := range in {
		for j, v := range w[i*out : (i+1)*out] {
			t[j*in+i] = v
		}
	}
}

// goReluBackward clears d where the unit h was inactive, and scales it elsewhere.
func goReluBackward(d, h []float32, scale float32) {
	for i, v := range h {
		if v > 0 {
			d[i] *= scale
		} else {
			d[i] = 0
		}
	}
}

// goDrop multiplies each h by scale, or clears it if the hash of key and its index is below the threshold. Two keyed
// rounds of a 32-bit finaliser with low bias replace a stateful generator, so that masks are cheap, vectorisable, and
// identical on every machine.
func goDrop(h []float32, key uint64, threshold uint32, scale float32) {
	lo, hi := uint32(key), uint32(key>>32)
	for i, v := range h {
		if mix(mix(uint32(i)^lo)+hi) < threshold {
			h[i] = 0
		} else {
			h[i] = v * scale
		}
	}
}

// mix is a 32-bit integer hash with low bias.
func mix(x uint32) uint32 {
	x ^= x >> 16
	x *= 0x7feb352d
	x ^= x >> 15
	x *= 0x846ca68b
	return x ^ x>>16
}

// goSumOfSquares adds in 32 lanes of float64, in which the products are exact, then the lanes in order.
func goSumOfSquares(g []float32) float64 {
	var lanes [32]float64
	for i, v := range g {
		lanes[i%32] += float64(v) * float64(v)
	}
	s := 0.0
	for _, l := range lanes {
		s += l
	}
	return s
}

// goAdam updates p by the moments m and v of the gradient g, and clears g.
func goAdam(p, g, m, v []float32, f adamFactors) {
	g, m, v = g[:len(p)], m[:len(p)], v[:len(p)]
	for i := range p {
		x := float32(g[i] * f.scale)
		mi := float32(f.beta1*m[i]) + float32(f.rest1*x)
		vi := float32(f.beta2*v[i]) + float32(float32(f.rest2*x)*x)
		if mi < f.tinyM && mi > -f.tinyM {
			mi = 0
		}
		if vi < f.tinyV {
			vi = 0
		}
		m[i], v[i], g[i] = mi, vi, 0
		root := float32(math.Sqrt(float64(vi)))
		p[i] -= float32(f.rate * (mi / (float32(root*f.root) + f.epsilon)))
	}
}

// goBlend moves p towards o: p += tau (o - p).
func goBlend(p, o []float32, tau float32) {
	for i, v := range o {
		p[i] += float32(tau * (v - p[i]))
	}
}
