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

// system is the prior of a set of points and what was measured there, solved: what every answer that rests on the same points
// has in common. Most configurations of a question do, so that a hundred answers take a few of the n³ steps that one takes.
type system struct {
	points   []*point // in the order of the table
	residual []float64
	self     []float64 // variance of each point that it does not share with all trainings
	factor   blas64.Triangular
	odd      []oddity
}

// oddity is a point that contradicts the others, with the variance of an effect of its own.
type oddity struct {
	at     int // among the points
	extra  float64
	column []float64 // of the inverse before, and its share in the change of the inverse
	share  float64
}

// systems are those that were solved lately.
type systems struct {
	sync.Mutex
	solved map[string]*system
	order  []string // the oldest first
}

// mostSystems bounds what is kept: 0.3 MB each.
const mostSystems = 64

// systemOf solves for a set of points, or finds it solved. It costs O(n³) the first time.
func (t *table) systemOf(near []*point) *system {
	points := slices.Clone(near)
	slices.SortFunc(points, func(a, b *point) int { return cmp.Compare(a.at, b.at) })
	key := make([]byte, 0, 4*len(points))
	for _, p := range points {
		key = binary.LittleEndian.AppendUint32(key, uint32(p.at))
	}
	name := string(key)
	t.systems.Lock()
	defer t.systems.Unlock()
	if s, ok := t.systems.solved[name]; ok {
		return s
	}
	s := t.solve(points)
	if t.systems.solved == nil {
		t.systems.solved = map[string]*system{}
	}
	if len(t.systems.order) == mostSystems {
		delete(t.systems.solved, t.systems.order[0])
		t.systems.order = t.systems.order[1:]
	}
	t.systems.solved[name] = s
	t.systems.order = append(t.systems.order, name)
	return s
}

func (t *table) solve(points []*point) *system {
	h, n := &t.hyper, len(points)
	s := &system{points: points, residual: make([]float64, n), self: make([]float64, n)}
	k, pairs := make([]float64, n*n), newPairs(t, points)
	for i, a := range points {
		s.residual[i] = a.y - h.mean(&a.place, t.device(a.gpu))
		for l := i; l < n; l++ {
			k[i*n+l] = pairs.covariance(i, l)
		}
		k[i*n+i] += h.noise(a) * sq(t.group[a.group])
		s.self[i] = pairs.self(i)
	}
	s.factor = factorize(k, n)
	s.isolate()
	return s
}

// factorize is the Cholesky factor of a symmetric matrix, given by its upper half; the diagonal of one that is not positive by
// rounding grows until it is.
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

// solve is the inverse times x.
func (s *system) solve(x []float64) []float64 {
	out := slices.Clone(x)
	lapack64.Potrs(s.factor, blas64.General{Rows: len(x), Cols: 1, Stride: 1, Data: out})
	for i := range s.odd { // Sherman and Morrison's formula, one further variance at a time
		o := &s.odd[i]
		floats.AddScaled(out, -o.share*floats.Dot(o.column, x), o.column)
	}
	return out
}

// isolate finds points of groups that have several which contradict all others, and gives each an effect of its own, at its
// place only, so that the neighbours are not bent to it while an answer at that place still is what was measured there.
func (s *system) isolate() {
	n := len(s.points)
	company := map[int]int{}
	for _, q := range s.points {
		company[q.group]++
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
	alpha := s.solve(s.residual)
	for range oddPoints {
		worst, far := -1, float64(farOut)
		for i := range n {
			if company[s.points[i].group] < companions {
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
		o := oddity{at: worst, extra: residual*residual - variance, column: make([]float64, n)}
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
