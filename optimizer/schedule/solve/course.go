package solve

import (
	"cmp"
	"math"
	"slices"
)

// course is how the levels of an entity rise when nothing but the limits of its jobs stops them. Time t runs for all entities
// together; inside an entity the jobs that can rise divide its weight.
type course struct {
	weight float64
	fifo   bool
	riders []rider // fifo: in order; else by the time at which they reach their limits
}

type rider struct {
	job  int
	rate float64 // fifo: per weight · t; else per unit of the entity's own time
	from float64 // fifo: begins at this weight · t
	end  float64 // reaches its limit at this weight · t
	own  float64 // not fifo: the same in the entity's own time
}

// plan begins the courses anew from the present levels.
func (f *filling) plan() {
	f.courses = f.courses[:0]
	if f.entities == nil {
		for i := range f.full {
			f.addCourse(Entity{Weight: 1, Jobs: []int{i}})
		}
		return
	}
	for _, e := range f.entities {
		f.addCourse(e)
	}
}

func (f *filling) addCourse(e Entity) {
	if e.Weight == 0 {
		return
	}
	c := course{weight: e.Weight, fifo: e.FIFO}
	parts := 0.0
	for k, i := range e.Jobs {
		part := 1.0
		if e.Part != nil && !e.FIFO {
			part = e.Part[k]
		}
		if f.full[i] || part == 0 {
			continue
		}
		r := rider{job: i, rate: part / f.weightOf(i)}
		r.own = max(0, f.limit[i]-f.level[i]) / r.rate
		parts += part
		c.riders = append(c.riders, r)
	}
	if len(c.riders) == 0 {
		return
	}
	clock := 0.0
	if c.fifo {
		for k := range c.riders {
			r := &c.riders[k]
			r.from = clock
			clock += r.own
			r.end = clock
		}
	} else {
		slices.SortStableFunc(c.riders, func(a, b rider) int { return cmp.Compare(a.own, b.own) })
		before := 0.0
		for k := range c.riders {
			r := &c.riders[k]
			clock += (r.own - before) * max(parts, 0)
			before = r.own
			r.end = clock
			parts -= r.rate * f.weightOf(r.job)
		}
	}
	f.courses = append(f.courses, c)
}

// top is when the last job reaches its limit.
func (f *filling) top() float64 {
	most := 0.0
	for _, c := range f.courses {
		most = max(most, c.riders[len(c.riders)-1].end/c.weight)
	}
	return most
}

// at raises the levels to what they are at time t.
func (f *filling) at(t float64, level []float64) {
	for k := range f.courses {
		c := &f.courses[k]
		clock := t * c.weight
		own := math.Inf(1)
		if !c.fifo {
			own = c.ownTime(clock)
		}
		for _, r := range c.riders {
			switch {
			case clock >= r.end:
				level[r.job] = max(level[r.job], f.limit[r.job])
			case c.fifo:
				level[r.job] += max(0, clock-r.from) * r.rate
			default:
				level[r.job] += own * r.rate
			}
		}
	}
}

// ownTime is the time of an entity that divides its weight among the jobs that are left.
func (c *course) ownTime(clock float64) float64 {
	k, _ := slices.BinarySearchFunc(c.riders, clock, func(r rider, clock float64) int { return cmp.Compare(r.end, clock) })
	if k == len(c.riders) {
		return c.riders[k-1].own
	}
	before, own := 0.0, 0.0
	if k > 0 {
		before, own = c.riders[k-1].end, c.riders[k-1].own
	}
	if span := c.riders[k].end - before; span > 0 {
		own += (clock - before) / span * (c.riders[k].own - own)
	}
	return own
}
