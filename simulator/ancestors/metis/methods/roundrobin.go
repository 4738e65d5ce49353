package methods

import (
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// roundRobin places containers on consecutive nodes and skips full ones: on an empty cluster, container i is placed
// on node i mod nodes. The rewards of Metis's sub-scheduler are relative to this method. Deterministic. O(containers
// + nodes × capacity).
func roundRobin(p *place.Problem, _ *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, nil)
	if err != nil {
		return nil, err
	}
	next := 0
	return c.inOrder(p, func(int) int {
		for !c.room(next % len(c.counts)) {
			next++
		}
		next++
		return (next - 1) % len(c.counts)
	})
}
