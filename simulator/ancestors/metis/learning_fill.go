package metis

import (
	"slices"

	"trainopt/optimizer/schedule/place"
)

// cell is a group of nodes with its batch.
type cell struct {
	nodes   int
	batch   []int
	pattern []int // by node, set by fill
}

// fill places the batches of cells greedily by the sub-schedulers. The scorer places all cells together; the original
// policies place them by class and number of nodes, in parallel. A batch must not exceed the capacity of its cell.
func (m *model) fill(cells []*cell, table *place.Table, workers int) {
	if m.scorer != nil {
		boards := make([]*board, len(cells))
		for i, c := range cells {
			boards[i] = &board{}
			boards[i].begin(table, c.nodes, c.batch, nil)
		}
		(&scorer{net: m.scorer}).play(boards, true, workers)
		for i, c := range cells {
			c.pattern = boards[i].pattern
		}
		return
	}
	type kind struct{ class, nodes int }
	of := map[kind][]*cell{}
	var order []kind
	for _, c := range cells {
		k := kind{m.nearest(classOf(total(c.batch), c.nodes, m.capacity)), c.nodes}
		if of[k] == nil {
			order = append(order, k)
		}
		of[k] = append(of[k], c)
	}
	parallel(len(order), workers, func(i int) {
		k := order[i]
		t := cellTree(len(m.apps), m.capacity)
		for n := k.nodes; n < len(t.capacity); n++ {
			t.capacity[n] = 0
		}
		episodes := make([]*episode, len(of[k]))
		for j, c := range of[k] {
			episodes[j] = &episode{}
			episodes[j].begin(t, c.batch, nil)
		}
		(&rollout{tree: t, policies: m.cells[k.class], greedy: true}).run(episodes)
		for j, c := range of[k] {
			c.pattern = patternsOf(episodes[j], t, table)[:c.nodes]
		}
	})
}

// nearest returns the trained class nearest to a class.
func (m *model) nearest(class int) int {
	best := -1
	for c := range m.cells {
		near, nearest := abs(c-class), abs(best-class)
		if best < 0 || near < nearest || near == nearest && c < best {
			best = c
		}
	}
	return best
}

func abs(x int) int { return max(x, -x) }

// patternsOf returns the pattern indices of the leaves of an episode.
func patternsOf(e *episode, t *tree, table *place.Table) []int {
	out := make([]int, t.leaves())
	counts := make([]uint8, t.apps)
	for i := range out {
		for a := range counts {
			counts[a] = uint8(e.counts[i*t.apps+a])
		}
		out[i] = table.Index(counts)
	}
	return out
}

// spreadPick returns the leaf that Metis's demonstrations choose: among the leaves with the fewest containers, those
// with the fewest of the app, and of these a random one. Leaves that cannot take the container are excluded.
func spreadPick(e *episode, t *tree) int {
	var list []int
	var least [2]int
	for i := range t.leaves() {
		if e.bad(t, i) {
			continue
		}
		at := [2]int{int(e.size[i]), int(e.counts[i*t.apps+e.app])}
		c := slices.Compare(at[:], least[:])
		if list == nil || c < 0 {
			list, least = list[:0], at
		} else if c > 0 {
			continue
		}
		list = append(list, i)
	}
	return list[e.rng.IntN(len(list))]
}

// demonstrate returns the chooser of demonstrations: at each level, the branch that leads to the leaf of spreadPick.
func demonstrate(t *tree) chooser {
	return func(e *episode, level int) int {
		if level == 0 {
			e.pick = spreadPick(e, t)
		}
		below := 1
		for _, k := range t.fan[level+1:] {
			below *= k
		}
		return e.pick / below % t.fan[level]
	}
}
