package methods

import (
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// random places each container on a node with free capacity, chosen uniformly. O(containers + nodes × capacity).
func random(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
	c, err := newCluster(p, rng)
	if err != nil {
		return nil, err
	}
	var open []int // nodes with free capacity
	for n := range c.counts {
		if c.room(n) {
			open = append(open, n)
		}
	}
	return c.inOrder(p, func(int) int {
		i := c.pick(len(open))
		n := open[i]
		if c.load[n]+1 == c.capacity[n] {
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		return n
	})
}
