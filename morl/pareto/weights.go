package pareto

import (
	"fmt"
	"math/rand/v2"
)

// Lattice returns the simplex lattice of Das and Dennis (1998): all weight vectors whose entries are multiples of
// 1/divisions and sum to 1, in ascending lexicographic order. Their number is C(divisions+objectives−1,
// objectives−1). It panics unless both arguments are at least 1.
func Lattice(objectives, divisions int) [][]float64 {
	if objectives < 1 || divisions < 1 {
		panic(fmt.Sprintf("pareto: lattice of %d objectives and %d divisions: want at least 1 of each", objectives, divisions))
	}
	var out [][]float64
	parts := make([]int, objectives)
	var fill func(at, left int)
	fill = func(at, left int) {
		if at == objectives-1 {
			parts[at] = left
			w := make([]float64, objectives)
			for i, n := range parts {
				w[i] = float64(n) / float64(divisions)
			}
			out = append(out, w)
			return
		}
		for n := 0; n <= left; n++ {
			parts[at] = n
			fill(at+1, left-n)
		}
	}
	fill(0, divisions)
	return out
}

// Weights returns n weight vectors on the simplex. One objective: all [1]. Two: equally spaced from (0, 1) to (1, 0),
// only the middle if n is 1; rng is not used. More: drawn uniformly with rng (normalised exponentials; Rubinstein
// 1982), so the same seed yields the same vectors. It returns nil if n is 0, and panics for a negative n or no
// objectives.
func Weights(n, objectives int, rng *rand.Rand) [][]float64 {
	if n < 0 || objectives < 1 {
		panic(fmt.Sprintf("pareto: %d weights of %d objectives: want at least 0 and 1", n, objectives))
	}
	var out [][]float64
	for i := range n {
		w := make([]float64, objectives)
		switch {
		case objectives == 1:
			w[0] = 1
		case objectives == 2 && n == 1:
			w[0], w[1] = 0.5, 0.5
		case objectives == 2:
			w[0] = float64(i) / float64(n-1)
			w[1] = 1 - w[0]
		default:
			drawUniform(w, rng)
		}
		out = append(out, w)
	}
	return out
}

// drawUniform draws w uniformly from the simplex.
func drawUniform(w []float64, rng *rand.Rand) {
	var sum float64
	for i := range w {
		w[i] = rng.ExpFloat64()
		sum += w[i]
	}
	for i := range w {
		w[i] /= sum
	}
}
