package metis

import (
	"math/rand/v2"
)

// tree leads from a cluster to its leaves, nodes or groups of nodes, by one choice among few at each level.
type tree struct {
	fan      []int // number of choices by level; their product is the number of leaves
	apps     int
	capacity []uint16 // capacity in containers by leaf; 0 for padding
	start    []uint16 // initial containers, leaves × apps; nil means none
	// scalar encodes the app as one input instead of one-hot; rest adds the remaining batch to the inputs.
	scalar, rest bool
	// limits, if not nil, bound the containers of an app on a leaf, leaves × apps.
	limits []uint16
}

func (t *tree) leaves() int { return len(t.capacity) }

// inputs returns the number of inputs of the network of a level.
func (t *tree) inputs(level int) int {
	n := t.fan[level]*t.apps + 1
	if !t.scalar {
		n += t.apps - 1
	}
	if t.rest {
		n += t.apps
	}
	return n
}

// newPolicies returns a policy for each level.
func (t *tree) newPolicies(rng *rand.Rand) []*policy {
	p := make([]*policy, len(t.fan))
	for l := range p {
		p[l] = newPolicy(t.inputs(l), t.fan[l], hiddenUnits, rng)
	}
	return p
}

// equalTree returns a tree whose leaves have equal capacity.
func equalTree(apps, capacity int, fan ...int) *tree {
	n := 1
	for _, k := range fan {
		n *= k
	}
	t := &tree{fan: fan, apps: apps, capacity: make([]uint16, n)}
	for i := range t.capacity {
		t.capacity[i] = uint16(capacity)
	}
	return t
}

// episode is the placement of one batch.
type episode struct {
	rng    *rand.Rand
	batch  []int
	counts []uint16 // leaves × apps
	size   []uint16
	sums   [][]uint16 // by level: groups × apps, the leaves last
	source []int32    // by leaf: the leaf that it represents, itself or, if it cannot take a container, another one
	full   int
	rest   []int
	app    int
	block  int
	pick   int      // scratch of a chooser
	stuck  bool     // a container could not be placed
	steps  []lesson // by level, if recorded
}

// begin initialises an episode for a batch and reuses its memory.
func (e *episode) begin(t *tree, batch []int, rng *rand.Rand) {
	n := t.leaves()
	if e.counts == nil {
		e.counts, e.size, e.source = make([]uint16, n*t.apps), make([]uint16, n), make([]int32, n)
		groups := 1
		for _, k := range t.fan {
			groups *= k
			e.sums = append(e.sums, make([]uint16, groups*t.apps))
		}
		e.steps = make([]lesson, len(t.fan))
		e.rest = make([]int, t.apps)
	}
	e.rng, e.batch, e.app = rng, batch, 0
	copy(e.rest, batch)
	clear(e.counts)
	if t.start != nil {
		copy(e.counts, t.start)
	}
	for i := range n {
		e.size[i] = 0
		for _, k := range e.counts[i*t.apps : (i+1)*t.apps] {
			e.size[i] += k
		}
	}
	for l := range e.steps {
		e.steps[l].x, e.steps[l].action = e.steps[l].x[:0], e.steps[l].action[:0]
	}
	e.block, e.stuck = 0, false
	e.next()
	e.full = 0
	for i, s := range e.size {
		e.source[i] = int32(i)
		if s >= t.capacity[i] {
			e.full++
		}
	}
	e.view(t)
}

// next advances to the app of the next container; it returns false if all are placed.
func (e *episode) next() bool {
	for e.app < len(e.rest) && e.rest[e.app] == 0 {
		e.app++
	}
	return e.app < len(e.rest)
}

// bad reports whether a leaf cannot take the next container.
func (e *episode) bad(t *tree, leaf int) bool {
	return e.size[leaf] >= t.capacity[leaf] || t.limits != nil && e.app < t.apps && e.counts[leaf*t.apps+e.app] >= t.limits[leaf*t.apps+e.app]
}

// view updates the counts shown by each leaf and the sums of the groups above. Leaves that cannot take the container
// show, in turn, the counts of leaves that can.
func (e *episode) view(t *tree) {
	n, apps := t.leaves(), t.apps
	if e.full > 0 || t.limits != nil {
		good := make([]int32, 0, 128)
		for i := range n {
			if e.source[i] = int32(i); !e.bad(t, i) {
				good = append(good, int32(i))
			}
		}
		e.stuck = e.stuck || len(good) == 0 && !e.done()
		if k := 0; len(good) > 0 && len(good) < n {
			for i := range n {
				if e.bad(t, i) {
					e.source[i] = good[k%len(good)]
					k++
				}
			}
		}
	}
	last := len(e.sums) - 1
	for i, s := range e.source {
		copy(e.sums[last][i*apps:(i+1)*apps], e.counts[int(s)*apps:])
	}
	for l := last - 1; l >= 0; l-- {
		above, below, fan := e.sums[l], e.sums[l+1], t.fan[l+1]
		clear(above)
		for g := range len(below) / apps {
			to := above[g/fan*apps:][:apps]
			for a, k := range below[g*apps : (g+1)*apps] {
				to[a] += k
			}
		}
	}
}

