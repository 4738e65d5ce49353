package transfer

import (
	"math"
	"slices"
	"sync"
)

// roughSteps is the grid of log s. The roughness s of a group multiplies the standard deviation of the group's own
// parts (loss, oddness, noise). It is the exponential of the posterior mean of log s, given how well each GPU count
// is predicted by the others of the group. The prior of log s is normal around the mean of the groups of the same
// source, which is itself shrunk towards 0.
var roughSteps = [...]float64{-1.6, -1.2, -0.8, -0.4, 0, 0.4, 0.8, 1.2, 1.6, 2, 2.4}

const (
	roughSpread  = 0.6 // sd of log s between groups of a source
	sourceSpread = 0.7 // sd of log s between sources
	roughPoints  = 40  // maximum number of points used per group
	sourceGroups = 64  // maximum number of groups used per source
)

// profile is the log likelihood of each step of log s.
type profile [len(roughSteps)]float64

// weigh returns mean and variance of log s under a normal prior.
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

// profileOf evaluates a group by leaving out each GPU count in turn. Extreme outliers, at most one in five counts, are
// removed first as measurement errors. Of n residuals n − 1 count, because the prior leaves the level of a group nearly
// free. Evidence counts from the second count on: if it did from the third only, an agreeing third count would
// suddenly add the disagreement of the first two. The profile of fewer counts is zero, without information.
func (h *hyper) profileOf(points []*point, d device) (p profile) {
	points = thin(points, roughPoints)
	for mishaps := distinctWidths(points) / 5; ; mishaps-- {
		if distinctWidths(points) < 2 {
			return p
		}
		g := h.groupMatrix(points, d)
		if w, z := g.worstCount(); mishaps > 0 && z > countOutlierSigma {
			points = slices.DeleteFunc(slices.Clone(points), func(q *point) bool { return q.width == w })
			continue
		}
		for step, s := range roughSteps {
			p[step] = g.leftOut(s) * float64(len(g.widths)-1) / float64(len(g.widths))
		}
		return p
	}
}

const countOutlierSigma = 6 // standard deviations

func distinctWidths(points []*point) int {
	n := 0
	for i, p := range points {
		if !slices.ContainsFunc(points[:i], func(q *point) bool { return q.width == p.width }) {
			n++
		}
	}
	return n
}

// groupMatrix is the covariance of the points of a group, split by the part that roughness multiplies.
type groupMatrix struct {
	n                int
	fixed, scaled    []float64 // n × n, upper triangle
	residual         []float64
	widths           []float64 // distinct ones
	members          [][]int   // indices of the points of each width
	inverse, scratch []float64 // n × n
	alpha, part      []float64 // n
}

func (h *hyper) groupMatrix(points []*point, d device) *groupMatrix {
	n := len(points)
	g := &groupMatrix{n: n, fixed: make([]float64, n*n), scaled: make([]float64, n*n), residual: make([]float64, n),
		inverse: make([]float64, n*n), scratch: make([]float64, n*n), alpha: make([]float64, n), part: make([]float64, n)}
	same := h.devices(d, d, true)
	for i, a := range points {
		w := slices.Index(g.widths, a.width)
		if w < 0 {
			w = len(g.widths)
			g.widths, g.members = append(g.widths, a.width), append(g.members, nil)
		}
		g.members[w] = append(g.members[w], i)
		g.residual[i] = a.y - h.mean(&a.place, d)
		for l := i; l < n; l++ {
			c := h.covariance(&a.place, &points[l].place, jobPair{1, 1, 1}, same)
			g.fixed[i*n+l], g.scaled[i*n+l] = c.similar+c.general, c.own
		}
		g.scaled[i*n+i] += h.noise(a)
	}
	return g
}

// leaveOut calls each with residual and variance of every point when its count is predicted from the others; share is
// one over the number of points of the count. It returns false if a matrix is not positive definite. It inverts the
// covariance once and obtains the residuals of each count from the corresponding block of the inverse: O(n³) in
// total.
func (g *groupMatrix) leaveOut(logS float64, each func(width, residual, variance, share float64)) bool {
	n, f := g.n, math.Exp(2*logS)
	for i := range n {
		for l := i; l < n; l++ {
			g.inverse[l*n+i] = g.fixed[i*n+l] + f*g.scaled[i*n+l]
		}
	}
	if !invert(g.inverse, n) {
		return false
	}
	for i := range n {
		g.alpha[i] = 0
		for l, r := range g.residual {
			g.alpha[i] += g.inverse[max(i, l)*n+min(i, l)] * r
		}
	}
	for w, members := range g.members {
		m := len(members)
		for i, mi := range members {
			g.part[i] = g.alpha[mi]
			for l, ml := range members[:i+1] {
				g.scratch[i*m+l] = g.inverse[mi*n+ml]
			}
		}
		if !invert(g.scratch, m) {
			return false
		}
		for i := range m {
			residual := 0.0
			for l, a := range g.part[:m] {
				residual += g.scratch[max(i, l)*m+min(i, l)] * a
			}
			each(g.widths[w], residual, g.scratch[i*m+i], 1/float64(m))
		}
	}
	return true
}

