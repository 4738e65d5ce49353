package methods

import (
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// spread scores nodes like the default scheduler of Kubernetes (configuration v1) for pods of equal size without
// special requirements: 2 × PodTopologySpread over host names (few pods of the same service; the built-in soft
// constraint) + NodeResourcesFit with LeastAllocated, both integers from 0 to 100; ties are broken at random. Other
// plugins score all nodes equally here. All nodes are scored, whereas Kubernetes samples clusters of more than 100
// nodes. O(containers × nodes).
func spread(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return c.inOrder(p, func(app int) int {
		nodes, least, most := 0, math.MaxUint8, 0
		for n := range c.counts {
			if c.room(n) {
				k := int(c.counts[n][app])
				nodes, least, most = nodes+1, min(least, k), max(most, k)
			}
		}
		// Each pod of a service on a node has the weight log(nodes + 2); maxSkew is 3.
		pods := func(k int) int { return int(math.Round(float64(k)*math.Log(float64(nodes+2)) + 3 - 1)) }
		low, high := pods(least), pods(most)
		return c.least(func(n int) float64 {
			topology := 100 * (high + low - pods(int(c.counts[n][app]))) / high
			free := (c.capacity[n] - c.load[n] - 1) * 100 / c.capacity[n]
			return -float64(2*topology + free)
		})
	})
}

// binPack places each container on a node with free capacity of which the largest share is in use; ties are broken at
// random. This is NodeResourcesFit of Kubernetes with MostAllocated and no other scores. O(containers × nodes).
func binPack(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return c.inOrder(p, func(int) int { return c.least(func(n int) float64 { return -c.share(n) }) })
}
