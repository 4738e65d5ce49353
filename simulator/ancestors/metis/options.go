package metis

import (
	"cmp"
	"errors"
	"fmt"
	"runtime"
	"time"

	"trainopt/optimizer/schedule/place"
)

// TrainOptions are the training settings of sub-schedulers. Zero values have the meaning noted.
type TrainOptions struct {
	// Recipe is one of Recipes: "original", three networks per class of batch sizes as in Metis, or "improved", one
	// network that scores nodes and is taught by prices; "" means improved.
	Recipe string
	// Table holds the throughputs of containers; nil means place.MetisTable.
	Table *place.Table
	Seed  uint64
	// Episodes is the number of episodes, per class in the original recipe; 0 means 20 000 there (Metis's program
	// specifies 8 000 000 and is stopped manually) and 6400 in the improved one.
	Episodes int
	// Classes are the classes trained by the original recipe: class s covers batches of s·10+1 to s·10+10 containers;
	// nil means all. Batches of other classes are placed by the nearest one.
	Classes []int
	// Lectures is the number of batches prepared by the teacher of the improved recipe; 0 means 400.
	Lectures int
	// Workers is the number of goroutines; 0 means one per processor. Results do not depend on it.
	Workers int
	// Clock returns the time since the start, for the curve; nil means times of 0.
	Clock func() time.Duration
}

// withDefaults replaces zero values by their defaults.
func (o TrainOptions) withDefaults() TrainOptions {
	o.Recipe = cmp.Or(o.Recipe, "improved")
	if o.Table == nil {
		o.Table = place.MetisTable()
	}
	if o.Episodes == 0 {
		o.Episodes = 6400
		if o.Recipe == "original" {
			o.Episodes = 20000
		}
	}
	o.Lectures = cmp.Or(o.Lectures, 400)
	o.Workers = cmp.Or(o.Workers, runtime.GOMAXPROCS(0))
	if o.Classes == nil {
		for s := range classes(o.Table.Capacity()) {
			o.Classes = append(o.Classes, s)
		}
	}
	if o.Clock == nil {
		o.Clock = func() time.Duration { return 0 }
	}
	return o
}

// Validate returns all problems joined.
func (o TrainOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	if recipes[o.Recipe] == nil {
		errs = append(errs, fmt.Errorf("train placement: recipe %q: want one of %v", o.Recipe, Recipes()))
	}
	for _, c := range o.Classes {
		if n := classes(o.Table.Capacity()); c < 0 || c >= n {
			errs = append(errs, fmt.Errorf("train placement: class %d: want 0 to %d", c, n-1))
		}
	}
	if o.Episodes < 0 || o.Lectures < 0 || o.Workers < 0 {
		errs = append(errs, fmt.Errorf("train placement: %d episodes, %d lectures, %d workers: want more than 0", o.Episodes, o.Lectures, o.Workers))
	}
	return errors.Join(errs...)
}

// LearningPoint is a point of a learning curve.
type LearningPoint struct {
	Episode int     // number of episodes so far
	Seconds float64 // since the start, by Clock
	// Value is the mean objective of the episodes since the last point: by default the mean throughput of a
	// container; when the original recipe trains sub-schedulers, relative to round robin.
	Value float64
	Best  float64 // best value so far within the budget, −Inf if none
	Cost  float64 // mean share of containers that violate a soft constraint
}
