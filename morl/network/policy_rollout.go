package network

import (
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
)

// newRNG returns a generator for a purpose: every tuple of numbers yields an independent one (Steele, Lea, Flood,
// 2014).
func newRNG(numbers ...uint64) *rand.Rand {
	var h [2]uint64
	state := uint64(0)
	for _, n := range append(numbers, 0, 1) {
		state += n + 0x9e3779b97f4a7c15
		state = (state ^ state>>30) * 0xbf58476d1ce4e5b9
		state = (state ^ state>>27) * 0x94d049bb133111eb
		state ^= state >> 31
		h[0], h[1] = h[1], state
	}
	return rand.New(rand.NewPCG(h[0], h[1]))
}

// Purposes of generators, the last number of spread.
const (
	forNetworks = iota
	forEnvironment
	forActions
	forMinibatches
	forEvolution
)

// play runs an episode and returns its steps.
func play(s Shape, p *Policy, env Environment, start, actions *rand.Rand) (*batch, error) {
	b := newBatch(s)
	o, done := env.Reset(start)
	for !done {
		if err := p.check(o); err != nil {
			return nil, fmt.Errorf("step %d: %w", b.steps(), err)
		}
		action, logp := p.Sample(o, actions)
		b.add(o, action, logp)
		o, b.reward[b.steps()-1], done = env.Step(action)
	}
	if n := b.steps(); n > 0 && math.IsNaN(b.reward[n-1]) {
		b.drop()
	}
	b.episode = append(b.episode, b.steps())
	return b, nil
}

// check reports an observation that does not match the shape.
func (p *Policy) check(o Observation) error {
	s := p.shape
	rows := len(o.X) / s.Features
	if rows < 1 || rows*s.Features != len(o.X) || rows > s.Rows {
		return fmt.Errorf("observation of %d numbers: want 1 to %d rows of %d", len(o.X), s.Rows, s.Features)
	}
	if o.Mask == nil {
		return nil
	}
	n := s.Actions
	if p.rowActions {
		n = rows
	}
	if len(o.Mask) != n {
		return fmt.Errorf("mask of %d actions: want %d", len(o.Mask), n)
	}
	if !o.Mask[firstAllowed(o.Mask)] {
		return fmt.Errorf("mask of %d actions allows none", n)
	}
	return nil
}

// each calls f for 0 … n-1 from several goroutines, with the index of the goroutine, and returns the error with the
// lowest index.
func each(n, workers int, f func(worker, i int) error) error {
	errs := make([]error, n)
	next := make(chan int)
	var wg sync.WaitGroup
	for w := range min(max(workers, 1), n) {
		wg.Go(func() {
			for i := range next {
				errs[i] = f(w, i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// collect runs the episodes of an update concurrently, each with its own generators, and joins them in order.
func (l *Learner) collect(env func() Environment) (*batch, error) {
	workers := min(l.config.Workers, l.config.Episodes)
	envs, policies := make([]Environment, workers), make([]*Policy, workers)
	for i := range envs {
		envs[i], policies[i] = env(), l.Policy()
	}
	episodes := make([]*batch, l.config.Episodes)
	err := each(len(episodes), workers, func(w, i int) (err error) {
		n := uint64(i)
		episodes[i], err = play(l.shape, policies[w], envs[w],
			newRNG(l.seed, l.updates, n, forEnvironment), newRNG(l.seed, l.updates, n, forActions))
		return err
	})
	if err != nil {
		return nil, err
	}
	b := newBatch(l.shape)
	for _, e := range episodes {
		b.join(e)
	}
	return b, nil
}
