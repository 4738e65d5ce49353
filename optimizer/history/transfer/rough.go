package transfer

import (
	"math"

	"gonum.org/v1/gonum/mat"
)

// How rough a group of measurements scales is learned from itself: the factor s on the standard deviation of what is the
// group's own (loss, oddness, noise) is the posterior mean of log s over roughSteps, given how well each GPU count is
// foretold by the others of the group. The prior of log s is normal around the mean of the groups of the same source, which
// is itself drawn towards 0.
var roughSteps = [...]float64{-1.6, -1.2, -0.8, -0.4, 0, 0.4, 0.8, 1.2, 1.6, 2, 2.4}

const (
	roughSpread  = 0.5 // sd of log s between groups of a source
	sourceSpread = 0.7 // sd of log s between sources
	roughPoints  = 40  // points of a group that are looked at
)

// profile is the log likelihood of each step of log s.
type profile [len(roughSteps)]float64

// weigh is mean and variance of log s under a prior.
func (p *profile) weigh(mean, sd float64) (m, v float64) {
	top := math.Inf(-1)
	var w [len(roughSteps)]float64
	for i, s := range roughSteps {
		w[i] = p[i] - sq((s-mean)/sd)/2
		top = max(top, w[i])
	}
	var sum, first, second float64
	for i, s := range roughSteps {
		e := math.Exp(w[i] - top)
		sum += e
		first += e * s
		second += e * s * s
	}
	m = first / sum
	return m, second/sum - m*m
}

// profileOf judges a group by leaving out each GPU count in turn. False: fewer than three counts.
func (h *hyper) profileOf(points []*point, d device) (p profile, ok bool) {
	points = thin(points, roughPoints)
	counts := map[float64][]int{}
	var order []float64
	for i, q := range points {
		if counts[q.width] == nil {
			order = append(order, q.width)
		}
		counts[q.width] = append(counts[q.width], i)
	}
	if len(order) < 3 {
		return p, false
	}
	n := len(points)
	fixed, scaled := make([]float64, n*n), make([]float64, n*n)
	same := h.devices(d, d, true)
	r := mat.NewVecDense(n, nil)
	for i, a := range points {
		r.SetVec(i, a.y-h.mean(&a.place, d))
		for l := i; l < n; l++ {
			b := points[l]
			c := h.covariance(&a.place, &b.place, jobPair{1, 1, 1}, same)
			fixed[i*n+l] = c.similar + c.general
			scaled[i*n+l] = c.own
		}
		scaled[i*n+i] += h.noise(a)
	}
	k := mat.NewSymDense(n, nil)
	for step, s := range roughSteps {
		f := math.Exp(2 * s)
		for i := range n {
			for l := i; l < n; l++ {
				k.SetSym(i, l, fixed[i*n+l]+f*scaled[i*n+l])
			}
		}
		p[step] = leftOut(k, r, order, counts)
	}
	return p, true
}

// leftOut is the log likelihood of each count given the others, a mean over the points of a count: they err together.
func leftOut(k *mat.SymDense, r *mat.VecDense, order []float64, counts map[float64][]int) float64 {
	var c mat.Cholesky
	if !c.Factorize(k) {
		return -1e6
	}
	var inv mat.SymDense
	var alpha mat.VecDense
	if c.InverseTo(&inv) != nil {
		return -1e6
	}
	alpha.MulVec(&inv, r)
	var sum float64
	for _, w := range order {
		g := counts[w]
		a, b := mat.NewSymDense(len(g), nil), mat.NewVecDense(len(g), nil)
		for i, gi := range g {
			b.SetVec(i, alpha.AtVec(gi))
			for l := i; l < len(g); l++ {
				a.SetSym(i, l, inv.At(gi, g[l]))
			}
		}
		var ca mat.Cholesky
		var s mat.SymDense
		var res mat.VecDense
		if !ca.Factorize(a) || ca.InverseTo(&s) != nil || ca.SolveVecTo(&res, b) != nil {
			return -1e6
		}
		for i := range g {
			sum += logStudent(res.AtVec(i), s.At(i, i)) / float64(len(g))
		}
	}
	return sum
}

// logStudent is the log density, up to a constant, of a Student distribution with 5 degrees of freedom and a variance.
func logStudent(r, variance float64) float64 {
	const nu = 5
	scale := variance * (nu - 2) / nu
	return -(nu+1)/2.*math.Log1p(r*r/(nu*scale)) - math.Log(scale)/2
}

// thin keeps at most n points, spread evenly over the order.
func thin(points []*point, n int) []*point {
	if len(points) <= n {
		return points
	}
	out := make([]*point, n)
	for i := range out {
		out[i] = points[i*len(points)/n]
	}
	return out
}

// roughness is s of each group, and of each source for groups that are not known.
func (h *hyper) roughness(points []point, devices func(string) device) (group, source map[int]float64) {
	members := map[int][]*point{}
	var groups []int
	for i := range points {
		p := &points[i]
		if members[p.group] == nil {
			groups = append(groups, p.group)
		}
		members[p.group] = append(members[p.group], p)
	}
	profiles := map[int]profile{}
	type sums struct{ weight, mean float64 }
	bySource := map[int]sums{}
	for _, g := range groups {
		first := members[g][0]
		p, ok := h.profileOf(members[g], devices(first.gpu))
		if !ok {
			continue
		}
		profiles[g] = p
		m, v := p.weigh(0, sourceSpread+roughSpread)
		w := 1 / (v + sq(roughSpread))
		s := bySource[first.source]
		bySource[first.source] = sums{s.weight + w, s.mean + w*m}
	}
	group, source = map[int]float64{}, map[int]float64{}
	for s, t := range bySource {
		source[s] = t.mean / (t.weight + 1/sq(sourceSpread))
	}
	for _, g := range groups {
		group[g] = source[members[g][0].source]
		if p, ok := profiles[g]; ok {
			group[g], _ = p.weigh(source[members[g][0].source], roughSpread)
		}
	}
	for _, m := range []map[int]float64{group, source} {
		for k, v := range m {
			m[k] = math.Exp(v)
		}
	}
	return group, source
}
