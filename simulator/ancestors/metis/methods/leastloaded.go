package methods

import (
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// leastLoaded places each container on a node of which the smallest share is in use; ties are broken at random.
// O(containers × nodes).
func leastLoaded(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return c.inOrder(p, func(int) int { return c.least(c.share) })
}
