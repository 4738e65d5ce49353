package baseline

import (
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// Spread scores nodes as the scheduler of Kubernetes does by default (configuration v1) for pods of one size that ask for nothing
// special: 2 × PodTopologySpread over host names (few pods of the same service; the built-in constraint, which may be missed) +
// NodeResourcesFit with LeastAllocated, both from 0 to 100 in whole numbers; of equal ones any. What other plugins add is the same
// for all nodes here. All nodes are scored, while Kubernetes looks at a part of more than 100. O(containers × nodes).
func Spread(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
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
		// A service's pods on a node count log(nodes + 2) each; maxSkew is 3.
		pods := func(k int) int { return int(math.Round(float64(k)*math.Log(float64(nodes+2)) + 3 - 1)) }
		low, high := pods(least), pods(most)
		return c.least(func(n int) float64 {
			topology := 100 * (high + low - pods(int(c.counts[n][app]))) / high
			free := (c.capacity[n] - c.load[n] - 1) * 100 / c.capacity[n]
			return -float64(2*topology + free)
		})
	})
}

// BinPack puts each container on a node with room of which the largest share is in use, of equal ones any: NodeResourcesFit of
// Kubernetes with MostAllocated and no other scores. O(containers × nodes).
func BinPack(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	return c.inOrder(p, func(int) int { return c.least(func(n int) float64 { return -c.share(n) }) })
}
