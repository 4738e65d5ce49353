package metis

import (
	"fmt"
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

// baselineMethod places containers one after another by a fixed rule, like production schedulers and published
// baselines. The results are a reference, as Paragon was for Metis: rules without throughput information lose about a
// fifth of the throughput. It optimizes no objective, so Value, Bound and Gap of the solution are NaN. The same problem
// and random numbers yield the same placement. Deterministic methods ignore rng; a nil rng is seeded with 0. Errors
// are those of Problem.Validate, including a batch that does not fit.
type baselineMethod func(p *place.Problem, rng *rand.Rand) (*place.Solution, error)

// baselines contains all methods by name.
var baselines = map[string]baselineMethod{
	"balanced":          inOrder(balanced),
	"binpack":           inOrder(binPack),
	"least-loaded":      inOrder(leastLoaded),
	"paragon":           paragonRule{}.Place,
	"paragon-published": paragonRule{Published: true}.Place,
	"random":            inOrder(random),
	"round-robin":       inOrder(roundRobin),
	"spread":            inOrder(spread),
}

// inOrder returns the method that places the batch in order; rule returns the chooser of nodes for a cluster.
func inOrder(rule func(c *cluster) func(app int) int) baselineMethod {
	return func(p *place.Problem, rng *rand.Rand) (*place.Solution, error) {
		c, err := newCluster(p, rng)
		if err != nil {
			return nil, err
		}
		return c.inOrder(p, rule(c))
	}
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

// leastLoaded places each container on a node of which the smallest share is in use; ties are broken at random.
// O(containers × nodes).
func leastLoaded(c *cluster) func(app int) int {
	return func(int) int { return c.least(c.share) }
}

// balanced places each container on the node with the fewest containers of its app among those of which the smallest
// share is in use; ties are broken at random. It is the demonstration policy of Metis's high-level agent, applied to
// nodes. O(containers × nodes).
func balanced(c *cluster) func(app int) int {
	return func(app int) int {
		// Shares are below 1 and differ by at least 1/255²; counts are at most 255.
		return c.least(func(n int) float64 { return c.share(n)*(1<<26) + float64(c.counts[n][app]) })
	}
}

// roundRobin places containers on consecutive nodes and skips full ones: on an empty cluster, container i is placed
// on node i mod nodes. The rewards of Metis's sub-scheduler are relative to this method. Deterministic. O(containers
// + nodes × capacity).
func roundRobin(c *cluster) func(app int) int {
	next := 0
	return func(int) int {
		for !c.room(next % len(c.counts)) {
			next++
		}
		next++
		return (next - 1) % len(c.counts)
	}
}

// random places each container on a node with free capacity, chosen uniformly. O(containers + nodes × capacity).
func random(c *cluster) func(app int) int {
	var open []int // nodes with free capacity
	for n := range c.counts {
		if c.room(n) {
			open = append(open, n)
		}
	}
	return func(int) int {
		i := c.pick(len(open))
		n := open[i]
		if c.load[n]+1 == c.capacity[n] {
			open[i] = open[len(open)-1]
			open = open[:len(open)-1]
		}
		return n
	}
}

// spread scores nodes like the default scheduler of Kubernetes (configuration v1) for pods of equal size without
// special requirements: 2 × PodTopologySpread over host names (few pods of the same service; the built-in soft
// constraint) + NodeResourcesFit with LeastAllocated, both integers from 0 to 100; ties are broken at random. Other
// plugins score all nodes equally here. All nodes are scored, whereas Kubernetes samples clusters of more than 100
// nodes. O(containers × nodes).
func spread(c *cluster) func(app int) int {
	return func(app int) int {
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
	}
}

// binPack places each container on a node with free capacity of which the largest share is in use; ties are broken at
// random. This is NodeResourcesFit of Kubernetes with MostAllocated and no other scores. O(containers × nodes).
func binPack(c *cluster) func(app int) int {
	return func(int) int { return c.least(func(n int) float64 { return -c.share(n) }) }
}
