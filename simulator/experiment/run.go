package experiment

import (
	"context"
	"fmt"
	"runtime"
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

// caseResult is the result of all policies on a case.
type caseResult[T any] struct {
	Values []map[string]float64 // by policy
	Kept   []T
}

// Run runs every policy on every case, in parallel over the cases, and assembles the comparison, which is the same byte
// for byte for any number of workers and on any site (cells.On). trial runs one policy on case number k and returns its
// measurements, where NaN and omitted metrics are unknown, and a result T, of a type that cells.Encode accepts. It is
// called concurrently for different cases, but sequentially for one case, and what it returns must not depend on the order
// of the calls. The results T are by case and policy, nil for cases that were not completed.
//
// The first case, by number, whose trial fails or panics ends Run with an error that names the policy and the case. When
// ctx is cancelled, Run returns the comparison of the completed cases, nil without any, together with the context's error.
func Run[T any](ctx context.Context, policies []string, cases []Case, o Options, trial func(ctx context.Context, policy string, k int) (map[string]float64, T, error)) (*Comparison, [][]T, error) {
	if err := o.validate(policies); err != nil {
		return nil, nil, err
	}
	o = o.withDefaults(policies)
	done := 0
	progress := func(int) {
		if done++; o.Progress != nil {
			o.Progress(done, len(cases))
		}
	}
	results, err := Compute(ctx, len(cases), CellOptions{Workers: o.Workers, Progress: progress}, func(ctx context.Context, k int) (caseResult[T], error) {
		return oneCase(ctx, policies, cases[k].Name, k, trial)
	})
	if err != nil && (ctx.Err() == nil || done == 0) {
		return nil, make([][]T, len(cases)), err
	}
	values, kept := make([][]map[string]float64, len(policies)), make([][]T, len(cases))
	for i := range values {
		values[i] = make([]map[string]float64, len(cases))
	}
	for k, r := range results {
		if r == nil {
			continue
		}
		kept[k] = r.Kept
		for i := range policies {
			values[i][k] = r.Values[i]
		}
	}
	return Assemble(policies, cases, o, values), kept, err
}

// oneCase runs all policies on a case.
func oneCase[T any](ctx context.Context, policies []string, name string, k int, trial func(ctx context.Context, policy string, k int) (map[string]float64, T, error)) (caseResult[T], error) {
	r := caseResult[T]{make([]map[string]float64, len(policies)), make([]T, len(policies))}
	for i, p := range policies {
		if ctx.Err() != nil {
			return r, context.Canceled
		}
		v, kept, err := guarded(ctx, p, name, k, trial)
		if err != nil {
			return r, err
		}
		if v == nil {
			v = map[string]float64{}
		}
		r.Values[i], r.Kept[i] = v, kept
	}
	return r, nil
}

// guarded converts a panic of a trial into an error.
func guarded[T any](ctx context.Context, policy, name string, k int, trial func(ctx context.Context, policy string, k int) (map[string]float64, T, error)) (v map[string]float64, kept T, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("policy %s on %s: panic: %v", policy, name, x)
		}
	}()
	if v, kept, err = trial(ctx, policy, k); err != nil {
		return nil, kept, fmt.Errorf("policy %s on %s: %w", policy, name, err)
	}
	return v, kept, nil
}
