package metis

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"trainopt/optimizer/schedule/place"
)

// predicted returns the table predicted by a forest trained on a share of a table's patterns, drawn by the seed: the
// knowledge of methods if only some patterns are measured. Share must be in (0, 1]. With pairs, the sample begins
// with patterns that show interference: single apps, and one container of an app beside any number of another;
// Metis's default sample, a fifth of the patterns, contains these.
func predicted(t *place.Table, share float64, seed uint64, pairs bool) (*place.Table, error) {
	if !(share > 0 && share <= 1) {
		return nil, fmt.Errorf("predict from a share of %v of the patterns: want more than 0, at most 1", share)
	}
	s := &place.Samples{Apps: t.Apps()}
	order := rand.New(rand.NewPCG(seed, 0)).Perm(t.Patterns())
	if pairs {
		slices.SortStableFunc(order, func(a, b int) int { return rank(t.Counts(a)) - rank(t.Counts(b)) })
	}
	for _, i := range order[:int(math.Ceil(share*float64(t.Patterns())))] {
		rps := slices.Clone(t.RPS(i))
		for a, k := range t.Counts(i) {
			if k == 0 {
				rps[a] = math.NaN()
			}
		}
		s.Counts, s.RPS = append(s.Counts, slices.Clone(t.Counts(i))), append(s.RPS, rps)
	}
	f, err := s.TrainForest(place.ForestOptions{})
	if err != nil {
		return nil, err
	}
	return f.Table(t.Capacity())
}

// rank returns 0 for patterns that show interference between two apps or of one app with itself, 1 for others.
func rank(counts []uint8) int {
	apps, single := 0, false
	for _, k := range counts {
		apps += int(min(k, 1))
		single = single || k == 1
	}
	if apps < 2 || apps == 2 && single {
		return 0
	}
	return 1
}
