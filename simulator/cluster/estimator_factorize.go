package cluster

import (
	"math"

	"trainopt/simulator/workload"
)

// matrix is a dense matrix in row-major order.
type matrix struct {
	rows, columns int
	at            []float64
}

func newMatrix(rows, columns int) matrix { return matrix{rows, columns, make([]float64, rows*columns)} }

func (m matrix) row(i int) []float64 { return m.at[i*m.columns : (i+1)*m.columns] }

func (m matrix) transposed() matrix {
	t := newMatrix(m.columns, m.rows)
	for i := range m.rows {
		for j, v := range m.row(i) {
			t.at[j*m.rows+i] = v
		}
	}
	return t
}

const (
	convergence = 1e-3 // norm of the change of all values divided by their number, at which iteration stops
	mostRounds  = 100
)

// complete fills in the NaN values of a matrix by probabilistic matrix factorization (Salakhutdinov and Mnih, NIPS
// 2007) like the Python package matrix_completion: values are products of two low-rank matrices with a quadratic
// penalty, computed by alternating least squares from a random start until convergence. The result is the product
// everywhere, which approximates the known values. O(rows · columns · rank²) for each of at most 100 iterations.
func complete(m matrix, rank int, penalty float64, start func() float64) matrix {
	left, right := newMatrix(m.rows, rank), newMatrix(m.columns, rank)
	for i := range left.at {
		left.at[i] = start()
	}
	for i := range right.at {
		right.at[i] = start()
	}
	across := m.transposed()
	before := product(left, right)
	for range mostRounds {
		regress(left, right, m, penalty)
		regress(right, left, across, penalty)
		now := product(left, right)
		change := 0.0
		for i, v := range now.at {
			change += (v - before.at[i]) * (v - before.at[i])
		}
		before = now
		if math.Sqrt(change)/float64(m.rows)/float64(m.columns) < convergence {
			break
		}
	}
	return before
}

// product returns left times the transpose of right.
func product(left, right matrix) matrix {
	out := newMatrix(left.rows, right.rows)
	for i := range left.rows {
		for j := range right.rows {
			out.at[i*right.rows+j] = dot(left.row(i), right.row(j))
		}
	}
	return out
}

func dot(a, b []float64) float64 {
	sum := 0.0
	for i, v := range a {
		sum += float64(v * b[i])
	}
	return sum
}

// regress computes each row of factors by ridge regression of the known values in that row of m on the other factors;
// penalty is positive.
func regress(factors, other, m matrix, penalty float64) {
	k := factors.columns
	gram, right := newMatrix(k, k), make([]float64, k)
	for i := range m.rows {
		clear(gram.at)
		clear(right)
		for j, v := range m.row(i) {
			if math.IsNaN(v) {
				continue
			}
			f := other.row(j)
			for a := range k {
				right[a] += float64(f[a] * v)
				for b := range a + 1 {
					gram.at[a*k+b] += float64(f[a] * f[b])
				}
			}
		}
		for a := range k {
			gram.at[a*k+a] += penalty
		}
		solve(gram, right)
		copy(factors.row(i), right)
	}
}

// solve solves a symmetric positive definite system in place. The lower triangle of m is overwritten by its Cholesky
// factor.
func solve(m matrix, right []float64) {
	n := m.rows
	for i := range n {
		for j := range i + 1 {
			sum := m.at[i*n+j] - dot(m.at[i*n:i*n+j], m.at[j*n:j*n+j])
			if i == j {
				m.at[i*n+i] = math.Sqrt(sum)
			} else {
				m.at[i*n+j] = sum / m.at[j*n+j]
			}
		}
		right[i] = (right[i] - dot(m.at[i*n:i*n+i], right[:i])) / m.at[i*n+i]
	}
	for i := n - 1; i >= 0; i-- {
		for j := i + 1; j < n; j++ {
			right[i] -= float64(m.at[j*n+i] * right[j])
		}
		right[i] /= m.at[i*n+i]
	}
}

// normals generates the same numbers as numpy.random.seed(seed) and numpy.random.randn, by Marsaglia's polar method.
// The original initializes its factorization with them.
type normals struct {
	words  *workload.NumPy
	kept   float64 // second number of the last pair
	isKept bool
}

func newNormals(seed int64) *normals { return &normals{words: workload.NewNumPy(uint32(seed))} }

// draw returns a standard normal number.
func (n *normals) draw() float64 {
	if n.isKept {
		n.isKept = false
		return n.kept
	}
	for {
		x := float64(2*n.words.Random()) - 1
		y := float64(2*n.words.Random()) - 1
		square := float64(x*x) + float64(y*y)
		if square >= 1 || square == 0 {
			continue
		}
		f := math.Sqrt(-2 * math.Log(square) / square)
		n.kept, n.isKept = f*x, true
		return f * y
	}
}
