package perf

import "math"

// The discrepancy u(a) between the true curve and the form is a Gaussian process over (log2 CPUs, log2 GPUs, log2
// batch) in the spirit of Kennedy and O'Hagan (2001). It is represented as a finite sum of cosines with fixed
// frequencies (random Fourier features, Rahimi and Recht 2007), so that joint draws over any allocations cost one dot
// product each. Half of its variance is smooth (a Gaussian kernel of smoothLength octaves); half is rough and nearly
// independent between CPU counts, for work that does not divide evenly.
const (
	waves        = 24
	features     = 2 * waves
	smoothLength = 1.5
	roughLength  = 0.25
)

// frequencies are constant: a Halton sequence (bases 2, 3, 5) through the normal quantile function.
var frequencies = func() (f [waves][3]float64) {
	for i := range f {
		for d, base := range [3]int{2, 3, 5} {
			length := smoothLength
			if i%2 == 1 {
				length = roughLength
			}
			f[i][d] = normalQuantile(halton(i/2+1, base)) / length
		}
	}
	return f
}()

// halton returns element i of the van der Corput sequence in the given base.
func halton(i, base int) float64 {
	x, f := 0.0, 1.0
	for ; i > 0; i /= base {
		f /= float64(base)
		x += f * float64(i%base)
	}
	return x
}

func normalQuantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// feature maps a point to a unit vector. The inner product of two such vectors is the correlation of u between the
// points.
func feature(p point) (phi [features]float64) {
	x := [3]float64{math.Log2(p.cpus), math.Log2(max(p.gpus, 0.25)), math.Log2(p.batch)}
	scale := 1 / math.Sqrt(waves)
	for i, w := range frequencies {
		s, c := math.Sincos(w[0]*x[0] + w[1]*x[1] + w[2]*x[2])
		phi[2*i], phi[2*i+1] = c*scale, s*scale
	}
	return phi
}

func dot(a, b *[features]float64) float64 {
	var s float64
	for i := range a {
		s += a[i] * b[i]
	}
	return s
}
