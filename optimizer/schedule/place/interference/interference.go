// Package interference derives wishes of apps about their neighbours (place.Constraint) from measured throughputs: who is
// disturbed by how many of whom, and who gains. Placers that know no throughput (Medea, Paragon) are told these instead.
//
// It is not a model of throughput: a wish knows pairs of apps only and one threshold for each, see package forest for the other.
//
//	rows, err := interference.FromTable(place.MetisTable(), interference.Options{})
//	problem.Constraints = interference.Constraints(rows) // 39 for the apps of Metis
package interference

import (
	"errors"
	"fmt"
	"math"

	"trainopt/optimizer/schedule/place"
)

// Options say from where on a change counts; the zero value derives the rows that Metis stores.
type Options struct {
	Gain float64 // throughput relative to alone above which an app wants the neighbours; 0 is 1.1
	Loss float64 // throughput relative to alone below which it does not tolerate them; 0 is 0.9
	Vary float64 // largest over smallest throughput, above which a pair is looked at at all; 0 is 1.1
	// Contested is the weight of "at most" where the neighbour wants the opposite, at least so many of the app; 0 is 1, as all other
	// wishes have. Example: MMS and ISR gain beside Redis, which suffers. Metis weighs what Redis wants of the two 2 in Medea's
	// program (place.MetisConstraints has that), though not in the rows that it stores.
	Contested float64
	// Others has the threshold for neighbours of an app's own kind count the others only, which is how place.Constraint counts.
	// Without it the threshold counts the container itself, too, as Metis's does, and one more is free than the measurement says.
	// Example: an app runs at 0.95 with one other of its kind and at 0.8 with two. The threshold is 1 with Others, and 2 without.
	// Published figures are without; for a decision of one's own it should be set.
	Others bool
}

// Row is a wish and what it is from.
type Row struct {
	Constraint place.Constraint
	// RPS is the throughput of one container of the app beside 0, 1, … capacity − 1 of the neighbour (others than itself), relative
	// to alone on the node.
	RPS []float64
}

// Constraints are the wishes of rows.
func Constraints(rows []Row) []place.Constraint {
	c := make([]place.Constraint, len(rows))
	for i := range rows {
		c[i] = rows[i].Constraint
	}
	return c
}

// FromTable derives wishes from throughputs of all patterns. An app that does not run alone is an error. O(apps² × capacity).
func FromTable(t *place.Table, o Options) ([]Row, error) {
	return derive(t.Apps(), t.Capacity(), o, func(counts []uint8, app int) (float64, bool) { return t.RPS(t.Index(counts))[app], true })
}

// FromSamples derives wishes from samples that hold at least all patterns of one and two apps in which one app has one container;
// the error names those that are missing. Of several rows of a pattern the first holds, as in Metis. Capacity is the number of
// containers that a node holds.
func FromSamples(s *place.Samples, capacity int, o Options) ([]Row, error) {
	if len(s.RPS) != len(s.Counts) {
		return nil, fmt.Errorf("interference: %d rows of counts, %d of throughputs", len(s.Counts), len(s.RPS))
	}
	if capacity < 1 || capacity > math.MaxUint8 {
		return nil, fmt.Errorf("interference: %d containers a node, want 1 to 255", capacity)
	}
	row := map[string]int{}
	for i, c := range s.Counts {
		if _, ok := row[string(c)]; !ok && len(s.RPS[i]) == len(s.Apps) {
			row[string(c)] = i
		}
	}
	return derive(s.Apps, capacity, o, func(counts []uint8, app int) (float64, bool) {
		i, ok := row[string(counts)]
		if !ok || math.IsNaN(s.RPS[i][app]) {
			return 0, false
		}
		return s.RPS[i][app], true
	})
}

// withDefaults fills in what is 0, or names all that makes no sense.
func (o Options) withDefaults() (Options, error) {
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

// derive goes over all pairs of apps, as Metis does.
func derive(apps []string, capacity int, o Options, rate func(counts []uint8, app int) (float64, bool)) ([]Row, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	var rows []Row
	var errs []error
	missing := 0
	counts := make([]uint8, len(apps))
	for app := range apps {
		for neighbour := range apps {
			rps := make([]float64, capacity)
			complete := true
			for k := range rps {
				clear(counts)
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
			if row, ok := wish(app, neighbour, rps, o); complete && ok {
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

// wish is what one curve says, if it says anything: the first number of neighbours that changes enough decides.
func wish(app, neighbour int, rps []float64, o Options) (Row, bool) {
	least, most := math.Inf(1), math.Inf(-1)
	for _, r := range rps {
		least, most = min(least, r), max(most, r)
	}
	if !(most/least > o.Vary) {
		return Row{}, false
	}
	row := Row{Constraint: place.Constraint{App: app, Neighbour: neighbour, Weight: 1}, RPS: make([]float64, len(rps))}
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
	return Row{}, false
}

// weigh gives what is contested its weight.
func weigh(rows []Row, o Options) {
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
