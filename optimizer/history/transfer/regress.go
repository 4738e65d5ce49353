package transfer

import (
	"cmp"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

const (
	neighbours          = 192 // maximum number of points per estimate, to bound the time
	groupSoftLimit      = 12  // number of points of a group from which further ones are discounted in favour of other groups
	farOut              = 3   // standard deviations from which a point is an outlier
	minGroupForOutliers = 4   // minimum number of points in a group for one of them to be an outlier rather than news
	oddPoints           = 3   // maximum number of outliers
)

// regression is the estimate at one place, as logarithms.
type regression struct {
	mean, variance float64 // of one further measurement there
	left           float64 // remaining share of the prior variance
	points         []*point
	weight         []float64 // of each point in the mean
	similar        []float64 // correlation of each point with the query, without the part common to all trainings
}

// regress conditions the prior on the points most correlated with a place.
func (t *table) regress(p *place, points []*point) regression {
	h := &t.hyper
	s := t.rough.of(p)
	near := t.nearest(p, points)
	n := len(near)
	sys := t.systemOf(near)
	g := regression{points: near, weight: make([]float64, n), similar: make([]float64, n)}
	self := h.covariance(p, p, jobPair{1, 1, 1}, h.devices(t.device(p.gpu), t.device(p.gpu), true))
	cross, parts := t.crossing(sys, p, s)
	for i, c := range parts {
		g.similar[i] = (c.similar + s*s*c.own) / math.Sqrt((self.similar+s*s*self.own)*sys.self[i])
	}
	w := sys.solve(cross)
	prior := self.total(s)
	known := floats.Dot(w, cross)
	g.mean = h.mean(p, t.device(p.gpu)) + floats.Dot(w, sys.residual)
	g.left = (prior - known) / prior
	g.variance = max(0, prior-known) + again(p, near, sq(h.Noise*s)) + 1e-6
	similar := slices.Clone(g.similar)
	for i, a := range near { // from the order of the system to that of near
		at, _ := slices.BinarySearchFunc(sys.points, a, func(a, b *point) int { return cmp.Compare(a.at, b.at) })
		g.weight[i], g.similar[i] = w[at], similar[at]
	}
	return g
}

// crossing returns the prior covariance of a place of roughness s with each point of a system, and its parts.
func (t *table) crossing(sys *system, p *place, s float64) (cross []float64, each []parts) {
	shared, own := t.sharedWith(p), t.hyper.traffic(p)
	cross, each = make([]float64, len(sys.points)), make([]parts, len(sys.points))
	for i, a := range sys.points {
		j, d := shared.of(a)
		each[i] = t.hyper.covarianceWith(p, &a.place, own, t.traffic[a.at], j, d)
		cross[i] = each[i].total(s)
	}
	for _, o := range sys.odd {
		if sys.points[o.at].beside(p) {
			cross[o.at] += o.extra
		}
	}
	return cross, each
}

// shared caches the similarities of a place with the jobs and devices of points.
type shared struct {
	t       *table
	p       *place
	jobs    map[int]jobPair
	devices map[int]devicePair
	job     int // of the last point, with its device: points are ordered by group
	device  int
	j       jobPair
	d       devicePair
}

func (t *table) sharedWith(p *place) *shared {
	return &shared{t: t, p: p, jobs: map[int]jobPair{}, devices: map[int]devicePair{}, job: absent, device: absent}
}

// of returns the similarities with the job and the device of a point.
func (s *shared) of(q *point) (jobPair, devicePair) {
	if q.job != s.job {
		j, ok := s.jobs[q.job]
		if !ok {
			j = s.t.hyper.jobs(s.p.trait, q.trait)
			s.jobs[q.job] = j
		}
		s.job, s.j = q.job, j
	}
	if q.device != s.device {
		d, ok := s.devices[q.device]
		if !ok {
			d = s.t.hyper.devices(s.t.device(s.p.gpu), s.t.device(q.gpu), s.p.device == q.device)
			s.devices[q.device] = d
		}
		s.device, s.d = q.device, d
	}
	return s.j, s.d
}

// scored is a point with its relevance for a place.
type scored struct {
	p     *point
	score float64
}

// before compares by descending score; ties are in the order of the table.
func (a scored) before(b scored) int {
	switch {
	case a.score > b.score:
		return -1
	case a.score < b.score:
		return 1
	}
	return a.p.at - b.p.at
}

// nearest returns the points with the largest squared prior correlation with a place, at most neighbours of them.
// Points of a large group are gradually discounted, since they carry the same information. The limit only bounds the
// time; no point is excluded for dissimilarity. points are in the order of the table, in which groups are contiguous.
func (t *table) nearest(p *place, points []*point) []*point {
	if len(points) <= neighbours {
		return points
	}
	h := &t.hyper
	all, shared, own := make([]scored, len(points)), t.sharedWith(p), h.traffic(p)
	for i, q := range points {
		j, d := shared.of(q)
		c := h.covarianceWith(p, &q.place, own, t.traffic[q.at], j, d)
		all[i] = scored{q, sq(c.similar+c.own) / t.variance[q.at]}
	}
	var groups [][]scored // each with its best point first
	for from := 0; from < len(all); {
		to, top := from+1, from
		for ; to < len(all) && all[to].p.group == all[from].p.group; to++ {
			if all[to].before(all[top]) < 0 {
				top = to
			}
		}
		all[from], all[top] = all[top], all[from]
		groups, from = append(groups, all[from:to]), to
	}
	slices.SortFunc(groups, func(a, b []scored) int { return a[0].before(b[0]) })
	best := make([]scored, 0, neighbours) // min-heap of the best points so far
	for _, members := range groups {
		if len(best) == neighbours && members[0].before(best[0]) > 0 {
			break // as all further ones
		}
		slices.SortFunc(members, scored.before)
		for rank, x := range members {
			x.score /= 1 + float64(rank)/groupSoftLimit
			best = keepBest(best, x)
		}
	}
	slices.SortFunc(best, scored.before)
	out := make([]*point, len(best))
	for i := range out {
		out[i] = best[i].p
	}
	return out
}

// keepBest inserts x into a heap bounded by its capacity, whose root is the worst element.
func keepBest(heap []scored, x scored) []scored {
	worse := func(a, b scored) bool { return a.before(b) > 0 }
	at := len(heap)
	if at < cap(heap) {
		heap = append(heap, x)
		for ; at > 0 && worse(heap[at], heap[(at-1)/2]); at = (at - 1) / 2 {
			heap[at], heap[(at-1)/2] = heap[(at-1)/2], heap[at]
		}
		return heap
	}
	if !worse(heap[0], x) {
		return heap
	}
	heap[0] = x
	for at = 0; ; {
		worst := at
		for child := 2*at + 1; child <= 2*at+2 && child < len(heap); child++ {
			if worse(heap[child], heap[worst]) {
				worst = child
			}
		}
		if worst == at {
			return heap
		}
		heap[at], heap[worst], at = heap[worst], heap[at], worst
	}
}

// pairs computes covariances between given points; similarities of jobs and devices are computed once.
type pairs struct {
	t           *table
	points      []*point
	job, device []int     // of each point, as indices into the tables below
	rough       []float64 // of each point
	jobs        [][]jobPair
	devices     [][]devicePair
}

// newPairs numbers the distinct jobs and devices of points and computes the similarity of every pair of them, so that
// the n² covariances need only look-ups.
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
		p.rough = append(p.rough, t.rough.of(&q.place))
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
	a, b := p.points[i], p.points[l]
	return p.t.hyper.covarianceWith(&a.place, &b.place, p.t.traffic[a.at], p.t.traffic[b.at], p.jobs[p.job[i]][p.job[l]], p.devices[p.device[i]][p.device[l]])
}

// covariance returns the covariance of two points without noise.
func (p *pairs) covariance(i, l int) float64 {
	return p.parts(i, l).total(p.rough[i])
}

// self returns the variance of a point without the part common to all trainings.
func (p *pairs) self(i int) float64 {
	c := p.parts(i, i)
	return c.similar + sq(p.rough[i])*c.own
}
