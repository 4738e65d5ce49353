package queue

import (
	"cmp"
	"math"
	"slices"

	"trainopt/simulator/platform"
)

// pool is a set of processors. A job takes all its cores from one pool.
type pool struct {
	Speed float64 // speed of its slowest core, GFLOPS
	Watts float64 // mean active power of a core, W
	Cores int
	least float64 // lowest active power of a core, W
	of    []bool  // membership by processor
	list  []int32 // its processors
}

// newPool returns the pool of the processors for which has returns true.
func newPool(tree *platform.Tree, has func(*platform.Processor) bool) pool {
	k := pool{Speed: math.Inf(1), least: math.Inf(1), of: make([]bool, len(tree.Processors))}
	for i := range tree.Processors {
		p := &tree.Processors[i]
		if p.Cores == 0 || !has(p) {
			continue
		}
		k.of[i] = true
		k.list = append(k.list, int32(i))
		k.Cores += p.Cores
		k.Watts += p.Watts * float64(p.Cores)
		k.Speed, k.least = min(k.Speed, p.GFLOPS), min(k.least, p.Watts)
	}
	k.Watts /= float64(k.Cores)
	return k
}

// bySpeed returns one pool per speed, the fastest first, followed by the whole machine.
func bySpeed(tree *platform.Tree) []pool {
	var speeds []float64
	for _, p := range tree.Processors {
		if !slices.Contains(speeds, p.GFLOPS) {
			speeds = append(speeds, p.GFLOPS)
		}
	}
	slices.SortFunc(speeds, func(a, b float64) int { return cmp.Compare(b, a) })
	var pools []pool
	for _, v := range speeds {
		pools = append(pools, newPool(tree, func(p *platform.Processor) bool { return p.GFLOPS == v }))
	}
	return distinct(append(pools, newPool(tree, everyProcessor)))
}

// cumulativePools returns, for each value of a key in ascending order, the pool of all processors up to that value; the last is
// the whole machine.
func cumulativePools(tree *platform.Tree, key func(*platform.Processor) float64) []pool {
	var values []float64
	for i := range tree.Processors {
		if v := key(&tree.Processors[i]); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	var pools []pool
	for _, v := range values {
		pools = append(pools, newPool(tree, func(p *platform.Processor) bool { return key(p) <= v }))
	}
	return distinct(pools)
}

func slowness(p *platform.Processor) float64 { return -p.GFLOPS }

// distinct removes empty pools and duplicates.
func distinct(pools []pool) []pool {
	var out []pool
	for _, k := range pools {
		if k.Cores > 0 && !slices.ContainsFunc(out, func(o pool) bool { return slices.Equal(o.list, k.list) }) {
			out = append(out, k)
		}
	}
	return out
}
