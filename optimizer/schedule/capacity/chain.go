package capacity

// Capacity is lost, and returns, the less likely the longer it has lasted: on the 13 published traces of one node (Wu et
// al., NSDI 2024) 1.3 times an hour in the first half hour, and once in 16 hours after eight. The chain therefore
// distinguishes the age of a period with or without capacity, in classes.

const (
	downCapacities = 3
	upCapacities   = 4
	capacities     = downCapacities + upCapacities
)

// Lower bounds of the classes of age in hours, and changes per hour within them, of all time in these traces (AWS, October
// 2022 and February 2023). They serve as a prior.
var (
	downAges = [downCapacities]struct{ fromH, perHour float64 }{{0, 1.84}, {0.5, 0.61}, {2, 0.18}}
	upAges   = [upCapacities]struct{ fromH, perHour float64 }{{0, 1.33}, {0.5, 0.47}, {2, 0.18}, {8, 0.061}}
)

// priorChanges is the number of changes that the prior weighs.
const priorChanges = 1.0

// chain is a Markov chain of capacity for one step of time. Rows are the class of capacity at its beginning.
type chain struct {
	wait [capacities][capacities]float64 // of the market: its zone that has had capacity for longest
	keep [capacities][capacities]float64 // of a zone with capacity, as far as it keeps it
	lose [capacities][capacities]float64 // of the market, if a zone with capacity loses it
}

// upCapacity returns the class of a period with capacity of a number of ticks.
func upCapacity(ticks int, tickS float64) int {
	c := 0
	for c+1 < upCapacities && float64(ticks)*tickS >= upAges[c+1].fromH*3600 {
		c++
	}
	return downCapacities + c
}

// downCapacity returns the class of a period without capacity.
func downCapacity(ticks int, tickS float64) int {
	c := 0
	for c+1 < downCapacities && float64(ticks)*tickS >= downAges[c+1].fromH*3600 {
		c++
	}
	return c
}

// age returns the length in ticks of the last period of a zone, less one.
func age(seen []bool) int {
	last := len(seen) - 1
	k := last
	for k > 0 && seen[k-1] == seen[last] {
		k--
	}
	return last - k
}

// capacity returns the class of the market's capacity, and the zone that has had it for longest.
func (s State) capacity() (zone, class int) {
	up, down := -1, len(s.Seen[0])
	for z, seen := range s.Seen {
		a := age(seen)
		switch {
		case !s.Up[z]:
			down = min(down, a)
		case a > up:
			up, zone = a, z
		}
	}
	if up >= 0 {
		return zone, upCapacity(up, s.TickS)
	}
	return 0, downCapacity(down, s.TickS)
}

// estimate returns the chain of one tick: the changes seen in all zones, with the prior.
func (s State) estimate() chain {
	c := priorChain(s.TickS / 3600)
	ages := make([]int, len(s.Seen))
	market := func(k int) int { // the class at tick k, from ages
		up, down := -1, k
		for z := range s.Seen {
			if s.Seen[z][k] {
				up = max(up, ages[z])
			} else {
				down = min(down, ages[z])
			}
		}
		if up >= 0 {
			return upCapacity(up, s.TickS)
		}
		return downCapacity(down, s.TickS)
	}
	before := market(0)
	own := make([]int, len(s.Seen)) // class of each zone with capacity at the tick before
	for k := 1; k < len(s.Seen[0]); k++ {
		for z, seen := range s.Seen {
			own[z] = upCapacity(ages[z], s.TickS)
			if ages[z]++; seen[k] != seen[k-1] {
				ages[z] = 0
			}
		}
		now := market(k)
		c.wait[before][now]++
		for z, seen := range s.Seen {
			switch {
			case seen[k-1] && seen[k]:
				c.keep[own[z]][upCapacity(ages[z], s.TickS)]++
			case seen[k-1]:
				c.lose[own[z]][now]++
			}
		}
		before = now
	}
	for from := range capacities {
		normalize(&c.wait[from])
		if from >= downCapacities {
			normalize(&c.keep[from], &c.lose[from])
		}
	}
	return c
}

// priorChain returns the prior, in numbers of ticks.
func priorChain(tickH float64) chain {
	var c chain
	fill := func(from int, perHour, widthH float64, to int, rows ...*[capacities]float64) {
		n := priorChanges / (perHour * tickH)
		change := min(1, perHour*tickH)
		up := 0.0 // to the next class of age
		if widthH > 0 {
			up = min(1-change, tickH/widthH)
			rows[0][from+1] += n * up
		}
		rows[0][from] += n * (1 - change - up)
		rows[len(rows)-1][to] += n * change
	}
	for i, a := range downAges {
		width := 0.0
		if i+1 < downCapacities {
			width = downAges[i+1].fromH - a.fromH
		}
		fill(i, a.perHour, width, downCapacities, &c.wait[i])
	}
	for i, a := range upAges {
		from, width := downCapacities+i, 0.0
		if i+1 < upCapacities {
			width = upAges[i+1].fromH - a.fromH
		}
		fill(from, a.perHour, width, 0, &c.wait[from])
		fill(from, a.perHour, width, 0, &c.keep[from], &c.lose[from])
	}
	return c
}

// normalize divides rows by their common sum.
func normalize(rows ...*[capacities]float64) {
	sum := 0.0
	for _, row := range rows {
		for _, v := range row {
			sum += v
		}
	}
	for _, row := range rows {
		for i := range row {
			row[i] /= sum
		}
	}
}

// over returns the chain of n ≥ 1 ticks. A zone that was lost within them is followed as the market.
func (c chain) over(n int) chain {
	out := c
	for range n - 1 {
		var next chain
		for from := range capacities {
			for via := range capacities {
				for to := range capacities {
					next.wait[from][to] += out.wait[from][via] * c.wait[via][to]
					next.keep[from][to] += out.keep[from][via] * c.keep[via][to]
					next.lose[from][to] += out.keep[from][via]*c.lose[via][to] + out.lose[from][via]*c.wait[via][to]
				}
			}
		}
		out = next
	}
	return out
}
