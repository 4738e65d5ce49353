package greedy

import (
	"context"
	"math"
)

// division is a way to divide the containers of two nodes.
type division struct {
	a, b   int32 // patterns
	excess float64
	value  float64
}

// pairing finds the best division of two nodes' containers.
type pairing struct {
	c         *cluster
	x, y      *class
	sum       []uint8 // containers of both
	least     []uint8 // that stay on the first
	most      []uint8 // that may be on the first
	counts    []uint8
	rest      []uint8
	change    []float64
	now       []float64 // what both use of limits
	best      division
	room      int // on the first
	restRoom  int // on the second
	remaining []int
}

func newPairing(c *cluster) *pairing {
	n := c.apps
	return &pairing{
		c: c, sum: make([]uint8, n), least: make([]uint8, n), most: make([]uint8, n), counts: make([]uint8, n), rest: make([]uint8, n),
		change: make([]float64, len(c.rows)), now: make([]float64, len(c.rows)), remaining: make([]int, n+1),
	}
}

// divide finds the best division of the containers of two nodes.
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

// walk tries all numbers of an app on the first node, and of the apps after it.
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

// improve divides anew the containers of two nodes as long as that helps. States that were looked at in vain are not looked at again.
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
