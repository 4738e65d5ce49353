package baseline

import (
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// RoundRobin puts containers on one node after another, leaving out full ones: on an empty cluster container i is on node i mod
// nodes. Metis rewards its sub-scheduler by what it has above this. No random numbers. O(containers + nodes × capacity).
func RoundRobin(p *place.Problem, _ *rand.Rand) (*place.Solution, error) {
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
