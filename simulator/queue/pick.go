package queue

import (
	"cmp"
	"slices"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/platform"
)

// pick is a chooser that evaluates each processor of a pool once and takes processors in ascending order of a key.
type pick struct {
	pool *pool
	// safe limits the cores taken of a processor to those for which it has bandwidth.
	safe bool
	key  func(s *state, p int32, job *order.Job) [3]float64

	s     *state
	ready []picked
	next  int
}

// picked is a processor with room, its key, and the number of cores it can provide.
type picked struct {
	key       [3]float64
	processor int32
	count     int32
}

// Start collects and sorts the processors that have room for the job.
func (c *pick) Start(m *Machine, job *order.Job) {
	c.ready, c.next = c.ready[:0], 0
	for _, p := range c.pool.list {
		count := m.Room(p, job)
		if c.safe {
			count = min(count, unslowed(m.Bandwidth(p), job))
		}
		if count > 0 {
			c.ready = append(c.ready, picked{c.key(c.s, p, job), p, int32(count)})
		}
	}
	slices.SortFunc(c.ready, func(a, b picked) int {
		return cmp.Or(slices.Compare(a.key[:], b.key[:]), int(a.processor-b.processor))
	})
}

// Next returns cores of the best remaining processor.
func (c *pick) Next(m *Machine, job *order.Job, want int) (int32, int) {
	for c.next < len(c.ready) {
		r := c.ready[c.next]
		c.next++
		if count := min(int(r.count), m.Room(r.processor, job), want); count > 0 {
			return m.FreeCore(r.processor, 0), count
		}
	}
	return -1, 0
}

// unslowed returns how many cores of a job the free bandwidth, GB/s, supports; at most 10⁶.
func unslowed(left float64, job *order.Job) int {
	switch {
	case left < 0:
		return 0
	case job.Bandwidth <= 0 || left/job.Bandwidth >= 1e6:
		return 1e6
	}
	return int(left / job.Bandwidth)
}

// awake reports whether any core of a processor is busy.
func (s *state) awake(p int32) bool { return s.Machine.FreeOf(p) < s.Tree.Processors[p].Cores }

// packed prefers the slowest processors of the pool, since the slowest core determines the speed of the job, then
// awake processors, then those with the fewest free cores.
func packed(s *state, p int32, _ *order.Job) [3]float64 {
	k := &s.Tree.Processors[p]
	asleep := 1.0
	if s.awake(p) {
		asleep = 0
	}
	return [3]float64{k.GFLOPS, asleep, float64(s.Machine.FreeOf(p))}
}

// thrifty prefers processors of low energy per operation, then follows packed.
func thrifty(s *state, p int32, job *order.Job) [3]float64 {
	v := packed(s, p, job)
	v[0] = joules(&s.Tree.Processors[p])
	return v
}

// joules returns the energy of a core for 10⁹ operations, J.
func joules(p *platform.Processor) float64 { return p.Watts / p.GFLOPS }

// fewestSlowed is for jobs that oversubscribe bandwidth: it prefers the processors where the fewest further jobs are
// slowed, first those that are slowed already, then idle ones.
func fewestSlowed(s *state, p int32, job *order.Job) [3]float64 {
	k := &s.Tree.Processors[p]
	busy := float64(k.Cores - s.Machine.FreeOf(p))
	if s.Machine.Bandwidth(p) < 0 {
		return [3]float64{-1, k.GFLOPS, -busy}
	}
	return [3]float64{busy, k.GFLOPS, 0}
}

// take takes cores for a job in a pool. It returns false if the job does not fit.
func (c *pick) take(s *state, job int32, pool *pool, into []int32) ([]int32, bool) {
	c.s, c.pool = s, pool
	where, fit := s.Machine.TryPlace(job, &s.Jobs[job], c, into)
	return where, fit == Fits
}
