package perf

import (
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
)

// component is one Student proposal of the importance sampler.
type component struct {
	centre  []float64
	root    *mat.Dense // of the covariance
	inverse *mat.Dense
	height  float64 // 1 / determinant of root
	share   float64 // of the proposals
}

// sample draws from the posterior by importance sampling in two rounds: Student proposals at the modes and one as
// wide as the prior; then kernels at resampled points of the first round (Cappé et al., Population Monte Carlo,
// 2004). All proposals are weighted against the mixture of both rounds and resampled systematically, so that
// skewness, curved ridges and several modes are represented. The result depends on the seed alone.
func (p *posterior) sample(modes [][]float64, values []float64, seed uint64) [][]float64 {
	d := p.dim()
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	first := p.modeComponents(modes, values)
	wide := component{make([]float64, d), identity(d), identity(d), 1, 0.3}
	for i := range first {
		first[i].share = (1 - wide.share) / float64(len(first))
	}
	first = append(first, wide)
	zs, density := p.propose(nil, nil, first, rng)
	weights := logWeights(density, first, zs)
	all := append([]component(nil), first...)
	second := kernelComponents(zs, resample(zs, relative(weights), kernels, rng.Float64()), weights)
	for i := range all {
		all[i].share /= 2
	}
	for i := range second {
		second[i].share /= 2
	}
	all = append(all, second...)
	zs, density = p.propose(zs, density, second, rng)
	w := relative(logWeights(density, all, zs))
	truncate(w)
	return resample(zs, w, draws, rng.Float64())
}

// modeComponents returns Laplace approximations at the distinct modes. Modes with a log density more than 8 below the
// best are dropped.
func (p *posterior) modeComponents(modes [][]float64, values []float64) []component {
	best := values[floats.MaxIdx(values)]
	var out []component
	for i, m := range modes {
		if best-values[i] > 8 || near(m, modes[:i]) {
			continue
		}
		root, logDet := p.spread(m)
		var inverse mat.Dense
		if inverse.Inverse(root) == nil {
			out = append(out, component{m, root, &inverse, math.Exp(-logDet), 0})
		}
	}
	return out
}

// kernelComponents returns equally weighted kernels at the centres, with a fraction of the weighted covariance of the
// points. The covariance is regularised on the diagonal; the identity replaces it when the factorisation fails.
func kernelComponents(points, centres [][]float64, logw []float64) []component {
	d := len(points[0])
	w := relative(logw)
	mean := make([]float64, d)
	var total float64
	for k, z := range points {
		total += w[k]
		for i := range z {
			mean[i] += w[k] * z[i]
		}
	}
	sums, off := make([]float64, d*d), make([]float64, d)
	for i := range mean {
		mean[i] /= total
	}
	for k, z := range points {
		for i := range z {
			off[i] = z[i] - mean[i]
			by, row := w[k]/total*off[i], sums[i*d:i*d+i+1]
			for j := range row {
				row[j] += by * off[j]
			}
		}
	}
	cov := mat.NewSymDense(d, nil)
	for i := range d {
		for j := range i + 1 {
			cov.SetSym(i, j, sums[i*d+j])
		}
	}
	const part = 0.4
	for i := range d {
		cov.SetSym(i, i, cov.At(i, i)+0.01)
	}
	cov.ScaleSym(part, cov)
	var chol mat.Cholesky
	if !chol.Factorize(cov) {
		chol.Factorize(mat.NewDiagDense(d, slices.Repeat([]float64{1}, d)))
	}
	var lower mat.TriDense
	chol.LTo(&lower)
	root, inverse := mat.DenseCopyOf(&lower), new(mat.Dense)
	if inverse.Inverse(root) != nil {
		root, inverse = identity(d), identity(d)
	}
	out := make([]component, len(centres))
	for i, c := range centres {
		out[i] = component{c, root, inverse, math.Exp(-chol.LogDet() / 2), 1 / float64(len(centres))}
	}
	return out
}

