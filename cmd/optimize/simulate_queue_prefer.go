package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
	"trainopt/simulator/queue/cores"
	"trainopt/simulator/queue/sweep"
)

// ways returns the methods that --prefer tries: on equal processors every order with every backfilling; on platforms
// the deterministic pairs of HDeepRM, and simple orders with EASY backfilling and every placement.
func ways(platform, compat bool, objective string) []sweep.Named {
	var out []sweep.Named
	if !platform {
		for _, order := range slices.Sorted(maps.Keys(order.Orders)) {
			for _, backfill := range []string{"none", "easy", "conservative"} {
				out = append(out, sweep.Named{Name: order + "+" + backfill, Method: sweep.Method{Policy: order, Backfill: backfill}})
			}
		}
		return out
	}
	for _, pair := range hdeeprm.Table() {
		if !pair.Random() {
			out = append(out, sweep.Named{Name: pair.String(), Method: sweep.Method{Policy: pair.String(), Compat: compat}})
		}
	}
	for _, order := range []string{"fcfs", "saf", "sjf", "smallest"} {
		for _, placement := range cores.Placements() {
			out = append(out, sweep.Named{Name: order + "+easy+" + placement, Method: sweep.Method{Policy: order, Backfill: "easy", Placement: placement, Objective: objective}})
		}
	}
	return out
}

// preferred runs all methods and returns the run that the preference selects.
func (f *simulatingQueue) preferred(ctx context.Context, w *sweep.Workload, window sweep.Window, p sweep.Preference, progress func(done, total int)) (*sweep.Run, error) {
	all := ways(w.Tree != nil, f.compat, f.objective)
	results, runs := map[string]queue.Summary{}, map[string]*sweep.Run{}
	for i, way := range all {
		m := way.Method
		m.Seed = f.seed
		r, err := w.Run(ctx, m, window)
		if ctx.Err() != nil {
			return nil, err
		}
		progress(i+1, len(all))
		if err != nil {
			continue // a method may not terminate because of HDeepRM's defects; skip it
		}
		results[way.Name], runs[way.Name] = r.Summary(), r
	}
	found, err := sweep.FrontOf(results)
	if err != nil {
		return nil, err
	}
	choice, err := found.Choose(weigh(found, p))
	if err != nil {
		return nil, usageError{fmt.Errorf("--prefer: %w", err)}
	}
	var on []string
	for _, q := range found.Points {
		if q.OnFront {
			on = append(on, q.Name)
		}
	}
	w.Notes = append(w.Notes, fmt.Sprintf("of %d ways the preference %v picks %s", len(all), weigh(found, p), choice.Name),
		fmt.Sprintf("no other way beats these in all metrics: %s", strings.Join(on, ", ")))
	return runs[choice.Name], nil
}
