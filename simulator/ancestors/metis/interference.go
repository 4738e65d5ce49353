package metis

// fromTable derives affinity and anti-affinity constraints (place.Constraint) from measured throughputs:
// the number of neighbours at which an app slows down or speeds up. They are the input of methods without throughput
// tables (Medea, Paragon).
//
// It is not a throughput model: a constraint covers a pair of apps with a single threshold. Package forest contains a
// model.
//
//	rows, err := fromTable(place.MetisTable(), ruleOptions{})
//	problem.Constraints = methods.constraints(rows) // 39 for the apps of Metis

import (
	"errors"
	"fmt"
	"math"

	"trainopt/optimizer/schedule/place"
)

// ruleOptions are the thresholds above which a change counts. The zero value reproduces the rows published by Metis.
type ruleOptions struct {
	Gain float64 // relative throughput above which an app requires the neighbours; 0: 1.1
	Loss float64 // relative throughput below which an app does not tolerate the neighbours; 0: 0.9
	Vary float64 // ratio of the largest to the smallest throughput above which a pair is considered; 0: 1.1
	// Contested is the weight of an upper limit where the neighbour has the opposite constraint, a minimum number of
	// the app; 0: 1, the weight of all other constraints. Example: MMS and ISR gain beside Redis, which slows down.
	// In Medea's program, Metis gives the constraints of Redis on these two the weight 2 (as does
	// place.MetisConstraints), but not in its published rows.
	Contested float64
	// Others makes the threshold for neighbours of the same app count only other containers, which is the definition
	// of place.Constraint. Without it, the threshold includes the container itself, as in Metis, and permits one
	// container more than was measured. Example: an app runs at 0.95 beside one other container of its kind and at
	// 0.8 beside two. The threshold is 1 with Others and 2 without. Published figures are without; new studies should
	// set it.
	Others bool
}

// derivedRow is a constraint and the measurements it was derived from.
type derivedRow struct {
	Constraint place.Constraint
	// RPS is the throughput of one container of the app beside 0, 1, … capacity − 1 containers of the neighbour (not
	// counting itself), relative to a container alone on the node.
	RPS []float64
}

// constraints returns the constraints of rows.
func constraints(rows []derivedRow) []place.Constraint {
	c := make([]place.Constraint, len(rows))
	for i := range rows {
		c[i] = rows[i].Constraint
	}
	return c
}

// fromTable derives constraints from the throughputs of all patterns. An app with throughput 0 alone is an error.
// O(apps² × capacity).
func fromTable(t *place.Table, o ruleOptions) ([]derivedRow, error) {
	return derive(t.Apps(), t.Capacity(), o, func(counts []uint8, app int) (float64, bool) { return t.RPS(t.Index(counts))[app], true })
}

// withDefaults replaces zero fields by their defaults and returns all invalid values as a joined error.
func (o ruleOptions) withDefaults() (ruleOptions, error) {
	var errs []error
	for _, f := range []struct {
		name        string
		value       *float64
		zero        float64
		least, most float64
	}{{"gain", &o.Gain, 1.1, 1, math.MaxFloat64}, {"loss", &o.Loss, 0.9, 0, 1}, {"vary", &o.Vary, 1.1, 1, math.MaxFloat64},
		{"weight of what is contested", &o.Contested, 1, 0, math.MaxFloat64}} {
		if *f.value == 0 {
			*f.value = f.zero
		}
		if !(*f.value >= f.least && *f.value <= f.most) {
			errs = append(errs, fmt.Errorf("interference: %s %v: want %v to %v", f.name, *f.value, f.least, f.most))
		}
	}
	return o, errors.Join(errs...)
}

// derive evaluates all ordered pairs of apps in the order of Metis. rate returns the throughput of an app in a
// pattern, and false if it is unknown.
func derive(apps []string, capacity int, o ruleOptions, rate func(counts []uint8, app int) (float64, bool)) ([]derivedRow, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var rows []derivedRow
	var errs []error
	missing := 0
	counts := make([]uint8, len(apps))
	for app := range apps {
		for neighbour := range apps {
			rps := make([]float64, capacity)
			complete := true
			for k := range rps {
				clear(counts)
				// One container of the app beside k of the neighbour.
				counts[app]++
				counts[neighbour] += uint8(k)
				var ok bool
				if rps[k], ok = rate(counts, app); !ok {
					complete = false
					if missing++; missing <= 3 {
						errs = append(errs, fmt.Errorf("interference: the throughput of %s is not known for %v", apps[app], counts))
					}
				}
			}
			if complete && !(rps[0] > 0) {
				return nil, fmt.Errorf("interference: %s runs at %v alone on a node", apps[app], rps[0])
			}
			if row, ok := constraintOf(app, neighbour, rps, o); complete && ok {
				rows = append(rows, row)
			}
		}
	}
	if missing > 3 {
		errs = append(errs, fmt.Errorf("interference: %d such throughputs in all", missing))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	weigh(rows, o)
	return rows, nil
}

// constraintOf derives a constraint from one curve, if it varies enough. The smallest number of neighbours with a sufficient
// change decides.
func constraintOf(app, neighbour int, rps []float64, o ruleOptions) (derivedRow, bool) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, r := range rps {
		least, most = min(least, r), max(most, r)
	}
	if !(most/least > o.Vary) {
		return derivedRow{}, false
	}
	row := derivedRow{Constraint: place.Constraint{App: app, Neighbour: neighbour, Weight: 1}, RPS: make([]float64, len(rps))}
	for k, r := range rps {
		row.RPS[k] = r / rps[0]
	}
	for k := 1; k < len(rps); k++ {
		switch {
		case row.RPS[k] > o.Gain:
			row.Constraint.AtLeast, row.Constraint.Threshold = true, k
			return row, true
		case row.RPS[k] < o.Loss:
			row.Constraint.Threshold = k - 1
			if app == neighbour && !o.Others {
				row.Constraint.Threshold = k
			}
			return row, true
		}
	}
	return derivedRow{}, false
}

// weigh assigns the weight of contested constraints.
func weigh(rows []derivedRow, o ruleOptions) {
	type pair struct{ app, neighbour int }
	wanted := map[pair]bool{}
	for _, r := range rows {
		if c := r.Constraint; c.AtLeast {
			wanted[pair{c.App, c.Neighbour}] = true
		}
	}
	for i := range rows {
		if c := &rows[i].Constraint; !c.AtLeast && wanted[pair{c.Neighbour, c.App}] {
			c.Weight = o.Contested
		}
	}
}
