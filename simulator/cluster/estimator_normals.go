package cluster

import (
	"math"

	"trainopt/simulator/workload"
)

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
