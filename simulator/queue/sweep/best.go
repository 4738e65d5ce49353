package sweep

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"trainopt/optimizer/schedule/order"
	"trainopt/simulator/ancestors/hdeeprm"
	"trainopt/simulator/queue"
)

// candidates returns the methods that Best runs: on equal processors every order with every backfilling; on platforms
// the deterministic pairs of HDeepRM, and simple orders with EASY backfilling and every placement.
func candidates(platform, compat bool, objective string) []Named {
	var out []Named
	if !platform {
		for _, order := range slices.Sorted(maps.Keys(order.Orders)) {
			for _, backfill := range []string{"none", "easy", "conservative"} {
				out = append(out, Named{Name: order + "+" + backfill, Method: Method{Policy: order, Backfill: backfill}})
			}
		}
		return out
	}
	for _, pair := range hdeeprm.Table() {
		if !pair.Random() {
			out = append(out, Named{Name: pair.String(), Method: Method{Policy: pair.String(), Compat: compat}})
		}
	}
	for _, order := range []string{"fcfs", "saf", "sjf", "smallest"} {
		for _, placement := range queue.Placements() {
			out = append(out, Named{Name: order + "+easy+" + placement, Method: Method{Policy: order, Backfill: "easy", Placement: placement, Objective: objective}})
		}
	}
	return out
}

// PreferenceError is the error for a preference that cannot select from a front.
type PreferenceError struct{ Err error }

func (e PreferenceError) Error() string { return e.Err.Error() }
func (e PreferenceError) Unwrap() error { return e.Err }

// Best runs many methods on a window and returns the run that a preference selects from their Pareto front. The seed, the
// objective and Compat are those of m. Methods that fail are omitted, since they may not terminate because of HDeepRM's
// defects.
func (w *Workload) Best(ctx context.Context, m Method, window Window, p Preference) (*Run, error) {
	all := candidates(w.Tree != nil, m.Compat, m.Objective)
	results, runs := map[string]queue.Summary{}, map[string]*Run{}
	for i, c := range all {
		c.Method.Seed = m.Seed
		r, err := w.Run(ctx, c.Method, window)
		if ctx.Err() != nil {
			return nil, err
		}
		if m.Progress != nil {
			m.Progress(i+1, len(all))
		}
		if err == nil {
			results[c.Name], runs[c.Name] = r.Summary(), r
		}
	}
	found, err := frontOf(results)
	if err != nil {
		return nil, err
	}
	restricted := found.Restrict(p)
	choice, err := found.Choose(restricted)
	if err != nil {
		return nil, PreferenceError{err}
	}
	var on []string
	for _, q := range found.Points {
		if q.OnFront {
			on = append(on, q.Name)
		}
	}
	w.Notes = append(w.Notes, fmt.Sprintf("of %d methods the preference %v selects %s", len(all), restricted, choice.Name),
		fmt.Sprintf("no other method dominates these: %s", strings.Join(on, ", ")))
	return runs[choice.Name], nil
}
