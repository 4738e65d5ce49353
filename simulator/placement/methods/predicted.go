package methods

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/simulator/placement"
	"trainopt/simulator/placement/forest"
)

// Predicted is what a forest says that has seen a share of a table's patterns, drawn by the seed: what methods know where not all is
// measured. Share is more than 0 and at most 1; 0.2 is what Metis has by default.
func Predicted(t *placement.Table, share float64, seed uint64) (*placement.Table, error) {
	if !(share > 0 && share <= 1) {
		return nil, fmt.Errorf("predict from a share of %v of the patterns: want more than 0, at most 1", share)
	}
	s := &placement.Samples{Apps: t.Apps()}
	for _, i := range rand.New(rand.NewPCG(seed, 0)).Perm(t.Patterns())[:int(math.Ceil(share*float64(t.Patterns())))] {
		rps := slices.Clone(t.RPS(i))
		for a, k := range t.Counts(i) {
			if k == 0 {
				rps[a] = math.NaN()
			}
		}
		s.Counts, s.RPS = append(s.Counts, slices.Clone(t.Counts(i))), append(s.RPS, rps)
	}
	return Grown(s, t.Capacity())
}

// Grown is what a forest grown from samples says of every pattern.
func Grown(s *placement.Samples, capacity int) (*placement.Table, error) {
	f, _, err := forest.Train(s, forest.Options{})
	if err != nil {
		return nil, err
	}
	return f.Table(capacity)
}