// observe appends the inputs of the network of a level to x: the counts of the branches, with the next container
// added to each, the app (as one input or one-hot), and optionally the remaining batch without the container.
func (e *episode) observe(t *tree, level int, x []float32) []float32 {
	fan := t.fan[level]
	shown := e.sums[level][e.block*fan*t.apps : (e.block+1)*fan*t.apps]
	at := len(x)
	for _, k := range shown {
		x = append(x, float32(k))
	}
	for i := range fan {
		x[at+i*t.apps+e.app]++
	}
	if t.scalar {
		x = append(x, float32(e.app))
	} else {
		at = len(x)
		for range t.apps {
			x = append(x, 0)
		}
		x[at+e.app] = 1
	}
	if t.rest {
		at = len(x)
		for _, k := range e.rest {
			x = append(x, float32(k))
		}
		x[at+e.app]--
	}
	return x
}

// place puts the container on the chosen leaf, or on the leaf that it represents.
func (e *episode) place(t *tree, leaf int) {
	leaf = int(e.source[leaf])
	e.counts[leaf*t.apps+e.app]++
	if e.size[leaf]++; e.size[leaf] == t.capacity[leaf] {
		e.full++
	}
	e.rest[e.app]--
	e.block = 0
	if t.limits == nil && e.full == 0 {
		e.grow(t, leaf)
		return
	}
	if e.next() {
		e.view(t)
	}
}

// grow updates the sums incrementally, while no leaf is full.
func (e *episode) grow(t *tree, leaf int) {
	for l := len(e.sums) - 1; l >= 0; l-- {
		e.sums[l][leaf*t.apps+e.app]++
		leaf /= t.fan[l]
	}
	e.next()
}

// done reports whether all containers are placed.
func (e *episode) done() bool { return e.app >= len(e.rest) }

// chooser replaces the decisions of the policies in a rollout; it returns −1 to leave a decision to the policy.
type chooser func(e *episode, level int) int

// rollout places the batches of episodes by one policy per level, sampled or greedy, and optionally records the
// steps. The episodes of a chunk advance in lockstep, so that networks are evaluated for many at a time. O(containers
// × levels × parameters).
type rollout struct {
	tree     *tree
	policies []*policy
	greedy   bool
	record   bool
	choose   chooser
	workers  int
}

// chunkEpisodes is the number of episodes that advance in lockstep.
const chunkEpisodes = 16

func (r *rollout) run(episodes []*episode) {
	chunks := (len(episodes) + chunkEpisodes - 1) / chunkEpisodes
	parallel(chunks, r.workers, func(i int) {
		r.chunk(episodes[i*chunkEpisodes : min((i+1)*chunkEpisodes, len(episodes))])
	})
}

// chunk plays the episodes: in each round, every active episode descends the tree and places one container.
func (r *rollout) chunk(episodes []*episode) {
	t := r.tree
	var think inferenceBuffers
	var x []float32
	active := make([]*episode, 0, len(episodes))
	for _, e := range episodes {
		if !e.done() {
			active = append(active, e)
		}
	}
	for len(active) > 0 {
		for l := range t.fan {
			in, k := t.inputs(l), t.fan[l]
			x = x[:0]
			for _, e := range active {
				x = e.observe(t, l, x)
			}
			logits := think.ask(r.policies[l], x, len(active))
			for i, e := range active {
				a := -1
				if r.choose != nil {
					a = r.choose(e, l)
				}
				if z := logits[i*k : (i+1)*k]; a < 0 && r.greedy {
					a = greedy(z)
				} else if a < 0 {
					softmax(z)
					a = drawAction(z, e.rng)
				}
				if r.record {
					e.steps[l].x = append(e.steps[l].x, x[i*in:(i+1)*in]...)
					e.steps[l].action = append(e.steps[l].action, uint16(a))
				}
				e.block = e.block*k + a
			}
		}
		still := active[:0]
		for _, e := range active {
			if e.place(t, e.block); !e.done() && !e.stuck {
				still = append(still, e)
			}
		}
		active = still
	}
}
