package baseline

import (
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// Balanced puts each container on the node with the fewest of its app among those of which the smallest share is in use, of equal
// ones any: the policy that demonstrates to Metis' high-level agent, here on nodes. O(containers × nodes).
func Balanced(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return c.inOrder(p, func(app int) int {
		// A share is below 1, and another by at least 1/255², a number of containers at most 255.
		return c.least(func(n int) float64 { return c.share(n)*(1<<26) + float64(c.counts[n][app]) })
	})
}
