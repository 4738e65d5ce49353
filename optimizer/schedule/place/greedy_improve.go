package place

import (
	"context"
	"math"
)

// division is a distribution of containers over two nodes.
type division struct {
	a, b   int32 // patterns
	excess float64
	value  float64
}

// pairing searches for the best division of the containers of two nodes.
type pairing struct {
	c         *cluster
	x, y      *class
	sum       []uint8 // containers of both nodes
	least     []uint8 // minimum on the first node
	most      []uint8 // maximum on the first node
	counts    []uint8
	rest      []uint8
	change    []float64
	now       []float64 // current use of the limits by both nodes
	best      division
	room      int // capacity of the first node
	restRoom  int // capacity of the second node
	remaining []int
}

func newPairing(c *cluster) *pairing {
	n := c.apps
	return &pairing{
		c: c, sum: make([]uint8, n), least: make([]uint8, n), most: make([]uint8, n), counts: make([]uint8, n), rest: make([]uint8, n),
		change: make([]float64, len(c.rows)), now: make([]float64, len(c.rows)), remaining: make([]int, n+1),
	}
}

// divide returns the best division of the containers of two nodes of classes x and y with patterns a and b.
func (d *pairing) divide(x, y *class, a, b int32, excess float64) division {
	d.x, d.y = x, y
	d.best = division{a: a, b: b, excess: excess, value: x.value[a] + y.value[b]}
	ca, cb := x.table.Counts(int(a)), y.table.Counts(int(b))
	stayA, stayB := x.table.Counts(x.floor), y.table.Counts(y.floor)
	total := 0
	for i := range d.sum {
		d.sum[i] = ca[i] + cb[i]
		d.least[i], d.most[i] = stayA[i], d.sum[i]-stayB[i]
		total += int(d.sum[i])
	}
	for i := range d.now {
		d.now[i] = d.c.rows[i].Uses[x.kind][a] + d.c.rows[i].Uses[y.kind][b]
	}
	d.room, d.restRoom = x.table.Capacity(), y.table.Capacity()
	d.remaining[d.c.apps] = 0
	for i := d.c.apps - 1; i >= 0; i-- {
		d.remaining[i] = d.remaining[i+1] + int(d.sum[i])
	}
	d.walk(0, 0, 0)
	return d.best
}

// walk enumerates the numbers of an app on the first node, recursively for the following apps.
func (d *pairing) walk(app, size, restSize int) {
	if app == len(d.sum) {
		d.try()
		return
	}
	for k := int(d.least[app]); k <= int(d.most[app]); k++ {
		here, there := size+k, restSize+int(d.sum[app])-k
		if here > d.room {
			return
		}
		if there > d.restRoom {
			continue
		}
		d.counts[app], d.rest[app] = uint8(k), d.sum[app]-uint8(k)
		d.walk(app+1, here, there)
	}
}

// try evaluates the current division and keeps it if it reduces the excess or, at equal excess, increases the value
// by more than rounding.
func (d *pairing) try() {
	a, b := d.x.table.Index(d.counts), d.y.table.Index(d.rest)
	value := d.x.value[a] + d.y.value[b]
	if len(d.now) == 0 {
		if value > d.best.value+1e-12*math.Abs(value) {
			d.best = division{a: int32(a), b: int32(b), value: value}
		}
		return
	}
	for i := range d.change {
		d.change[i] = d.c.rows[i].Uses[d.x.kind][a] + d.c.rows[i].Uses[d.y.kind][b] - d.now[i]
	}
	excess := d.c.excess(d.change)
	if excess < d.best.excess-1e-12 || excess <= d.best.excess && value > d.best.value+1e-12*math.Abs(value) {
		d.best = division{a: int32(a), b: int32(b), excess: excess, value: value}
	}
}

// improve redistributes the containers of pairs of nodes until no pair improves. Pairs of states without improvement
// are not evaluated again; with limits, every change invalidates these results.
func (c *cluster) improve(ctx context.Context) error {
	d := newPairing(c)
	type pair struct{ x, y, a, b int32 }
	vain := map[pair]bool{}
	none := make([]float64, len(c.rows))
	for again := true; again; {
		again = false
		for x := range c.classes {
			for y := x; y < len(c.classes); y++ {
				if err := ctx.Err(); err != nil {
					return err
				}
				for i := 0; i < len(c.classes[x].states); i++ {
					for j := 0; j < len(c.classes[y].states); j++ {
						cx, cy := &c.classes[x], &c.classes[y]
						if i >= len(cx.states) {
							break
						}
						a, b := cx.states[i].pattern, cy.states[j].pattern
						if x == y && (a > b || a == b && len(cx.states[i].nodes) < 2) {
							continue
						}
						key := pair{int32(x), int32(y), a, b}
						if vain[key] {
							continue
						}
						found := d.divide(cx, cy, a, b, c.excess(none))
						if found.a == a && found.b == b {
							vain[key] = true
							continue
						}
						first, second := cx.states[i].nodes[0], cy.states[j].nodes[len(cy.states[j].nodes)-1]
						c.put(first, found.a)
						c.put(second, found.b)
						if len(c.rows) > 0 {
							clear(vain)
						}
						again = true
					}
				}
			}
		}
	}
	return nil
}
