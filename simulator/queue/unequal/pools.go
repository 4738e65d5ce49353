package unequal

import (
	"cmp"
	"slices"

	"trainopt/simulator/platform"
)

// bySpeed returns one pool per speed, the fastest first, followed by the whole machine.
func bySpeed(tree *platform.Tree) []Pool {
	var speeds []float64
	for _, p := range tree.Processors {
		if !slices.Contains(speeds, p.GFLOPS) {
			speeds = append(speeds, p.GFLOPS)
		}
	}
	slices.SortFunc(speeds, func(a, b float64) int { return cmp.Compare(b, a) })
	var pools []Pool
	for _, v := range speeds {
		pools = append(pools, newPool(tree, func(p *platform.Processor) bool { return p.GFLOPS == v }))
	}
	return distinct(append(pools, newPool(tree, everyProcessor)))
}

// upTo returns, for each value of a key in ascending order, the pool of all processors up to that value; the last is
// the whole machine.
func upTo(tree *platform.Tree, key func(*platform.Processor) float64) []Pool {
	var values []float64
	for i := range tree.Processors {
		if v := key(&tree.Processors[i]); !slices.Contains(values, v) {
			values = append(values, v)
		}
	}
	slices.Sort(values)
	var pools []Pool
	for _, v := range values {
		pools = append(pools, newPool(tree, func(p *platform.Processor) bool { return key(p) <= v }))
	}
	return distinct(pools)
}

func slowness(p *platform.Processor) float64 { return -p.GFLOPS }

// distinct removes empty pools and duplicates.
func distinct(pools []Pool) []Pool {
	var out []Pool
	for _, k := range pools {
		if k.Cores > 0 && !slices.ContainsFunc(out, func(o Pool) bool { return slices.Equal(o.list, k.list) }) {
			out = append(out, k)
		}
	}
	return out
}
