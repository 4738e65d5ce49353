package remote

import (
	"context"
	"math"
	"slices"
	"time"

	"trainopt/cost"
	"trainopt/optimizer/engine"
	"trainopt/resources"
	"trainopt/sla"
)

// Observable is an engine whose queue and history can be read.
type Observable interface {
	Queue(ctx context.Context, now time.Time) (engine.Queue, error)
	History(ctx context.Context, since time.Time) (engine.History, error)
}

// historyOf is the time over which ended jobs are read for a forecast.
const historyOf = 7 * 24 * time.Hour

// unlimited is the limit by which the start of a job without one is predicted, as Slurm plans it.
const unlimited = 365 * 24 * time.Hour

// drawsElsewhere is the number of simulations for each of the other places.
const drawsElsewhere = 60

// Forecasts predicts the start of a job at the place of an allocation, and at up to others other kinds of nodes that can
// run it, the ones with the earliest starts; those not predicted when ctx ends are left out. user submits the job of a training called name (engine.TrainingOf); runs is its expected run time, 0 if unknown; unit is
// the price of a billing unit, 0 for default rates.
func Forecasts(ctx context.Context, eng Observable, offers []engine.Offer, chosen engine.Offer, a resources.Allocation, user, name string, runs time.Duration,
	unit cost.USD, others int) ([]engine.Forecast, error) {
	now := time.Now()
	q, err := eng.Queue(ctx, now)
	if err != nil {
		return nil, err
	}
	h, err := eng.History(ctx, now.Add(-historyOf))
	if err != nil {
		return nil, err
	}
	at := func(o engine.Offer, draws int) (engine.Forecast, error) {
		p := o.Place(a)
		limit := o.Longest
		if runs > 0 {
			limit = runs + 2*time.Minute
		} else if limit == 0 && o.Usual > 0 { // which the job does not get
			limit = unlimited
		}
		f := engine.Forecast{Place: p, ByLimits: math.NaN()}
		r, err := engine.Predict(q, engine.Job{User: user, Name: name, Place: p, Exclusive: o.Whole, Limit: limit, Submitted: now}, h, engine.Options{Draws: draws})
		if err != nil {
			return f, err
		}
		after := func(t time.Time) float64 {
			if t.IsZero() {
				return (30 * 24 * time.Hour).Seconds() // the horizon of the prediction
			}
			return max(0, t.Sub(now).Seconds())
		}
		f.Wait = sla.Interval{P5: after(r.P5), P50: after(r.P50), P95: after(r.P95)}
		if !r.ByLimits.IsZero() {
			f.ByLimits = after(r.ByLimits)
		}
		f.Ahead, f.Observed, f.Words = r.Ahead, r.Observed, r.String()
		if unit > 0 {
			f.Rates, _ = o.Rates(unit) // without weights those of the run
		} else {
			rates := cost.Default(gpuOf(o, a))
			f.Rates = &rates
		}
		if f.Rates != nil {
			if o.Whole {
				*f.Rates = f.Rates.WholeMachine(resources.Allocation{GPUs: o.GPUs, CPUs: o.CPUs, Memory: o.Memory})
			}
			*f.Rates = f.Rates.Times(o.PerJob)
		}
		return f, nil
	}
	first, err := at(chosen, 0)
	if err != nil {
		return nil, err
	}
	first.Same, first.Rates = true, nil
	seen := map[string]bool{first.Place.String(): true}
	var list []engine.Forecast
	for _, o := range offers {
		name := o.Place(a).String()
		if others == 0 || ctx.Err() != nil {
			break
		}
		if seen[name] || o.CPUs < a.CPUs || o.GPUs < a.GPUs || o.Nodes == 0 || a.GPUs > 0 && o.Nodes < o.PerJob {
			continue
		}
		if f, err := at(o, drawsElsewhere); err == nil { // a place that cannot be predicted is no alternative
			seen[name] = true
			list = append(list, f)
		}
	}
	slices.SortStableFunc(list, func(x, y engine.Forecast) int {
		switch {
		case x.Wait.P50 < y.Wait.P50:
			return -1
		case x.Wait.P50 > y.Wait.P50:
			return 1
		}
		return 0
	})
	return append([]engine.Forecast{first}, list[:min(len(list), others)]...), nil
}

func gpuOf(o engine.Offer, a resources.Allocation) string {
	if a.GPUs == 0 && !o.Whole {
		return ""
	}
	return o.GPUType
}
