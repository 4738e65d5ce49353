package methods

// The baselines place containers one after another by fixed rules, like production schedulers and published
// baselines.
//
// The results are not good placements: rules without throughput information lose about a fifth of the throughput (see
// package exact). They serve as a reference for other methods, as Paragon did for Metis.
//
//	solution, err := methods.Baselines["spread"](problem, rand.New(rand.NewPCG(1, 0)))

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// baselineMethod places a batch. It optimizes no objective, so Value, Bound and Gap of the solution are NaN. The same problem
// and random numbers yield the same placement. Deterministic methods ignore rng; a nil rng is seeded with 0. Errors
// are those of Problem.Validate, including a batch that does not fit.
type baselineMethod func(p *place.Problem, rng *rand.Rand) (*place.Solution, error)

// Baselines contains all methods by name.
var Baselines = map[string]baselineMethod{
	"balanced":          balanced,
	"binpack":           binPack,
	"least-loaded":      leastLoaded,
	"paragon":           paragonRule{}.Place,
	"paragon-published": paragonRule{Published: true}.Place,
	"random":            random,
	"round-robin":       roundRobin,
	"spread":            spread,
}

// cluster is the state of the nodes while containers are placed.
type cluster struct {
	counts   place.Placement
	typeOf   []int
	load     []int // number of containers
	capacity []int
	pick     func(n int) int // random number below n
	ties     []int
}

// newCluster returns a cluster with the existing containers.
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

// inOrder places the batch app by app, in the order in which Metis presents containers. choose returns a node with
// free capacity; one exists because the batch fits.
func (c *cluster) inOrder(p *place.Problem, choose func(app int) int) (*place.Solution, error) {
	for app, k := range p.Batch {
		for range k {
			n := choose(app)
			if n < 0 || !c.room(n) {
				return nil, fmt.Errorf("placement: container of app %d on node %d, which is full", app+1, n+1) // bug in a method
			}
			c.counts[n][app]++
			c.load[n]++
		}
	}
	return &place.Solution{Placement: c.counts, Value: math.NaN(), Bound: math.NaN(), Gap: math.NaN()}, nil
}

func (c *cluster) room(n int) bool { return c.load[n] < c.capacity[n] }

// share returns the fraction of a node's capacity in use.
func (c *cluster) share(n int) float64 { return float64(c.load[n]) / float64(c.capacity[n]) }

// least returns the node with the lowest cost among those with free capacity, choosing uniformly among ties; −1 if
// all are full. Costs may be infinite. O(nodes).
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

// any returns a random element of nodes, or −1 if there are none.
func (c *cluster) any(nodes []int) int {
	switch len(nodes) {
	case 0:
		return -1
	case 1:
		return nodes[0]
	}
	return nodes[c.pick(len(nodes))]
}
