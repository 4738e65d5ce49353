package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"trainopt/optimizer/history"
	"trainopt/optimizer/history/transfer"
)

// folds maps each way to partition the tables to the part of an entry. For the source, Pollux and Sia are one part,
// since Sia profiled the trainings of Pollux again; the rounds of MLPerf repeat one set of trainings, which only the
// families merge.
var folds = map[string]func(*history.Entry) string{
	"source": func(e *history.Entry) string {
		s := sourceOf(e)
		if s == "pollux" {
			return "sia"
		}
		return s
	},
	"family": func(e *history.Entry) string { return e.Job.Family },
}

// crossed predicts hidden entries with hyper-parameters fitted without their part of the tables. The visible
// measurements of that part remain available to the model, as they would be to a user.
func crossed(entries []history.Entry, list []hiding, by string, how transfer.Fitting) ([]outcome, error) {
	part, ok := folds[by]
	if !ok {
		return nil, fmt.Errorf("cross %q: want one of %v", by, slices.Sorted(maps.Keys(folds)))
	}
	asked := map[string][]hiding{}
	for _, h := range list {
		apart := map[string][]int{}
		for _, i := range h.asked {
			p := part(&entries[i])
			apart[p] = append(apart[p], i)
		}
		for p, of := range apart {
			asked[p] = append(asked[p], hiding{h.kind, h.name, h.hidden, of, h.own})
		}
	}
	var out []outcome
	for _, p := range slices.Sorted(maps.Keys(asked)) {
		rest := slices.DeleteFunc(slices.Clone(entries), func(e history.Entry) bool { return part(&e) == p })
		var o transfer.Options
		for _, q := range needed(entries, asked[p]) {
			how.Logf("without %s", p)
			tuned, err := transfer.Fit(rest, q, how)
			if errors.Is(err, transfer.ErrNoBasis) {
				continue
			}
			o.Tuned = append(o.Tuned, tuned)
		}
		out = append(out, leaveOut(entries, asked[p], o)...)
	}
	return out, nil
}

// needed returns the quantities of the queries.
func needed(entries []history.Entry, list []hiding) []transfer.Quantity {
	found := map[transfer.Quantity]bool{}
	for _, h := range list {
		for _, i := range h.asked {
			q, _ := asks(&entries[i])
			found[q] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
