package network

// level is an instruction set supported by the vector routines.
type level int

const (
	levelGo       level = iota // loops in Go, with gonum's axpy in assembly where available
	levelPortable              // C with four lanes; NEON on arm64
	levelAVX2                  // AVX2 and FMA
	levelAVX512                // AVX-512F
)

// current is the best level of this processor and build, which determines the bits; only tests change it. All C levels produce the
// same bits: every element of a product is one chain of fused multiply-adds in order, whatever the vector width. Go, which is
// used in builds without cgo and on processors without fused multiply-add, rounds products before adding (except where the Go
// compiler fuses them, as on arm64), and so differs in the last bits of products. Dropout masks, Adam, Blend and norms have
// the same bits everywhere.
var current = bestLevel()

// Flags of a product.
const (
	accumulate = 1 // start from c instead of the bias or zero
	relu       = 2 // apply max(0, ·) at the end
)

// affine computes y (rows×out) = x (rows×in) · w (in×out) + b, with max(0, ·) applied if rectified.
func affine(y, x, w, b []float32, rows, in, out int, rectified bool) {
	flags := 0
	if rectified {
		flags = relu
	}
	product(rows, out, in, x, in, 1, w, y, b, flags)
}

// few is the number of outputs below which the vectors of a weight gradient would be nearly empty; it is then
// computed transposed.
const few = 8

// addWeightGradient adds xᵀ (in×rows) · delta (rows×out) to g (in×out). work is a buffer of in×out numbers.
func addWeightGradient(g, x, delta, work []float32, rows, in, out int) {
	if out >= few {
		product(in, out, rows, x, 1, in, delta, g, nil, accumulate)
		return
	}
	work = work[:in*out]
	product(out, in, rows, delta, 1, out, x, work, nil, 0)
	for j := range out {
		for i, v := range work[j*in : (j+1)*in] {
			g[i*out+j] += v
		}
	}
}

// threshold converts a probability below 1 into the number of 32-bit values that mean "dropped".
func threshold(p float32) uint32 { return uint32(float64(p) * (1 << 32)) }

// adamFactors are the constants of one step of Adam, in the order expected by the C code: gradient scale, decays and
// their complements, bias-corrected rate, inverse root of the second correction, epsilon, and the magnitudes below
// which moments are set to zero (too small to matter; subnormal numbers would slow down later steps).
type adamFactors struct{ scale, beta1, beta2, rest1, rest2, rate, root, epsilon, tinyM, tinyV float32 }
