package transfer

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"sync"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// system is the factorised prior covariance of a set of points with their measurements, which all estimates from the
// same points share. Most configurations of a query do, so a hundred estimates need only a few factorisations of
// O(n³).
type system struct {
	points   []*point // in the order of the table
	residual []float64
	self     []float64 // variance of each point without the part common to all trainings
	prior    []float64 // covariances, the upper half; nil once solved
	solved   sync.Once
	factor   blas64.Triangular
	odd      []outlier
}

// outlier is an outlier with the variance of its own effect.
type outlier struct {
	at     int // among the points
	extra  float64
	column []float64 // column of the previous inverse; share is its coefficient in the rank-one update
	share  float64
}

// systems caches recently used systems.
type systems struct {
	sync.Mutex
	known  map[string]*system
	order  []string // oldest first
	shared covarianceCache
}

// covarianceCache caches covariances between points of systems: the systems of one query have most of their points in common.
type covarianceCache struct {
	slot map[int]int // by the index of the point in the table
	rows [][]float64 // row s: covariances of slot s with slots 0…s; NaN if not computed
}

// mostKept bounds the number of points with cached covariances: 16 MB.
const mostKept = 2000

// slots returns the cache slots of points, absent for those beyond the limit.
func (k *covarianceCache) slots(points []*point) []int {
	if k.slot == nil {
		k.slot = map[int]int{}
	}
	out := make([]int, len(points))
	for i, p := range points {
		s, ok := k.slot[p.at]
		switch {
		case ok:
		case len(k.rows) == mostKept:
			s = absent
		default:
			s = len(k.rows)
			row := make([]float64, s+1)
			for l := range row {
				row[l] = math.NaN()
			}
			k.slot[p.at], k.rows = s, append(k.rows, row)
		}
		out[i] = s
	}
	return out
}

// mostSystems bounds the number of cached systems: 0.3 MB each.
const mostSystems = 64

// systemOf returns the system of a set of points from the cache, or solves it in O(n³).
func (t *table) systemOf(near []*point) *system {
	points := slices.Clone(near)
	slices.SortFunc(points, func(a, b *point) int { return cmp.Compare(a.at, b.at) })
	key := make([]byte, 0, 4*len(points))
	for _, p := range points {
		key = binary.LittleEndian.AppendUint32(key, uint32(p.at))
	}
	name := string(key)
	s := t.systems.find(name, func() *system { return t.prepare(points) })
	s.solved.Do(func() {
		s.factor, s.prior = factorize(s.prior, len(points)), nil
		s.isolateOutliers()
	})
	return s
}

// find returns the cached system of a name, or prepares it. If the cache is full, it evicts the oldest system.
func (all *systems) find(name string, prepare func() *system) *system {
	all.Lock()
	defer all.Unlock()
	if s, ok := all.known[name]; ok {
		return s
	}
	s := prepare()
	if all.known == nil {
		all.known = map[string]*system{}
	}
	if len(all.order) == mostSystems {
		delete(all.known, all.order[0])
		all.order = all.order[1:]
	}
	all.known[name] = s
	all.order = append(all.order, name)
	return s
}

// prepare returns an unsolved system.
func (t *table) prepare(points []*point) *system {
	h, n := &t.hyper, len(points)
	s := &system{points: points, residual: make([]float64, n), self: make([]float64, n)}
	k, pairs := make([]float64, n*n), newPairs(t, points)
	kept := &t.systems.shared
	slots := kept.slots(points)
	for i, a := range points {
		s.residual[i] = a.y - h.mean(&a.place, t.device(a.gpu))
		for l := i; l < n; l++ {
			a, b := max(slots[i], slots[l]), min(slots[i], slots[l])
			if b == absent {
				k[i*n+l] = pairs.covariance(i, l)
				continue
			}
			v := &kept.rows[a][b]
			if math.IsNaN(*v) {
				*v = pairs.covariance(i, l)
			}
			k[i*n+l] = *v
		}
		k[i*n+i] += h.noise(a) * sq(pairs.rough[i])
		s.self[i] = pairs.self(i)
	}
	s.prior = k
	return s
}