// propose appends a round of proposals, divided among the components by share, with their log densities.
func (p *posterior) propose(zs [][]float64, density []float64, mixture []component, rng *rand.Rand) ([][]float64, []float64) {
	d := p.dim()
	eps := make([]float64, d)
	for _, c := range mixture {
		root := c.root.RawMatrix().Data
		for range int(math.Round(c.share * proposals)) {
			z := make([]float64, d)
			var chi float64
			for range freedom(d) {
				g := rng.NormFloat64()
				chi += g * g
			}
			scale := math.Sqrt(float64(freedom(d)) / chi)
			for i := range eps {
				eps[i] = rng.NormFloat64() * scale
			}
			for i := range d {
				z[i] = c.centre[i]
				for j, r := range root[i*d : i*d+d] {
					z[i] += r * eps[j]
				}
			}
			zs, density = append(zs, z), append(density, p.logDensity(z))
		}
	}
	return zs, density
}

// near reports whether z lies within half a prior sd of one of the others.
func near(z []float64, others [][]float64) bool {
	for _, o := range others {
		var dist float64
		for i := range z {
			dist += (z[i] - o[i]) * (z[i] - o[i])
		}
		if dist < 0.25 {
			return true
		}
	}
	return false
}

// freedom returns the degrees of freedom of the proposals in dimension d.
func freedom(d int) int { return proposalFreedom + d%2 }

// logWeights returns the importance weights of points with the given log densities, drawn from a mixture: the log ratio of
// both densities, up to a constant that depends on the dimension alone. The innermost loops run over a block of points,
// since their operations do not depend on each other.
func logWeights(density []float64, mixture []component, zs [][]float64) []float64 {
	const block = 64
	d := len(zs[0])
	out, buffer := slices.Clone(density), make([][block]float64, d+4)
	for from := 0; from < len(zs); from += block {
		n := min(block, len(zs)-from)
		sum, v, r2, density := buffer[d][:n], buffer[d+1][:n], buffer[d+2][:n], buffer[d+3][:n]
		clear(sum)
		for _, c := range mixture {
			for j, x := range c.centre {
				for k := range n {
					buffer[j][k] = zs[from+k][j] - x
				}
			}
			clear(r2)
			for i := range d {
				clear(v)
				for j, x := range c.inverse.RawRowView(i) {
					if x != 0 {
						floats.AddScaled(v, x, buffer[j][:n])
					}
				}
				for k, x := range v {
					r2[k] += x * x
				}
			}
			for k, x := range r2 {
				r2[k], density[k] = 1/(1+x/float64(freedom(d))), c.share*c.height
			}
			for range (freedom(d) + d) / 2 {
				floats.Mul(density, r2)
			}
			floats.Add(sum, density)
		}
		for k, x := range sum {
			out[from+k] -= math.Log(x)
		}
	}
	return out
}

func identity(d int) *mat.Dense {
	m := mat.NewDense(d, d, nil)
	for i := range d {
		m.Set(i, i, 1)
	}
	return m
}

// relative converts log weights to weights with a maximum of 1; NaN becomes 0.
func relative(logw []float64) []float64 {
	top := math.Inf(-1)
	for _, l := range logw {
		if !math.IsNaN(l) {
			top = max(top, l)
		}
	}
	w := make([]float64, len(logw))
	for i, l := range logw {
		if e := math.Exp(l - top); !math.IsNaN(e) {
			w[i] = e
		}
	}
	return w
}

// mostOfOne is the largest share of the draws from one proposal.
const mostOfOne = 1. / 16

// truncate limits weights to mostOfOne of their sum: a few proposals where the mixture is thin, which have nearly all weight, do not
// stand for the whole posterior (truncated importance sampling, Ionides 2008). Weights of which too few are above 0 are left alone.
func truncate(w []float64) {
	rest, limit := floats.Sum(w), math.Inf(1)
	if floats.Max(w) <= mostOfOne*rest {
		return
	}
	largest := slices.Sorted(slices.Values(w))
	slices.Reverse(largest)
	for n, v := range largest { // of which n are limited
		if v <= mostOfOne*rest/(1-mostOfOne*float64(n)) {
			break
		}
		rest -= v
		limit = mostOfOne * rest / (1 - mostOfOne*float64(n+1))
	}
	for i, v := range w {
		if limit > 0 {
			w[i] = min(v, limit)
		}
	}
}

// resample converts weighted proposals to n equally weighted draws (systematic resampling).
func resample(zs [][]float64, w []float64, n int, u float64) [][]float64 {
	var total float64
	for _, v := range w {
		total += v
	}
	out := make([][]float64, n)
	j, sum := 0, w[0]
	for k := range out {
		target := (float64(k) + u) / float64(n) * total
		for sum < target && j < len(zs)-1 {
			j++
			sum += w[j]
		}
		out[k] = zs[j]
	}
	return out
}
