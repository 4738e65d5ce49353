package run

import (
	"math"

	"trainopt/sla"
)

// Terms that the prediction of the whole run adds to that of its units of work. The model represents the scatter
// between observed units and segments; a short measurement shows neither the slow drift of a machine nor the end of
// the process.
const (
	driftShare  = 0.03 // of the remaining time: 5 and 95 % quantiles of slow drift
	endShare    = 0.12 // of the start-up: median time from the last unit of work to the exit (final save, interpreter exit)
	endShareMax = 0.35 // its 95 % quantile
	endLeast    = 0.3  // seconds added to that quantile, for polling and for a process without start-up

	closingSpread = 0.6 // relative error of the observer's estimate of the framework's work after the last epoch
)

// wholeRun extends the interval of the completion time of the last unit of work, and of its cost, to the end of the
// run. now is the elapsed time in s; hourly is the price of the remaining time in USD.
func (r *run) wholeRun(sec, usd sla.Interval, now, hourly float64) (sla.Interval, sla.Interval) {
	startup, closing := r.startup().P50, 0.0
	if r.observer != nil {
		closing = r.observer.facts.Closing.Seconds()
	}
	drift := driftShare * math.Max(0, sec.P50-now)
	add := func(v float64, seconds float64) float64 { return v + seconds/3600*hourly }
	early, usual, late := -drift, endShare*startup, drift+endShareMax*startup+endLeast
	early = math.Min(math.Max(early, now-sec.P5), 0) + closing*(1-closingSpread)
	usual, late = usual+closing, late+closing*(1+closingSpread)
	return sla.Interval{P5: sec.P5 + early, P50: sec.P50 + usual, P95: sec.P95 + late},
		sla.Interval{P5: math.Max(0, add(usd.P5, early)), P50: add(usd.P50, usual), P95: add(usd.P95, late)}
}
