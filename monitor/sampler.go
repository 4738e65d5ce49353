package monitor

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sampler runs several collectors concurrently. A collector that hangs (a GPU driver, a dead network file system)
// does not delay the others: its part of the sample stays unknown, it is skipped until its call returns, and the
// failure is reported once. A Sampler is not safe for concurrent use.
type Sampler struct {
	Collectors []Collector
	// Timeout bounds the time of one collector; 0 means 500 ms.
	Timeout time.Duration

	calls []*collectorCall
}

// collectorCall is one collector and the state of its current call.
type collectorCall struct {
	collector Collector
	done      chan reply
	hanging   bool
	lastError string
}

// reply is the result of one call of a collector.
type reply struct {
	sample Sample
	err    error
}

// Sample calls all collectors and returns within Timeout, plus a grace period of a tenth of it for each late
// collector, or when ctx ends. A collector's error is returned when it first occurs and not again while it persists;
// ErrNoData is never returned. now becomes At.
func (s *Sampler) Sample(ctx context.Context, now time.Time) (Sample, []error) {
	s.prepare()
	timeout := s.Timeout
	if timeout <= 0 {
		timeout = 500 * time.Millisecond
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	out := NoSample(now)
	var errs []error
	called := make([]*collectorCall, 0, len(s.calls))
	for _, c := range s.calls {
		if c.hanging && !c.back() {
			continue
		}
		called = append(called, c)
		go c.ask(ctx, now)
	}
	for _, c := range called {
		r, ok := c.wait(ctx, timeout/10)
		if !ok {
			c.hanging = true
			errs = append(errs, fmt.Errorf("collector %s: no answer within %v; left out until it answers", c.collector.Name(), timeout))
			continue
		}
		errs = append(errs, c.take(r, &out)...)
	}
	return out, errs
}

func (s *Sampler) prepare() {
	for len(s.calls) < len(s.Collectors) {
		s.calls = append(s.calls, &collectorCall{collector: s.Collectors[len(s.calls)], done: make(chan reply, 1)})
	}
}

// ask runs the collector on a separate sample, so that a late return does not corrupt a later sample.
func (c *collectorCall) ask(ctx context.Context, now time.Time) {
	r := reply{sample: NoSample(now)}
	defer func() {
		if p := recover(); p != nil {
			r.err = fmt.Errorf("panic: %v", p)
		}
		c.done <- r
	}()
	r.err = c.collector.Collect(ctx, &r.sample)
}

// wait waits for the reply. After ctx ends, the collector has the grace period to return.
func (c *collectorCall) wait(ctx context.Context, grace time.Duration) (reply, bool) {
	select {
	case r := <-c.done:
		return r, true
	case <-ctx.Done():
	}
	select {
	case r := <-c.done:
		return r, true
	case <-time.After(grace):
		return reply{}, false
	}
}

// back reports whether a hanging collector has returned; its outdated reply is discarded.
func (c *collectorCall) back() bool {
	select {
	case <-c.done:
		c.hanging = false
		return true
	default:
		return false
	}
}

// take merges a reply into out and returns its error unless the same error was returned last time.
func (c *collectorCall) take(r reply, out *Sample) []error {
	merge(out, &r.sample)
	if r.err == nil || errors.Is(r.err, ErrNoData) {
		c.lastError = ""
		return nil
	}
	text := r.err.Error()
	if text == c.lastError {
		return nil
	}
	c.lastError = text
	return []error{fmt.Errorf("collector %s: %w", c.collector.Name(), r.err)}
}

// merge copies the known values.
func merge(to, from *Sample) {
	pick := func(to *float64, from float64) {
		if from == from {
			*to = from
		}
	}
	pick(&to.Host.CPUPercent, from.Host.CPUPercent)
	pick(&to.Host.MemoryGiB, from.Host.MemoryGiB)
	pick(&to.Host.CPUEnergyJ, from.Host.CPUEnergyJ)
	if from.Tree.Procs > 0 {
		to.Tree.Procs = from.Tree.Procs
	}
	pick(&to.Tree.CPUSeconds, from.Tree.CPUSeconds)
	pick(&to.Tree.CPUPercent, from.Tree.CPUPercent)
	pick(&to.Tree.MemoryGiB, from.Tree.MemoryGiB)
	pick(&to.Tree.ReadBytes, from.Tree.ReadBytes)
	pick(&to.Tree.WriteBytes, from.Tree.WriteBytes)
	to.GPUs = append(to.GPUs, from.GPUs...)
}

// Close closes the collectors that have a Close method, except those that hang.
func (s *Sampler) Close() error {
	var errs []error
	for _, c := range s.calls {
		if closer, ok := c.collector.(interface{ Close() error }); ok && (!c.hanging || c.back()) {
			errs = append(errs, closer.Close())
		}
	}
	return errors.Join(errs...)
}
