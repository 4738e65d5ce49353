package solve

// embeddedBlocks solves the Newton system of three kinds without pairs, group by group, as triple does.
type embeddedBlocks struct {
	*embedding
	cells  []cell
	schur  [16]float64
	pivots [4]int
	v      []float64
	over   []float64 // 1 / v
}

func newEmbeddedBlocks(e *embedding) *embeddedBlocks {
	b := &embeddedBlocks{embedding: e, cells: make([]cell, len(e.groups)), over: make([]float64, e.lines())}
	for g := range b.cells {
		c := &b.cells[g]
		c.count = e.groups[g]
		if e.rising {
			c.level = 1
		}
		for k := range 3 {
			column := &e.columns[3*g+k]
			c.rate[k], c.use[k], c.taken[k] = column.rateA, column.use, column.use*c.count
		}
	}
	return b
}

func (b *embeddedBlocks) factorise(v []float64) bool {
	b.v = v
	for i, v := range v {
		b.over[i] = 1 / v
	}
	b.schur = [16]float64{}
	for g := range b.cells {
		c := &b.cells[g]
		c.invert(v[3*g], v[3*g+1], v[3*g+2], v[b.timeLine(g)], v[b.progressLine(g)])
		c.couple(&b.schur)
	}
	for j := range 3 {
		b.schur[5*j] += v[b.kindLine(j)]
	}
	if !b.rising {
		b.schur[15] = 1
	}
	return decompose(b.schur[:], b.pivots[:])
}

func (b *embeddedBlocks) solve(right []float64, rightT float64, d []float64, out *step) {
	var rows [4]float64
	for j := range 3 {
		rows[j] = -d[b.kindLine(j)]
	}
	rows[3] = -rightT
	for g := range b.cells {
		c := &b.cells[g]
		i := 3 * g
		wish := [3]float64{right[i] - d[i]*b.over[i], right[i+1] - d[i+1]*b.over[i+1], right[i+2] - d[i+2]*b.over[i+2]}
		c.ask(wish, -d[b.timeLine(g)], -d[b.progressLine(g)])
		for k := range 3 {
			rows[k] += c.taken[k] * c.dx[k]
		}
		rows[3] += c.count * c.level * c.dz[4]
	}
	substitute(b.schur[:], b.pivots[:], rows[:])
	out.t = rows[3]
	left := [3]float64{}
	for g := range b.cells {
		c := &b.cells[g]
		dx, du, dv := c.answer(&rows)
		b.finish(g, dx, du, dv, rows, right, d, out)
		for k := range 3 {
			left[k] += c.taken[k] * dx[k]
		}
	}
	for j := range 3 {
		i := b.kindLine(j)
		out.z[i] = b.price(i, rows[j], left[j]-d[i])
	}
}

// price takes the price of a line from its row where s is large against z, so that s is accurate, and otherwise as eliminated.
func (b *embeddedBlocks) price(i int, eliminated, row float64) float64 {
	if b.v[i] > 1 {
		return row * b.over[i]
	}
	return eliminated
}

// finish writes the step of a group.
func (b *embeddedBlocks) finish(g int, dx [3]float64, du, dv float64, rows [4]float64, right, d []float64, out *step) {
	c := &b.cells[g]
	i, time, progress := 3*g, b.timeLine(g), b.progressLine(g)
	du = b.price(time, du, dx[0]+dx[1]+dx[2]-d[time])
	dv = b.price(progress, dv, c.level*rows[3]-c.rate[0]*dx[0]-c.rate[1]*dx[1]-c.rate[2]*dx[2]-d[progress])
	out.z[time], out.z[progress] = du, dv
	for k, x := range dx {
		out.x[i+k] = x
		out.z[i+k] = b.price(i+k, du-c.rate[k]*dv+c.use[k]*rows[k]-right[i+k], -x-d[i+k])
	}
}