// factorize returns the Cholesky factor of a symmetric matrix, given by its upper half. If rounding makes the matrix
// indefinite, the diagonal is increased until it is positive definite.
func factorize(k []float64, n int) blas64.Triangular {
	for jitter := 1e-9; ; jitter *= 10 {
		f, ok := lapack64.Potrf(blas64.Symmetric{N: n, Stride: n, Uplo: blas.Upper, Data: slices.Clone(k)})
		if ok {
			return f
		}
		for i := range n {
			k[i*n+i] *= 1 + jitter
		}
	}
}

// solve returns the inverse times x.
func (s *system) solve(x []float64) []float64 {
	out := slices.Clone(x)
	v := blas64.Vector{N: len(x), Inc: 1, Data: out}
	blas64.Trsv(blas.Trans, s.factor, v)
	blas64.Trsv(blas.NoTrans, s.factor, v)
	for i := range s.odd { // Sherman–Morrison formula, one additional variance at a time
		o := &s.odd[i]
		floats.AddScaled(out, -o.share*floats.Dot(o.column, x), o.column)
	}
	return out
}

// isolateOutliers finds the points that contradict all others, in groups with at least companions points, and gives each an
// effect at its own place only. Neighbours are then not distorted, while an estimate at that place still equals the
// measurement.
func (s *system) isolateOutliers() {
	n := len(s.points)
	company := map[int]int{}
	for _, q := range s.points {
		company[q.group]++
	}
	alpha := s.solve(s.residual)
	if !s.suspicious(alpha, company) {
		return
	}
	inverse := slices.Clone(s.factor.Data)
	if !lapack64.Trtri(blas64.Triangular{N: n, Stride: n, Uplo: blas.Upper, Diag: blas.NonUnit, Data: inverse}) {
		return
	}
	diagonal := make([]float64, n)
	for i := range n {
		row := inverse[i*n+i : (i+1)*n]
		diagonal[i] = floats.Dot(row, row)
	}
	for range oddPoints {
		worst, far := -1, float64(farOut)
		for i := range n {
			if company[s.points[i].group] < minGroupForOutliers {
				continue
			}
			if z := math.Abs(alpha[i]) / math.Sqrt(diagonal[i]); z > far {
				worst, far = i, z
			}
		}
		if worst < 0 {
			return
		}
		residual, variance := alpha[worst]/diagonal[worst], 1/diagonal[worst]
		o := outlier{at: worst, extra: residual*residual - variance, column: make([]float64, n)}
		o.column[worst] = 1
		o.column = s.solve(o.column)
		o.share = o.extra / (1 + o.extra*o.column[worst])
		s.odd = append(s.odd, o)
		floats.AddScaled(alpha, -o.share*floats.Dot(o.column, s.residual), o.column)
		for i, c := range o.column {
			diagonal[i] -= o.share * c * c
		}
	}
}

// suspicious reports whether a point may be an outlier, given the inverse times the residuals and the size of each
// group. The variance of a point given the others is the inverse of the squared norm of a row of the factor's inverse.
// The norm is summed until it excludes that the point is an outlier, usually after the few points of its group that follow,
// which saves the inversion of O(n³).
func (s *system) suspicious(alpha []float64, company map[int]int) bool {
	n := len(s.points)
	column := make([]float64, n)
	for i, a := range alpha {
		if company[s.points[i].group] < minGroupForOutliers {
			continue
		}
		clear(column[i:])
		column[i] = 1
		enough, norm := sq(a/farOut)*(1+1e-9), 0.0
		for l := i; l < n && norm < enough; l++ {
			row := s.factor.Data[l*n : (l+1)*n]
			x := column[l] / row[l]
			norm += x * x
			floats.AddScaled(column[l+1:], -x, row[l+1:])
		}
		if norm < enough {
			return true
		}
	}
	return false
}
