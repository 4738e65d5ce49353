package experiment

// Compute evaluates the independent parts of an experiment, its cells: here, side by side, or on the site that
// the context names, such as the nodes of a Slurm cluster (Array). The results are the same in both cases.
//
// It does not decide what a cell is. A cell must depend on its number and the inputs of the command alone, and its
// result must be a type that Encode accepts.
//
//	results, err := experiment.Compute(ctx, len(cases), experiment.CellOptions{}, func(ctx context.Context, k int) (float64, error) {
//		return simulate(cases[k])
//	})

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
)

// CellOptions configure a computation. The zero value is ready to use.
type CellOptions struct {
	Workers int // concurrent cells on this machine; 0: one per core
	// Progress is called with the number of each cell that was computed, by one goroutine at a time; may be nil.
	Progress func(k int)
}

// Site computes cells outside this process, or a share of them inside it.
type Site interface {
	// Compute makes the n cells of one call of Compute available to take, in any order and by one goroutine at a time.
	// cell computes and encodes a cell in this process.
	Compute(ctx context.Context, n int, cell func(ctx context.Context, k int) ([]byte, error), take func(k int, data []byte) error) error
}

type siteKey struct{}

// On returns a context with which Compute uses a site; nil means this process.
func On(ctx context.Context, s Site) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, siteKey{}, s)
}

// Compute computes the cells 0…n−1 and returns their results, nil for those that were not computed. After the first
// failure no further cells begin; the error is that of the failed cell with the lowest number. If the context ends, the
// results so far are returned with its error.
func Compute[T any](ctx context.Context, n int, o CellOptions, compute func(ctx context.Context, k int) (T, error)) ([]*T, error) {
	results := make([]*T, n)
	site, _ := ctx.Value(siteKey{}).(Site)
	if site == nil {
		all := make([]int, n)
		for k := range all {
			all[k] = k
		}
		err := each(ctx, all, o.Workers, compute, func(k int, v T) error {
			results[k] = &v
			if o.Progress != nil {
				o.Progress(k)
			}
			return nil
		})
		return results, err
	}
	err := site.Compute(ctx, n, func(ctx context.Context, k int) ([]byte, error) {
		v, err := compute(ctx, k)
		if err != nil {
			return nil, err
		}
		return encodeResult(v)
	}, func(k int, data []byte) error {
		v := new(T)
		if err := decodeResult(data, v); err != nil {
			return fmt.Errorf("read the result of cell %d: %w", k, err)
		}
		results[k] = v
		if o.Progress != nil {
			o.Progress(k)
		}
		return nil
	})
	return results, err
}

// each calls compute for the given numbers on at most workers goroutines (0: one per core), and take for each result,
// by one goroutine at a time. The error is as that of Compute.
func each[T any](ctx context.Context, numbers []int, workers int, compute func(ctx context.Context, k int) (T, error), take func(k int, v T) error) error {
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	inner, stop := context.WithCancel(ctx)
	defer stop()
	errs := make([]error, len(numbers))
	next := make(chan int)
	var wait sync.WaitGroup
	var taking sync.Mutex
	for range min(workers, len(numbers)) {
		wait.Go(func() {
			for i := range next {
				v, err := compute(inner, numbers[i])
				if err == nil {
					taking.Lock()
					err = take(numbers[i], v)
					taking.Unlock()
				}
				if errs[i] = err; err != nil {
					stop()
				}
			}
		})
	}
feed:
	for i := range numbers {
		select {
		case next <- i:
		case <-inner.Done():
			break feed
		}
	}
	close(next)
	wait.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	for _, err := range errs {
		if err != nil && !errors.Is(err, context.Canceled) {
			return err
		}
	}
	return nil
}
