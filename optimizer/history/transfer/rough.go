package transfer

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

// How rough a group of measurements scales is learned from itself: the factor s on the standard deviation of what is the
// group's own (loss, oddness, noise) is the posterior mean of log s over roughSteps, given how well each GPU count is
// foretold by the others of the group. The prior of log s is normal around the mean of the groups of the same source, which
// is itself drawn towards 0.
var roughSteps = [...]float64{-1.6, -1.2, -0.8, -0.4, 0, 0.4, 0.8, 1.2, 1.6, 2, 2.4}

const (
	roughSpread  = 0.6 // sd of log s between groups of a source
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

// profileOf judges a group by leaving out each count of GPUs in turn. Counts that are wildly off, one in five at most, are
// taken for mishaps and not for the nature of the group. False: fewer than three counts.
func (h *hyper) profileOf(points []*point, d device) (p profile, ok bool) {
	points = thin(points, roughPoints)
	for mishaps := distinctWidths(points) / 5; ; mishaps-- {
		if distinctWidths(points) < 3 {
			return p, false
		}
		g := h.groupMatrix(points, d)
		if w, z := g.strangest(); mishaps > 0 && z > mishap {
			points = slices.DeleteFunc(slices.Clone(points), func(q *point) bool { return q.width == w })
			continue
		}
		for step, s := range roughSteps {
			p[step] = g.leftOut(s)
		}
		return p, true
	}
}

const mishap = 6 // standard deviations

func distinctWidths(points []*point) int {
	n := 0
	for i, p := range points {
		if !slices.ContainsFunc(points[:i], func(q *point) bool { return q.width == p.width }) {
			n++
		}
	}
	return n
}

// groupMatrix is the covariance of the points of a group, apart by what roughness multiplies.
type groupMatrix struct {
	n             int
	fixed, scaled []float64 // n × n, upper triangle
	residual      *mat.VecDense
	widths        []float64 // distinct ones
	members       map[float64][]int
}

func (h *hyper) groupMatrix(points []*point, d device) *groupMatrix {
	n := len(points)
	g := &groupMatrix{n: n, fixed: make([]float64, n*n), scaled: make([]float64, n*n), residual: mat.NewVecDense(n, nil), members: map[float64][]int{}}
	same := h.devices(d, d, true)
	for i, a := range points {
		if g.members[a.width] == nil {
			g.widths = append(g.widths, a.width)
		}
		g.members[a.width] = append(g.members[a.width], i)
		g.residual.SetVec(i, a.y-h.mean(&a.place, d))
		for l := i; l < n; l++ {
			c := h.covariance(&a.place, &points[l].place, jobPair{1, 1, 1}, same)
			g.fixed[i*n+l], g.scaled[i*n+l] = c.similar+c.general, c.own
		}
		g.scaled[i*n+i] += h.noise(a)
	}
	return g
}

// leaveOut tells of each count how far off its points are when the others foretell them, and the variance expected.
func (g *groupMatrix) leaveOut(logS float64, each func(width, residual, variance, share float64)) bool {
	k := mat.NewSymDense(g.n, nil)
	f := math.Exp(2 * logS)
	for i := range g.n {
		for l := i; l < g.n; l++ {
			k.SetSym(i, l, g.fixed[i*g.n+l]+f*g.scaled[i*g.n+l])
		}
	}
	var c mat.Cholesky
	var inv mat.SymDense
	var alpha mat.VecDense
	if !c.Factorize(k) || c.InverseTo(&inv) != nil {
		return false
	}
	alpha.MulVec(&inv, g.residual)
	for _, w := range g.widths {
		m := g.members[w]
		a, b := mat.NewSymDense(len(m), nil), mat.NewVecDense(len(m), nil)
		for i, mi := range m {
			b.SetVec(i, alpha.AtVec(mi))
			for l := i; l < len(m); l++ {
				a.SetSym(i, l, inv.At(mi, m[l]))
			}
		}
		var ca mat.Cholesky
		var s mat.SymDense
		var res mat.VecDense
		if !ca.Factorize(a) || ca.InverseTo(&s) != nil || ca.SolveVecTo(&res, b) != nil {
			return false
		}
		for i := range m {
			each(w, res.AtVec(i), s.At(i, i), 1/float64(len(m)))
		}
	}
	return true
}

// leftOut is the log likelihood of each count given the others, a mean over the points of a count: they err together.
func (g *groupMatrix) leftOut(logS float64) float64 {
	var sum float64
	if !g.leaveOut(logS, func(_, r, v, share float64) { sum += share * logStudent(r, v) }) {
		return -1e6
	}
	return sum
}

// strangest is the count that is furthest off, in standard deviations at roughness 1.
func (g *groupMatrix) strangest() (width, z float64) {
	mean := map[float64]float64{}
	g.leaveOut(0, func(w, r, v, share float64) { mean[w] += share * math.Abs(r) / math.Sqrt(v) })
	for _, w := range g.widths {
		if mean[w] > z {
			width, z = w, mean[w]
		}
	}
	return width, z
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
	middle, spread := new(profile).weigh(0, sourceSpread+roughSpread)
	for _, g := range groups {
		first := members[g][0]
		p, ok := h.profileOf(members[g], devices(first.gpu))
		if !ok {
			continue
		}
		profiles[g] = p
		m, v := p.weigh(0, sourceSpread+roughSpread)
		m -= middle * v / spread // what the steps, more of them up than down, tell without any evidence
		w := 1 / (v + sq(roughSpread))
		s := bySource[first.home()]
		bySource[first.home()] = sums{s.weight + w, s.mean + w*m}
	}
	group, source = map[int]float64{}, map[int]float64{}
	for s, t := range bySource {
		source[s] = t.mean / (t.weight + 1/sq(sourceSpread))
	}
	for _, g := range groups {
		p := profiles[g] // says nothing where there is none
		group[g], _ = p.weigh(source[members[g][0].home()], roughSpread)
	}
	for s, m := range source {
		source[s], _ = new(profile).weigh(m, roughSpread)
	}
	for _, m := range []map[int]float64{group, source} {
		for k, v := range m {
			m[k] = math.Exp(v)
		}
	}
	return group, source
}
