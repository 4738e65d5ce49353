package place

import (
	"math"
	"math/rand/v2"
)

// node is a leaf if left is 0; otherwise its children are left and left+1.
type node struct {
	value   float64 // mean over the rows of a leaf
	left    int32
	feature uint8
	cut     uint16 // twice the threshold, which is half-way between two counts: left if 2 × count ≤ cut
}

// tree holds the nodes of a tree; the root is first.
type tree []node

func (t tree) at(counts []uint8) float64 {
	n := &t[0]
	for n.left != 0 {
		next := n.left
		if 2*uint16(counts[n.feature]) > n.cut {
			next++
		}
		n = &t[next]
	}
	return n.value
}

// rows holds the training rows; rows with equal counts are merged.
type rows struct {
	apps   int
	counts []uint8   // distinct rows × apps
	of     []int32   // index of the distinct row, by row
	y      []float64 // apps × rows
	values int       // exclusive upper bound of the counts
}

func newRows(s *Samples, use []int) *rows {
	r := &rows{apps: len(s.Apps), y: make([]float64, len(s.Apps)*len(use))}
	seen := map[string]int32{}
	for i, at := range use {
		c := s.Counts[at]
		k, ok := seen[string(c)]
		if !ok {
			k = int32(len(seen))
			seen[string(c)] = k
			r.counts = append(r.counts, c...)
			for _, v := range c {
				r.values = max(r.values, int(v)+1)
			}
		}
		r.of = append(r.of, k)
		for a, y := range s.RPS[at] {
			r.y[a*len(use)+i] = known(y)
		}
	}
	return r
}

// sums holds the number of rows, the sum of their values and the sum of the squares.
type sums struct{ n, y, yy float64 }

func (s *sums) add(o sums) { s.n, s.y, s.yy = s.n+o.n, s.y+o.y, s.yy+o.yy }

// grower grows trees one after another and reuses its memory.
type grower struct {
	rows  *rows
	o     ForestOptions
	drawn []sums    // by distinct row
	at    []int32   // distinct rows drawn; those of a node are contiguous
	spare []int32   // right part of a node during partitioning
	bins  []sums    // apps × values
	order []int     // apps in the order of evaluation
	todo  []subtree // nodes to be split
}

// subtree is a node with its rows at[first:last] and its depth.
type subtree struct{ node, first, last, depth int }

func newGrower(r *rows, o ForestOptions) *grower {
	g := &grower{rows: r, o: o, bins: make([]sums, r.apps*r.values), order: make([]int, r.apps)}
	g.drawn = make([]sums, len(r.counts)/r.apps)
	return g
}

// grow grows one tree for an app on rows drawn with replacement.
func (g *grower) grow(app int, rng *rand.Rand) tree {
	n := len(g.rows.of)
	clear(g.drawn)
	for range n {
		i := rng.IntN(n)
		y := g.rows.y[app*n+i]
		g.drawn[g.rows.of[i]].add(sums{1, y, y * y})
	}
	return g.fit(rng)
}

// fit grows the tree of the drawn rows.
func (g *grower) fit(rng *rand.Rand) tree {
	for i := range g.order {
		g.order[i] = i
	}
	g.at = g.at[:0]
	for i, d := range g.drawn {
		if d.n > 0 {
			g.at = append(g.at, int32(i))
		}
	}
	t := tree{{}}
	g.todo = append(g.todo[:0], subtree{0, 0, len(g.at), 0})
	for len(g.todo) > 0 {
		s := g.todo[len(g.todo)-1]
		g.todo = g.todo[:len(g.todo)-1]
		t = g.split(t, s, rng)
	}
	return t
}

// split makes a node a leaf or appends its children.
func (g *grower) split(t tree, s subtree, rng *rand.Rand) tree {
	feature, cut, total := g.best(s, rng)
	if feature < 0 {
		t[s.node].value = total.y / total.n
		return t
	}
	left := g.part(s, feature, cut)
	t[s.node].feature, t[s.node].cut, t[s.node].left = uint8(feature), cut, int32(len(t))
	g.todo = append(g.todo, subtree{len(t), s.first, left, s.depth + 1}, subtree{len(t) + 1, left, s.last, s.depth + 1})
	return append(t, node{}, node{})
}

// best returns the app and cut of least remaining variance, with app −1 for a leaf, and the sums of the node's rows.
// Of equal cuts, the first in a random order of apps is used.
func (g *grower) best(s subtree, rng *rand.Rand) (feature int, cut uint16, total sums) {
	values := g.rows.values
	for _, i := range g.at[s.first:s.last] {
		total.add(g.drawn[i])
	}
	mean := total.y / total.n
	if s.depth >= g.o.Depth || total.n < float64(2*g.o.Leaf) || total.yy/total.n-mean*mean <= 0x1p-52 {
		return -1, 0, total
	}
	clear(g.bins)
	for _, i := range g.at[s.first:s.last] {
		d := g.drawn[i]
		for f, v := range g.rows.counts[int(i)*g.rows.apps : (int(i)+1)*g.rows.apps] {
			g.bins[f*values+int(v)].add(d)
		}
	}
	feature = -1
	most, leaf := math.Inf(-1), float64(g.o.Leaf)
	rng.Shuffle(len(g.order), func(i, j int) { g.order[i], g.order[j] = g.order[j], g.order[i] })
	for _, f := range g.order {
		var left sums
		last := 0
		for v, b := range g.bins[f*values : (f+1)*values] {
			if b.n == 0 {
				continue
			}
			if right := total.n - left.n; left.n >= leaf && right >= leaf {
				y := total.y - left.y
				// Minimising the remaining variance is maximising the sum of squared sums by counts of both sides.
				if gain := left.y*left.y/left.n + y*y/right; gain > most {
					most, feature, cut = gain, f, uint16(last+v)
				}
			}
			left.add(b)
			last = v
		}
	}
	return feature, cut, total
}

// part partitions the rows of a node and returns the index of the first row of the right part.
func (g *grower) part(s subtree, feature int, cut uint16) int {
	g.spare = g.spare[:0]
	left := s.first
	for _, i := range g.at[s.first:s.last] {
		if 2*uint16(g.rows.counts[int(i)*g.rows.apps+feature]) <= cut {
			g.at[left] = i
			left++
		} else {
			g.spare = append(g.spare, i)
		}
	}
	copy(g.at[left:s.last], g.spare)
	return left
}
