package learned

import (
	"context"
	"math"
	"math/rand/v2"

	"trainopt/optimizer/schedule/place"
)

const (
	// cellNodes is the number of nodes that a sub-scheduler places on.
	cellNodes = 27
	// classWidth is the number of batch sizes that a sub-scheduler is trained for: the class s is for s+1 to s+10 containers.
	classWidth = 10
)

// classes is the number of sub-schedulers for nodes of a capacity: 20 for 8, which Metis uses (it trains a 21st and leaves it); the
// last one is for all larger batches too.
func classes(capacity int) int { return max(1, cellNodes*capacity/classWidth-1) }

// classOf is the class for so many containers on a cell of so many nodes; fewer than 27 count as 27 that are as full.
func classOf(containers, nodes, capacity int) int {
	if nodes < cellNodes {
		containers = containers * cellNodes / max(nodes, 1)
	}
	return min(max(containers-1, 0)/classWidth, classes(capacity)-1)
}

// cellTree is the tree of a sub-scheduler: three levels of three, with the app as a number and what is still to come.
func cellTree(apps, capacity int) *tree {
	t := equalTree(apps, capacity, 3, 3, 3)
	t.scalar, t.rest = true, true
	return t
}

// drawBatch draws a batch of so many containers, each of any app with equal chance.
func drawBatch(batch []int, containers int, rng *rand.Rand) {
	clear(batch)
	for range containers {
		batch[rng.IntN(len(batch))]++
	}
}

// yield is the throughput of all containers of an episode on nodes with a table.
func yield(e *episode, t *tree, table *place.Table) float64 {
	var c [256]uint8
	counts := c[:t.apps]
	sum := 0.0
	for i := range t.leaves() {
		for a := range counts {
			counts[a] = uint8(e.counts[i*t.apps+a])
		}
		sum += table.Throughput(table.Index(counts))
	}
	return sum
}

// roundRobin is the throughput of all containers of a batch that are dealt out one by one, container i to node i mod nodes.
func roundRobin(batch []int, nodes int, table *place.Table) float64 {
	apps := len(batch)
	counts := make([]uint8, nodes*apps)
	n := 0
	for a, k := range batch {
		for range k {
			counts[n%nodes*apps+a]++
			n++
		}
	}
	sum := 0.0
	for i := range nodes {
		sum += table.Throughput(table.Index(counts[i*apps : (i+1)*apps]))
	}
	return sum
}

// trainCell trains the sub-scheduler of one class as Metis does: the reward of an episode is the mean throughput above that of round
// robin on the same batch.
func trainCell(ctx context.Context, o Options, class int, report func(Point)) ([]*policy, error) {
	apps, capacity := len(o.Table.Apps()), o.Table.Capacity()
	t := cellTree(apps, capacity)
	policies := t.newPolicies(rand.New(rand.NewPCG(o.Seed, uint64(class)<<32)))
	learners := make([]*learner, len(policies))
	for l, p := range policies {
		learners[l] = newLearner(p, 0.01)
	}
	const update = 200
	pool := make([]*episode, update+1)
	for i := range pool {
		pool[i] = &episode{}
	}
	r := rollout{tree: t, policies: policies, record: true, workers: o.Workers}
	entropy := 0.01
	for done := 0; done < o.Episodes; {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		episodes := pool[:untilUpdate(done, update, o.Episodes)]
		rewards := make([]float64, len(episodes))
		for i, e := range episodes {
			rng := rand.New(rand.NewPCG(o.Seed, uint64(class)<<32+uint64(done+i)+1))
			b := make([]int, apps)
			drawBatch(b, min(class*classWidth+1+rng.IntN(classWidth), cellNodes*capacity), rng)
			e.begin(t, b, rng)
		}
		r.run(episodes)
		parallel(len(episodes), o.Workers, func(i int) {
			e := episodes[i]
			rewards[i] = (yield(e, t, o.Table) - roundRobin(e.batch, cellNodes, o.Table)) / float64(total(e.batch))
		})
		for l, learn := range learners {
			lessons := lessonsOf(episodes, l)
			normalise(lessons, rewards)
			learn.update(lessons, float32(entropy), o.Workers)
		}
		done += len(episodes)
		if (done-1)%1000 == 0 {
			entropy = max(entropy/2, 0.002)
		}
		report(Point{Class: class, Episode: done, Value: mean(rewards), Best: math.Inf(-1)})
	}
	return policies, nil
}

// lessonsOf are what the policy of a level did.
func lessonsOf(episodes []*episode, level int) []*lesson {
	out := make([]*lesson, len(episodes))
	for i, e := range episodes {
		out[i] = &e.steps[level]
	}
	return out
}

func total(batch []int) int {
	n := 0
	for _, k := range batch {
		n += k
	}
	return n
}

func mean(x []float64) float64 {
	sum := 0.0
	for _, v := range x {
		sum += v
	}
	return sum / float64(len(x))
}
