package unequal

import (
	"slices"

	"trainopt/simulator/platform"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
)

// pick is a chooser that looks at each processor of a pool once and takes them in the order of a key.
type pick struct {
	pool *Pool
	// safe takes no more cores of a processor than it has bandwidth for.
	safe bool
	key  func(s *State, p int32, job *queue.Job) [3]float64

	s     *State
	ready []picked
	next  int
}

type picked struct {
	key       [3]float64
	processor int32
	count     int32
}

// Start lists what may be taken.
func (c *pick) Start(m *cores.Machine, job *queue.Job) {
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
		for i := range a.key {
			if a.key[i] != b.key[i] {
				if a.key[i] < b.key[i] {
					return -1
				}
				return 1
			}
		}
		return int(a.processor - b.processor)
	})
}

// Next is the best processor that is left.
func (c *pick) Next(m *cores.Machine, job *queue.Job, want int) (int32, int) {
	for c.next < len(c.ready) {
		r := c.ready[c.next]
		c.next++
		if count := min(int(r.count), m.Room(r.processor, job), want); count > 0 {
			return m.FreeCore(r.processor, 0), count
		}
	}
	return -1, 0
}

// unslowed is how many cores of a job have their bandwidth in what is left.
func unslowed(left float64, job *queue.Job) int {
	switch {
	case left < 0:
		return 0
	case job.Bandwidth <= 0 || left/job.Bandwidth >= 1e6:
		return 1e6
	}
	return int(left / job.Bandwidth)
}

func (s *State) awake(p int32) bool { return s.Machine.FreeOf(p) < s.Tree.Processors[p].Cores }

// packed prefers the slowest of the pool, whose speed the job has anyhow, then processors that are awake, then those that it fills.
func packed(s *State, p int32, _ *queue.Job) [3]float64 {
	k := &s.Tree.Processors[p]
	asleep := 1.0
	if s.awake(p) {
		asleep = 0
	}
	return [3]float64{k.GFLOPS, asleep, float64(s.Machine.FreeOf(p))}
}

// thrifty prefers few watts for what is done, then as packed.
func thrifty(s *State, p int32, job *queue.Job) [3]float64 {
	v := packed(s, p, job)
	v[0] = joules(&s.Tree.Processors[p])
	return v
}

// joules is what a core uses for 10⁹ operations.
func joules(p *platform.Processor) float64 { return p.Watts / p.GFLOPS }

// careless prefers processors where a job that asks for too much bandwidth slows the fewest others: those that are slowed already,
// then idle ones.
func careless(s *State, p int32, job *queue.Job) [3]float64 {
	k := &s.Tree.Processors[p]
	busy := float64(k.Cores - s.Machine.FreeOf(p))
	if s.Machine.Bandwidth(p) < 0 {
		return [3]float64{-1, k.GFLOPS, -busy}
	}
	return [3]float64{busy, k.GFLOPS, 0}
}

// take takes cores in a pool by a pick.
func (c *pick) take(s *State, job int32, pool *Pool, into []int32) ([]int32, bool) {
	c.s, c.pool = s, pool
	where, fit := s.Machine.TryPlace(job, &s.Jobs[job], c, into)
	return where, fit == cores.Fits
}
