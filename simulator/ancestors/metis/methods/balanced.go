package methods

import (
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// balanced places each container on the node with the fewest containers of its app among those of which the smallest
// share is in use; ties are broken at random. It is the demonstration policy of Metis's high-level agent, applied to
// nodes. O(containers × nodes).
func balanced(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return c.inOrder(p, func(app int) int {
		// Shares are below 1 and differ by at least 1/255²; counts are at most 255.
		return c.least(func(n int) float64 { return c.share(n)*(1<<26) + float64(c.counts[n][app]) })
	})
}
