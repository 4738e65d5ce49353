package queue

import (
	"cmp"
	"math"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// profile is the free capacity over time by the expected ends and the plans: steps[i] holds from steps[i].at until
// steps[i+1].at, the last step without end.
type profile struct {
	tree  *platform.Tree
	steps []step
	low   step // scratch: the minimum over an interval
}

// step is the free capacity from a time on.
type step struct {
	at        float64
	free      []int32   // of each processor
	bandwidth []float64 // of each processor
	memory    []float64 // of each node
}

func (a *step) copyFrom(b *step) {
	a.at = b.at
	a.free = append(a.free[:0], b.free...)
	a.bandwidth = append(a.bandwidth[:0], b.bandwidth...)
	a.memory = append(a.memory[:0], b.memory...)
}

// lower replaces each value by the minimum of both steps.
func (a *step) lower(b *step) {
	for p := range a.free {
		a.free[p] = min(a.free[p], b.free[p])
		a.bandwidth[p] = min(a.bandwidth[p], b.bandwidth[p])
	}
	for n := range a.memory {
		a.memory[n] = min(a.memory[n], b.memory[n])
	}
}

// part is a number of cores of one processor.
type part struct {
	processor int32
	count     int32
}

// parts groups ascending cores by processor and appends the groups to into.
func parts(tree *platform.Tree, where []int32, into []part) []part {
	for p, count := range byProcessor(tree, where) {
		into = append(into, part{p, count})
	}
	return into
}

// reset initialises the profile with the present state of the machine and the expected ends of running jobs.
func (f *profile) reset(s *state) {
	f.tree = s.Tree
	f.truncate(1)
	first := &f.steps[0]
	first.at = s.Now
	first.free, first.bandwidth, first.memory = first.free[:0], first.bandwidth[:0], first.memory[:0]
	for p := range s.Tree.Processors {
		first.free = append(first.free, int32(s.Machine.FreeOf(int32(p))))
		first.bandwidth = append(first.bandwidth, s.Machine.Bandwidth(int32(p)))
	}
	for n := range s.Tree.Nodes {
		first.memory = append(first.memory, s.Machine.Memory(int32(n)))
	}
	var of []part
	for i := range s.running {
		r := &s.running[i]
		of = parts(s.Tree, r.cores, of[:0])
		f.add(max(r.end, s.Now), math.Inf(1), of, &s.Jobs[r.job], 1)
	}
}

// truncate sets the number of steps to n, reusing the arrays of former steps.
func (f *profile) truncate(n int) {
	for cap(f.steps) < n {
		f.steps = append(f.steps[:cap(f.steps)], step{})
	}
	f.steps = f.steps[:n]
}

// add releases (sign 1) or takes (sign −1) the parts of a job from one time until another.
func (f *profile) add(from, to float64, of []part, j *order.Job, sign float64) {
	i, k := f.split(from), len(f.steps)
	if !math.IsInf(to, 1) {
		k = f.split(to)
	}
	for ; i < k; i++ {
		s := &f.steps[i]
		for _, x := range of {
			v := sign * float64(x.count)
			s.free[x.processor] += int32(v)
			s.bandwidth[x.processor] += v * j.Bandwidth
			s.memory[f.tree.Processors[x.processor].Node] += v * j.Memory
		}
	}
}

// split returns the index of the step that begins at the given time and inserts one where necessary; 0 for times
// before the profile.
func (f *profile) split(at float64) int {
	i, found := slices.BinarySearchFunc(f.steps, at, func(s step, at float64) int { return cmp.Compare(s.at, at) })
	if found || i == 0 {
		return i
	}
	n := len(f.steps)
	f.truncate(n + 1)
	spare := f.steps[n] // reuse its arrays
	copy(f.steps[i+1:], f.steps[i:n])
	spare.copyFrom(&f.steps[i-1])
	spare.at = at
	f.steps[i] = spare
	return i
}

// slack is the tolerance for rounding errors of memory, MB.
const slack = 1e-6

// sound reports whether no processor or node is overcommitted.
func (f *profile) sound() bool {
	for i := range f.steps {
		s := &f.steps[i]
		for _, free := range s.free {
			if free < 0 {
				return false
			}
		}
		for _, m := range s.memory {
			if m < -slack {
				return false
			}
		}
	}
	return true
}

// fits reports whether the parts are free during an interval, and if so takes them.
func (f *profile) fits(from, to float64, of []part, j *order.Job) bool {
	f.add(from, to, of, j, -1)
	ok := f.sound()
	if !ok {
		f.add(from, to, of, j, 1)
	}
	return ok
}

// earliest returns the first start, not later than latest, at which a pool has room for the whole duration of a job,
// with its end and the parts to use. The duration follows from the speed of the pool; where bandwidth is
// oversubscribed it is a third longer. It returns nil parts if no such start exists. O(steps² × processors).
func (f *profile) earliest(s *state, job int32, pool *pool, latest float64, into []part) (at, end float64, of []part) {
	j := &s.Jobs[job]
	if pool.Cores < j.Procs {
		return inf, inf, nil
	}
	speed := s.rateAt(job, pool.Speed)
	for i := range f.steps {
		at := f.steps[i].at
		if at > latest {
			break
		}
		if f.room(&f.steps[i], pool, j, false, nil) < j.Procs {
			continue
		}
		// First without oversubscription; if that fails, at the reduced speed of oversubscribed processors.
		for _, safe := range [2]bool{true, false} {
			rate := speed
			if !safe && j.Ops > 0 {
				rate *= speedOf[Slowed]
			}
			end := at + s.seconds(job, rate)
			f.low.copyFrom(&f.steps[i])
			enough := f.room(&f.low, pool, j, safe, nil) >= j.Procs
			for k := i + 1; enough && k < len(f.steps) && f.steps[k].at < end; k++ {
				f.low.lower(&f.steps[k])
				enough = f.room(&f.low, pool, j, safe, nil) >= j.Procs
			}
			if enough {
				into = into[:0]
				f.room(&f.low, pool, j, safe, &into)
				return at, end, into
			}
		}
	}
	return inf, inf, nil
}

// room returns how many cores of a job fit in the pool at a step, with safe only those for which bandwidth is free.
// If into is not nil, room stops at the requested number and appends the parts.
func (f *profile) room(s *step, pool *pool, j *order.Job, safe bool, into *[]part) int {
	sum, node, left := 0, -1, 0
	for _, p := range pool.list {
		if n := f.tree.Processors[p].Node; n != node {
			node, left = n, math.MaxInt
			if j.Memory > 0 {
				left = int((s.memory[n] + slack) / j.Memory)
			}
		}
		count := min(int(s.free[p]), left)
		if safe {
			count = min(count, unslowed(s.bandwidth[p], j))
		}
		if count <= 0 {
			continue
		}
		if into != nil {
			if count = min(count, j.Procs-sum); count == 0 {
				return sum
			}
			*into = append(*into, part{p, int32(count)})
		}
		sum += count
		left -= count
	}
	return sum
}
