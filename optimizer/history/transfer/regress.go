package transfer

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/mat"
)

const (
	neighbours = 192 // points that an answer rests on at most: the rest is left out for time
	crowd      = 12  // a group's points beyond this number give way to those of other groups
	farOut     = 3   // standard deviations at which a point is odd among the others
	companions = 4   // points of its group without which a point is news, and not odd
	oddPasses  = 3
)

// regression is the answer at one place, in logs.
type regression struct {
	mean, variance float64 // of one further measurement there
	left           float64 // share of the prior's variance that is left
	points         []*point
	weight         []float64 // of each point in the mean
	similar        []float64 // correlation of each point with the question, what all trainings have in common aside
}

// regress conditions the prior on the points that tell most about a place.
func (t *table) regress(p *place, points []*point) regression {
	h := &t.hyper
	s := t.roughnessOf(p)
	near := t.nearest(p, points)
	n := len(near)
	k, cross, y := mat.NewSymDense(n, nil), mat.NewVecDense(n, nil), mat.NewVecDense(n, nil)
	g := regression{points: near, weight: make([]float64, n), similar: make([]float64, n)}
	self := h.covariance(p, p, jobPair{1, 1, 1}, h.devices(t.device(p.gpu), t.device(p.gpu), true))
	pairs := newPairs(t, near)
	for i, a := range near {
		y.SetVec(i, a.y-h.mean(&a.place, t.device(a.gpu)))
		j, d := h.jobs(p.trait, a.trait), h.devices(t.device(p.gpu), t.device(a.gpu), p.device == a.device)
		c := h.covariance(p, &a.place, j, d)
		cross.SetVec(i, c.total(s))
		for l := i; l < n; l++ {
			k.SetSym(i, l, pairs.covariance(i, l))
		}
		own := pairs.self(i)
		g.similar[i] = (c.similar + s*s*c.own) / math.Sqrt((self.similar+s*s*self.own)*own)
		k.SetSym(i, i, k.At(i, i)+h.noise(a)*sq(t.group[a.group]))
	}
	var c mat.Cholesky
	t.isolate(p, near, k, cross, y, &c)
	w := mat.NewVecDense(n, nil)
	if err := c.SolveVecTo(w, cross); err != nil && !isCondition(err) {
		w.Zero()
	}
	prior := self.total(s)
	known := mat.Dot(w, cross)
	g.mean = h.mean(p, t.device(p.gpu)) + mat.Dot(w, y)
	g.left = (prior - known) / prior
	g.variance = max(0, prior-known) + sq(h.Noise*s) + 1e-6
	for i := range n {
		g.weight[i] = w.AtVec(i)
	}
	return g
}

func isCondition(err error) bool {
	_, ok := err.(mat.Condition)
	return ok
}

// isolate factorizes k. Where a point of a group that has several contradicts all others, it gives the point an effect of its own, at its place only,
// so that the neighbours are not bent to it while an answer at that place still is what was measured there.
func (t *table) isolate(p *place, near []*point, k *mat.SymDense, cross, y *mat.VecDense, c *mat.Cholesky) {
	n := len(near)
	company := map[int]int{}
	for _, q := range near {
		company[q.group]++
	}
	for pass := 0; ; pass++ {
		for jitter := 1e-9; !c.Factorize(k); jitter *= 10 {
			for i := range n {
				k.SetSym(i, i, k.At(i, i)*(1+jitter))
			}
		}
		if pass == oddPasses {
			return
		}
		var inv mat.SymDense
		var alpha mat.VecDense
		if err := c.InverseTo(&inv); err != nil && !isCondition(err) {
			return
		}
		alpha.MulVec(&inv, y)
		worst, far := -1, float64(farOut)
		for i := range n {
			if company[near[i].group] < companions {
				continue
			}
			if z := math.Abs(alpha.AtVec(i)) / math.Sqrt(inv.At(i, i)); z > far {
				worst, far = i, z
			}
		}
		if worst < 0 {
			return
		}
		residual, variance := alpha.AtVec(worst)/inv.At(worst, worst), 1/inv.At(worst, worst)
		extra := residual*residual - variance
		k.SetSym(worst, worst, k.At(worst, worst)+extra)
		if near[worst].beside(p) {
			cross.SetVec(worst, cross.AtVec(worst)+extra)
		}
	}
}

