package experiment

import (
	"context"
	"fmt"
	"runtime"
	"sync"
)

// Case is one instance on which every policy is run. Cases with the same seed are not independent of each other.
type Case struct {
	Name string
	Seed uint64
}

// Options configure a comparison. Zero numbers select useful defaults.
type Options struct {
	Engine, Title string
	Metrics       []Metric
	// Against are the policies with which all others are compared pairwise; nil: the first policy.
	Against []string
	// Notes are shown with the table.
	Notes []string

	Resamples int    // of the bootstrap; 0: 4000
	Flips     int    // of the sign-flip test if there are too many seeds for all assignments; 0: 20,000
	Seed      uint64 // of both
	Workers   int    // concurrent cases; 0: one per core
	// Progress is called after each case, by one goroutine at a time; may be nil.
	Progress func(done, total int)
}

func (o Options) withDefaults(policies []string) Options {
	if o.Resamples <= 0 {
		o.Resamples = 4000
	}
	if o.Flips <= 0 {
		o.Flips = 20000
	}
	if o.Against == nil && len(policies) > 0 {
		o.Against = policies[:1]
	}
	if o.Workers <= 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
	return o
}

// Trial runs one policy on case number k and returns its measurements; NaN and omitted metrics are unknown. It is
// called concurrently for different cases, but sequentially for one case, and its result must not depend on the order
// of the calls.
type Trial func(ctx context.Context, policy string, k int) (map[string]float64, error)

// Run runs every policy on every case, in parallel over the cases, and assembles the comparison, which is the same
// byte for byte for any number of workers. The first case, by number, whose trial fails or panics ends Run with an
// error that names the policy and the case. When ctx is cancelled, Run returns the comparison of the completed cases,
// nil without any, together with the context's error.
func Run(ctx context.Context, policies []string, cases []Case, o Options, trial Trial) (*Comparison, error) {
	if err := o.validate(policies); err != nil {
		return nil, err
	}
	o = o.withDefaults(policies)
	values := make([][]map[string]float64, len(policies))
	for i := range values {
		values[i] = make([]map[string]float64, len(cases))
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(cases))
	next := make(chan int)
	var wait sync.WaitGroup
	var told sync.Mutex
	done := 0
	for range min(o.Workers, max(1, len(cases))) {
		wait.Go(func() {
			for k := range next {
				if errs[k] = oneCase(inner, policies, cases[k].Name, k, trial, values); errs[k] != nil {
					stop()
					continue
				}
				if o.Progress != nil {
					told.Lock()
					done++
					o.Progress(done, len(cases))
					told.Unlock()
				}
			}
		})
	}
feed:
	for k := range cases {
		select {
		case next <- k:
		case <-inner.Done():
			break feed
		}
	}
	close(next)
	wait.Wait()
	for _, err := range errs {
		if err != nil && ctx.Err() == nil && err != context.Canceled {
			return nil, err
		}
	}
	if err := ctx.Err(); err != nil {
		if countRun(values) == 0 {
			return nil, err
		}
		return Assemble(policies, cases, o, values), err
	}
	return Assemble(policies, cases, o, values), nil
}

// oneCase runs all policies on a case; values are set for all of them or for none.
func oneCase(ctx context.Context, policies []string, name string, k int, trial Trial, values [][]map[string]float64) error {
	got := make([]map[string]float64, len(policies))
	for i, p := range policies {
		if ctx.Err() != nil {
			return context.Canceled
		}
		v, err := guarded(ctx, p, name, k, trial)
		if err != nil {
			return err
		}
		if v == nil {
			v = map[string]float64{}
		}
		got[i] = v
	}
	for i := range policies {
		values[i][k] = got[i]
	}
	return nil
}

// guarded converts a panic of a trial into an error.
func guarded(ctx context.Context, policy, name string, k int, trial Trial) (v map[string]float64, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("policy %s on %s: panic: %v", policy, name, x)
		}
	}()
	if v, err = trial(ctx, policy, k); err != nil {
		return nil, fmt.Errorf("policy %s on %s: %w", policy, name, err)
	}
	return v, nil
}
