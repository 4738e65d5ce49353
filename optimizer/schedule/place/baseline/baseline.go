// Package baseline places containers one after another by a rule, as schedulers in use and the published comparisons do.
//
// It is not the way to a good placement: rules that look at no throughput leave a fifth of it (see package exact). It is what others
// are measured against, and Paragon what Metis was.
//
//	solution, err := baseline.Methods["spread"](problem, rand.New(rand.NewPCG(1, 0)))
package baseline

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// Method places a batch. It maximises nothing, so that Value, Bound and Gap of the solution are NaN. The same problem and random
// numbers give the same placement; methods that say so use none, and nil is seed 0. The error is that of Problem.Validate, a batch
// that does not fit included.
type Method func(p *place.Problem, rng *rand.Rand) (*place.Solution, error)

// Methods are all by name.
var Methods = map[string]Method{
	"balanced":          Balanced,
	"binpack":           BinPack,
	"least-loaded":      LeastLoaded,
	"paragon":           Paragon{}.Place,
	"paragon-published": Paragon{Published: true}.Place,
	"random":            Random,
	"round-robin":       RoundRobin,
	"spread":            Spread,
}

// cluster is nodes while they fill.
type cluster struct {
	counts   place.Placement
	typeOf   []int
	load     []int // containers
	capacity []int
	pick     func(n int) int // a random number below n
	ties     []int
}

// newCluster has what runs already.
func newCluster(p *place.Problem, rng *rand.Rand) (*cluster, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if rng == nil {
		rng = rand.New(rand.NewPCG(0, 0))
	}
	c := &cluster{typeOf: p.TypeOf(), pick: rng.IntN}
	apps := p.Apps()
	all := make([]uint8, len(c.typeOf)*apps)
	for n, t := range c.typeOf {
		counts := all[n*apps : (n+1)*apps : (n+1)*apps]
		if p.Existing != nil {
			copy(counts, p.Existing[n])
		}
		load := 0
		for _, k := range counts {
			load += int(k)
		}
		c.counts, c.load = append(c.counts, counts), append(c.load, load)
		c.capacity = append(c.capacity, p.Types[t].Table.Capacity())
	}
	return c, nil
}

// inOrder places the batch, all containers of the first app, then of the second, and so on, as Metis presents them. Choose gives a
// node with room, of which there is one, since the batch fits.
func (c *cluster) inOrder(p *place.Problem, choose func(app int) int) (*place.Solution, error) {
	for app, k := range p.Batch {
		for range k {
			n := choose(app)
			if n < 0 || !c.room(n) {
				return nil, fmt.Errorf("placement: container of app %d on node %d, which is full", app+1, n+1) // a method that is wrong
			}
			c.counts[n][app]++
			c.load[n]++
		}
	}
	return &place.Solution{Placement: c.counts, Value: math.NaN(), Bound: math.NaN(), Gap: math.NaN()}, nil
}

func (c *cluster) room(n int) bool { return c.load[n] < c.capacity[n] }

// share is how full a node is.
func (c *cluster) share(n int) float64 { return float64(c.load[n]) / float64(c.capacity[n]) }

// least is a node with the smallest cost among those with room, of equal ones any with the same chance; −1 when all are full. Costs
// may be infinite. O(nodes).
func (c *cluster) least(cost func(n int) float64) int {
	c.ties = c.ties[:0]
	best := math.Inf(1)
	for n := range c.counts {
		if !c.room(n) {
			continue
		}
		x := cost(n)
		if x < best || len(c.ties) == 0 {
			best, c.ties = x, append(c.ties[:0], n)
		} else if x == best {
			c.ties = append(c.ties, n)
		}
	}
	return c.any(c.ties)
}

// any is one of nodes, −1 when there are none.
func (c *cluster) any(nodes []int) int {
	switch len(nodes) {
	case 0:
		return -1
	case 1:
		return nodes[0]
	}
	return nodes[c.pick(len(nodes))]
}
