package place

// Forest predicts the throughput of containers in unmeasured patterns from a sample of measured ones, by a
// regression forest per app as in Metis (Wang et al., SC 2020), which by default measures a fifth of the patterns.
//
// It is not a general learner: features are small counts of containers, few in number, which makes it fast. If all
// patterns are measured, the table is preferable: a method that optimises against a forest exploits the forest's
// errors.
//
//	f, err := samples.TrainForest(place.ForestOptions{})
//	table, err := f.Table(8) // every pattern of up to 8 containers, to place against

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
)

// ForestOptions are the settings of a forest; the zero value is Metis's.
type ForestOptions struct {
	Trees   int     // trees per app; 0 means 100
	Depth   int     // maximum number of splits from root to leaf; 0 means 20
	Leaf    int     // minimum number of rows in a leaf, counted with repetition; 0 means 1
	HoldOut float64 // share of the rows held out for testing; 0 means 0.1, negative means none
	Seed    uint64  // equal seeds produce equal forests, on any number of processors
}

// forest holds a regression forest per app. It is immutable and safe for concurrent use.
type forest struct {
	apps  []string
	trees [][]tree // by app
}

// withDefaults replaces zero values by their defaults, or returns all problems joined.
func (o ForestOptions) withDefaults() (ForestOptions, error) {
	var errs []error
	for _, f := range []struct {
		name  string
		value *int
		zero  int
	}{{"trees", &o.Trees, 100}, {"depth", &o.Depth, 20}, {"leaf", &o.Leaf, 1}} {
		if *f.value < 0 {
			errs = append(errs, fmt.Errorf("forest: %s is %d, want more than 0", f.name, *f.value))
		}
		if *f.value == 0 {
			*f.value = f.zero
		}
	}
	o.HoldOut = cmp.Or(o.HoldOut, 0.1)
	if !(o.HoldOut < 1) {
		errs = append(errs, fmt.Errorf("forest: %v of the rows kept back, want less than 1", o.HoldOut))
	}
	return o, errors.Join(errs...)
}

// TrainForest grows the forests. Each tree uses as many rows as exist, drawn with replacement, and splits by the app and
// count of least remaining variance until a leaf has a single value or a limit is reached. O(trees × apps² × rows ×
// depth).
func (s *Samples) TrainForest(o ForestOptions) (*forest, error) {
	f, _, err := s.trainForest(o)
	return f, err
}

// trainForest is TrainForest, and returns the held-out rows.
func (s *Samples) trainForest(o ForestOptions) (f *forest, heldOut []int, err error) {
	o, err = o.withDefaults()
	if err == nil {
		err = check(s)
	}
	if err != nil {
		return nil, nil, err
	}
	n, apps := len(s.Counts), len(s.Apps)
	order := rand.New(rand.NewPCG(o.Seed, 0)).Perm(n)
	held := 0
	if o.HoldOut > 0 {
		held = int(math.Ceil(o.HoldOut * float64(n)))
	}
	if held == n {
		return nil, nil, fmt.Errorf("forest: %d rows, of which %d are kept back: none is left to train on", n, held)
	}
	train := newRows(s, order[held:])
	f = &forest{apps: s.Apps, trees: make([][]tree, apps)}
	for a := range f.trees {
		f.trees[a] = make([]tree, o.Trees)
	}
	spread(apps*o.Trees, func() func(int) {
		g := newGrower(train, o)
		return func(i int) {
			a, k := i/o.Trees, i%o.Trees
			f.trees[a][k] = g.grow(a, rand.New(rand.NewPCG(o.Seed, uint64(i)+1)))
		}
	})
	return f, order[:held], nil
}

// check returns an error for invalid samples.
func check(s *Samples) error {
	switch {
	case s == nil || len(s.Counts) == 0 || len(s.Apps) == 0:
		return errors.New("forest: no rows to train on")
	case len(s.RPS) != len(s.Counts):
		return fmt.Errorf("forest: %d rows of counts, %d of throughputs", len(s.Counts), len(s.RPS))
	}
	for i, c := range s.Counts {
		if len(c) != len(s.Apps) || len(s.RPS[i]) != len(s.Apps) {
			return fmt.Errorf("forest: row %d has %d counts and %d throughputs, want %d", i+1, len(c), len(s.RPS[i]), len(s.Apps))
		}
		for a, y := range s.RPS[i] {
			if math.IsInf(y, 0) || y < 0 {
				return fmt.Errorf("forest: row %d, app %s: throughput %v, want a number that is not negative", i+1, s.Apps[a], y)
			}
		}
	}
	return nil
}

// known returns the throughput y, 0 for that of an absent app (NaN).
func known(y float64) float64 {
	if math.IsNaN(y) {
		return 0
	}
	return y
}

// Predict sets rps to the throughput of one container of each app in a pattern with these counts. For absent apps,
// the forests' prediction is near 0.
func (f *forest) Predict(counts []uint8, rps []float64) {
	for a, trees := range f.trees {
		sum := 0.0
		for i := range trees {
			sum += trees[i].at(counts)
		}
		rps[a] = sum / float64(len(trees))
	}
}

// Table predicts every pattern of at most capacity containers.
func (f *forest) Table(capacity int) (*Table, error) {
	// The blank table numbers the patterns, so that they can be distributed over the processors.
	blank, err := NewTable(f.apps, capacity, func([]uint8, []float64) {})
	if err != nil {
		return nil, err
	}
	apps := len(f.apps)
	rps := make([]float64, blank.Patterns()*apps)
	const chunk = 256
	spread((blank.Patterns()+chunk-1)/chunk*apps, func() func(int) {
		return func(i int) {
			a, first := i%apps, i/apps*chunk
			trees := f.trees[a]
			last := min(first+chunk, blank.Patterns())
			for k := range trees { // each tree stays in the cache for a whole chunk
				for p := first; p < last; p++ {
					if counts := blank.Counts(p); counts[a] > 0 {
						rps[p*apps+a] += trees[k].at(counts)
					}
				}
			}
			for p := first; p < last; p++ {
				rps[p*apps+a] /= float64(len(trees))
			}
		}
	})
	return NewTable(f.apps, capacity, func(counts []uint8, out []float64) {
		p := blank.Index(counts)
		copy(out, rps[p*apps:(p+1)*apps])
	})
}

// spread executes n tasks on all processors; worker is called once per goroutine and returns the function that
// executes a task.
func spread(n int, worker func() func(int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(n, runtime.GOMAXPROCS(0)) {
		wg.Go(func() {
			do := worker()
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	wg.Wait()
}
