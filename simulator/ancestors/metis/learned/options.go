package learned

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"trainopt/optimizer/schedule/place"
)

// Options say how to train sub-schedulers. Zeros have the meaning that is noted.
type Options struct {
	// Recipe is the name of one in Recipes: "original", three networks for each of the classes of batch sizes, as Metis trains
	// them, or "improved", one network that scores nodes and is taught by prices; "" is improved.
	Recipe string
	// Table is what containers are as fast as; nil is place.MetisTable.
	Table *place.Table
	Seed  uint64
	// Episodes are played, of each class in the original recipe; 0: 20 000 there (Metis's program names 8 000 000 and is stopped
	// by hand), 6400 in the improved one.
	Episodes int
	// Classes are the classes that the original recipe trains: s means batches of s·10+1 to s·10+10 containers; nil: all. A batch of
	// another class is placed by the nearest one.
	Classes []int
	// Lectures is the number of batches that the teacher of the improved recipe prepares; 0: 400.
	Lectures int
	// Workers is the number of goroutines, 0: one a processor. Results do not depend on it.
	Workers int
	// Clock tells the time since the start, for the curve; nil: no times.
	Clock func() time.Duration
}

// withDefaults replaces zeros by what they mean.
func (o Options) withDefaults() Options {
	if o.Recipe == "" {
		o.Recipe = "improved"
	}
	if o.Table == nil {
		o.Table = place.MetisTable()
	}
	if o.Episodes == 0 {
		o.Episodes = 6400
		if o.Recipe == "original" {
			o.Episodes = 20000
		}
	}
	if o.Lectures == 0 {
		o.Lectures = 400
	}
	if o.Workers == 0 {
		o.Workers = runtime.GOMAXPROCS(0)
	}
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

// Validate names all that makes no sense.
func (o Options) Validate() error {
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

// Point is one of a learning curve.
type Point struct {
	Class   int     // of the sub-scheduler that is trained; 0 where there are none
	Episode int     // played so far
	Seconds float64 // since the start by Clock
	// Value is the mean objective of the episodes since the last point: the mean throughput of a container where nothing else was
	// asked for, above round robin where sub-schedulers are trained in the original recipe.
	Value float64
	Best  float64 // of all so far that keep the budget, −Inf when none does
	Cost  float64 // mean share of containers that break a soft constraint
}

// Curve is how learning went.
type Curve struct {
	Points []Point
}
