package solve

import (
	"cmp"
	"math"
	"slices"
)

// course describes how the levels of an entity rise when only the limits of its jobs bind. A common time t runs for
// all entities; within an entity, the jobs that can still rise divide its weight.
type course struct {
	weight float64
	fifo   bool
	riders []rider // fifo: in order; otherwise sorted by the time at which they reach their limits
}

// rider is the course of one job.
type rider struct {
	job  int
	rate float64 // fifo: rise per weight · t; otherwise per unit of the entity's own time
	from float64 // fifo: starts at this weight · t
	end  float64 // reaches its limit at this weight · t
	own  float64 // not fifo: end in the entity's own time
}

// plan rebuilds the courses from the present levels.
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

// addCourse computes the times at which the jobs of an entity reach their limits. FIFO entities serve one job after
// another. Otherwise jobs are sorted by their own time, and the entity's clock advances in proportion to the parts of
// the jobs that have not finished.
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
		r := rider{job: i, rate: part / f.weight.of(i)}
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
			parts -= r.rate * f.weight.of(r.job)
		}
	}
	f.courses = append(f.courses, c)
}

// top returns the time at which the last job reaches its limit.
func (f *filling) top() float64 {
	most := 0.0
	for _, c := range f.courses {
		most = max(most, c.riders[len(c.riders)-1].end/c.weight)
	}
	return most
}

// at raises the given levels to those at time t.
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

// ownTime converts weight · t to the entity's own time by linear interpolation between completions.
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