// roughnessOf is s of the group of a place, of its source where the group is new, of the mean source else.
func (t *table) roughnessOf(p *place) float64 {
	if s, ok := t.group[p.group]; ok {
		return s
	}
	if s, ok := t.source[p.home()]; ok {
		return s
	}
	m, _ := new(profile).weigh(0, roughSpread)
	return math.Exp(m)
}

// nearest are the points of the largest squared prior correlation with a place. A group that has many points gives way,
// gradually, to others: its points tell the same. This is for time alone; no point is excluded for being dissimilar.
func (t *table) nearest(p *place, points []*point) []*point {
	if len(points) <= neighbours {
		return points
	}
	h := &t.hyper
	type scored struct {
		p     *point
		score float64
	}
	jobs, devices := map[int]jobPair{}, map[int]devicePair{}
	all := make([]scored, len(points))
	one := jobPair{1, 1, 1}
	for i, q := range points {
		j, ok := jobs[q.job]
		if !ok {
			j = h.jobs(p.trait, q.trait)
			jobs[q.job] = j
		}
		d, ok := devices[q.device]
		if !ok {
			d = h.devices(t.device(p.gpu), t.device(q.gpu), p.device == q.device)
			devices[q.device] = d
		}
		c := h.covariance(p, &q.place, j, d)
		own := h.covariance(&q.place, &q.place, one, h.devices(t.device(q.gpu), t.device(q.gpu), true))
		all[i] = scored{q, sq(c.similar+c.own) / (own.similar + own.own)}
	}
	order := func(a, b scored) int {
		return cmp.Or(cmp.Compare(b.score, a.score), comparePlaces(a.p.place, b.p.place))
	}
	slices.SortFunc(all, order)
	rank := map[int]int{}
	for i := range all {
		r := rank[all[i].p.group]
		rank[all[i].p.group]++
		all[i].score /= 1 + float64(r)/crowd
	}
	slices.SortFunc(all, order)
	out := make([]*point, neighbours)
	for i := range out {
		out[i] = all[i].p
	}
	return out
}

// pairs computes covariances between chosen points; what two jobs and two devices share is computed once.
type pairs struct {
	t           *table
	points      []*point
	job, device []int // of each point, in the tables below
	jobs        [][]jobPair
	devices     [][]devicePair
}

func newPairs(t *table, points []*point) *pairs {
	p := &pairs{t: t, points: points}
	var traits []trait
	var names []string
	job, dev := map[int]int{}, map[string]int{}
	for _, q := range points {
		if _, ok := job[q.job]; !ok {
			job[q.job] = len(traits)
			traits = append(traits, q.trait)
		}
		if _, ok := dev[q.gpu]; !ok {
			dev[q.gpu] = len(names)
			names = append(names, q.gpu)
		}
		p.job, p.device = append(p.job, job[q.job]), append(p.device, dev[q.gpu])
	}
	for _, a := range traits {
		row := make([]jobPair, len(traits))
		for i, b := range traits {
			row[i] = t.hyper.jobs(a, b)
		}
		p.jobs = append(p.jobs, row)
	}
	for _, a := range names {
		row := make([]devicePair, len(names))
		for i, b := range names {
			row[i] = t.hyper.devices(t.device(a), t.device(b), a == b)
		}
		p.devices = append(p.devices, row)
	}
	return p
}

func (p *pairs) parts(i, l int) parts {
	return p.t.hyper.covariance(&p.points[i].place, &p.points[l].place, p.jobs[p.job[i]][p.job[l]], p.devices[p.device[i]][p.device[l]])
}

// covariance between two points, without noise.
func (p *pairs) covariance(i, l int) float64 {
	return p.parts(i, l).total(p.t.group[p.points[i].group])
}

// self is the variance of a point that it does not share with all trainings.
func (p *pairs) self(i int) float64 {
	c := p.parts(i, i)
	return c.similar + sq(p.t.group[p.points[i].group])*c.own
}