// invert inverts a small symmetric positive definite matrix in place, given and returned as its lower half: the
// Cholesky factor, its inverse, and the inverse's transpose times it. A group has tens of points, for which the
// start-up cost of general routines dominates. False: not positive definite.
func invert(a []float64, n int) bool {
	for i := range n {
		row := a[i*n : i*n+i+1]
		for l := range i {
			other := a[l*n : l*n+l+1]
			sum := row[l]
			for k, v := range other[:l] {
				sum -= v * row[k]
			}
			row[l] = sum / other[l]
		}
		sum := row[i]
		for _, v := range row[:i] {
			sum -= v * v
		}
		if !(sum > 0) {
			return false
		}
		row[i] = math.Sqrt(sum)
	}
	for i := range n { // inverse of the factor
		row := a[i*n : i*n+i+1]
		row[i] = 1 / row[i]
		for l := range i {
			sum := 0.0
			for k := l; k < i; k++ {
				sum += row[k] * a[k*n+l]
			}
			row[l] = -sum * row[i]
		}
	}
	for i := range n {
		for l := range i + 1 {
			sum := 0.0
			for k := i; k < n; k++ {
				sum += a[k*n+i] * a[k*n+l]
			}
			a[i*n+l] = sum
		}
	}
	return true
}

// leftOut returns the log likelihood of each count given the others, as a mean over the points of a count, whose
// errors are correlated.
func (g *groupMatrix) leftOut(logS float64) float64 {
	var sum float64
	if !g.leaveOut(logS, func(_, r, v, share float64) { sum += share * logStudent(r, v) }) {
		return -1e6
	}
	return sum
}

// worstCount returns the count with the largest mean deviation, in standard deviations at roughness 1.
func (g *groupMatrix) worstCount() (width, z float64) {
	mean, at := 0.0, math.NaN()
	g.leaveOut(0, func(w, r, v, share float64) {
		if w != at { // points of a count are adjacent
			mean, at = 0, w
		}
		if mean += share * math.Abs(r) / math.Sqrt(v); mean > z {
			width, z = w, mean
		}
	})
	return width, z
}

// logStudent returns the log density, up to a constant, of a Student distribution with 5 degrees of freedom and the
// given variance.
func logStudent(r, variance float64) float64 {
	const nu = 5
	scale := variance * (nu - 2) / nu
	return -(nu+1)/2.*math.Log1p(r*r/(nu*scale)) - math.Log(scale)/2
}

// thin returns at most n elements, spread evenly over the order.
func thin[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	out := make([]T, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}

// roughness estimates the roughness s of groups, each from its profile, which is computed when it is first needed.
type roughness struct {
	hyper   *hyper
	device  func(string) device
	members map[int][]*point // by group
	source  map[int]float64  // mean of log s of the groups of a source
	sync.Mutex
	profiles map[int]profile // by group
}

// roughness averages the posterior of each group under a wide prior per source, weighted by precision and shrunk
// towards 0. That mean is the prior of each group, and of those without measurements. A source with many groups is
// represented by some of them.
func (h *hyper) roughness(points []point, devices func(string) device) *roughness {
	r := &roughness{hyper: h, device: devices, members: map[int][]*point{}, source: map[int]float64{}, profiles: map[int]profile{}}
	groups := map[int][]int{} // by source
	for i := range points {
		p := &points[i]
		if r.members[p.group] == nil {
			groups[p.home()] = append(groups[p.home()], p.group)
		}
		r.members[p.group] = append(r.members[p.group], p)
	}
	middle, spread := new(profile).weigh(0, sourceSpread+roughSpread)
	for source, all := range groups {
		weight, mean := 1/sq(sourceSpread), 0.0
		for _, g := range thin(all, sourceGroups) {
			if p := r.profile(g); p != (profile{}) {
				m, v := p.weigh(0, sourceSpread+roughSpread)
				m -= middle * v / spread // remove the bias of the grid, which has more steps above 0 than below
				w := 1 / (v + sq(roughSpread))
				weight, mean = weight+w, mean+w*m
			}
		}
		r.source[source] = mean / weight
	}
	return r
}

// profile returns the profile of a group.
func (r *roughness) profile(group int) profile {
	r.Lock()
	defer r.Unlock()
	p, ok := r.profiles[group]
	if members := r.members[group]; !ok && len(members) > 0 {
		p = r.hyper.profileOf(members, r.device(members[0].gpu))
		r.profiles[group] = p
	}
	return p
}

// of returns the roughness of the group of a place.
func (r *roughness) of(p *place) float64 {
	own := r.profile(p.group)
	m, _ := own.weigh(r.source[p.home()], roughSpread)
	return math.Exp(m)
}
