package metis

import (
	"context"
	"math"
	"math/rand/v2"

	"trainopt/internal/stat"
	"trainopt/optimizer/schedule/place"
)

const (
	// cellNodes is the number of nodes of a sub-scheduler.
	cellNodes = 27
	// classWidth is the number of batch sizes per class: class s covers 10·s+1 to 10·s+10 containers.
	classWidth = 10
)

// classes returns the number of sub-schedulers for nodes of a capacity: 20 for 8, as in Metis (which trains a 21st
// without using it). The last one also serves all larger batches.
func classes(capacity int) int { return max(1, cellNodes*capacity/classWidth-1) }

// classOf returns the class of a batch on a cell; for cells of fewer than 27 nodes, that of an equally full cell of
// 27.
func classOf(containers, nodes, capacity int) int {
	if nodes < cellNodes {
		containers = containers * cellNodes / max(nodes, 1)
	}
	return min(max(containers-1, 0)/classWidth, classes(capacity)-1)
}

// cellTree returns the tree of a sub-scheduler: three levels of three, with the app as one input and the remaining
// batch.
func cellTree(apps, capacity int) *tree {
	t := equalTree(apps, capacity, 3, 3, 3)
	t.scalar, t.rest = true, true
	return t
}

// drawBatch draws a batch of the given size; all apps are equally probable for each container.
func drawBatch(batch []int, containers int, rng *rand.Rand) {
	clear(batch)
	for range containers {
		batch[rng.IntN(len(batch))]++
	}
}

// yield returns the throughput of all containers of an episode whose leaves are nodes.
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

// roundRobinThroughput returns the throughput of a batch if container i is placed on node i mod nodes.
func roundRobinThroughput(batch []int, nodes int, table *place.Table) float64 {
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

// trainCell trains the sub-scheduler of one class as Metis does: the reward of an episode is the mean throughput
// minus that of round robin on the same batch.
func trainCell(ctx context.Context, o TrainOptions, class int, report func(LearningPoint)) ([]*policy, error) {
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
			rewards[i] = (yield(e, t, o.Table) - roundRobinThroughput(e.batch, cellNodes, o.Table)) / float64(total(e.batch))
		})
		for l, learn := range learners {
			lessons := lessonsOf(episodes, l)
			normalise(lessons, rewards)
			learn.update(lessons, float32(entropy), o.Workers)
		}
		done += len(episodes)
		// Halve the entropy weight every thousand episodes, as numbered from 0.
		if (done-1)%1000 == 0 {
			entropy = max(entropy/2, 0.002)
		}
		report(LearningPoint{Episode: done, Value: stat.Mean(rewards), Best: math.Inf(-1)})
	}
	return policies, nil
}

// lessonsOf returns the recorded steps of the policy of a level.
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
