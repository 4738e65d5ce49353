package perf

import (
	"math"
	"slices"

	"trainopt/cost"
	"trainopt/resources"
	"trainopt/sla"
)

// Outlook is the information available when an allocation is chosen for the rest of a job: limits and measurements,
// never the simulated truth. Simulated and real decisions use the same Outlook.
type Outlook struct {
	Limits      resources.Limits
	Spec        sla.Spec
	Rates       cost.Rates
	Model       *Model
	Done, Total float64 // units of work, Total > 0
	Elapsed     float64 // seconds
	SpentUSD    float64
	// Current is the running allocation, nil before the start; Baseline is the allocation without optimize.
	Current  *resources.Allocation
	Baseline resources.Allocation
	// Startup and Restart are the expected seconds of a first start and of one more restart.
	Startup, Restart float64
	// Own is the predicted whole run at Baseline, the unit of all relative values. Weigh sets it when zero.
	Own BaselineRun
}

// AllocationOutlook is the outlook at one allocation.
type AllocationOutlook struct {
	Allocation resources.Allocation
	State      State
	// Potential is the negated expected remainder of the run at the allocation, including the move: USD, seconds and
	// share of the limits × seconds, each relative to the whole run at the baseline; and the negated probability of
	// missing the deadline or the budget.
	Potential [4]float64
	// Chance is the probability of meeting both the deadline and the budget.
	Chance float64
}

// OutlookAt predicts the rest of the run at an allocation. O(draws). The utilization in the state is the predicted
// scaling efficiency relative to one device of the kind, since measured profiles contain no other. Weigh sets Own and
// is therefore not safe for concurrent use before Own is set.
func (o *Outlook) OutlookAt(a resources.Allocation) AllocationOutlook {
	if o.Own.Seconds == 0 {
		o.Own = o.own()
	}
	unit := o.Model.Draws(a)
	delay := o.delay(a)
	hourly := float64(o.Rates.Hourly(a))
	left := max(0, o.Total-o.Done)
	seconds, usd := make([]float64, len(unit)), make([]float64, len(unit))
	var met, meanSeconds float64
	timeMax, costMax := o.Spec.TimeMax.Seconds(), o.Spec.CostMaxUSD
	for k, u := range unit {
		t := left*u + delay
		meanSeconds += t / float64(len(unit))
		seconds[k], usd[k] = o.Elapsed+t, o.SpentUSD+t/3600*hourly
		if (timeMax <= 0 || seconds[k] <= timeMax) && (costMax <= 0 || usd[k] <= costMax) {
			met += 1 / float64(len(unit))
		}
	}
	share := ResourceShare(a, o.Limits)
	w := AllocationOutlook{Allocation: a, Chance: min(1, met)}
	w.Potential = [4]float64{-meanSeconds / 3600 * hourly / o.Own.USD, -meanSeconds / o.Own.Seconds,
		-meanSeconds * share / (o.Own.Seconds * o.Own.Share), -(1 - w.Chance)}
	w.State = o.state(a, sla.Quantiles(unit).P50, sla.Quantiles(seconds), sla.Quantiles(usd))
	return w
}

// delay returns the expected time to reach an allocation, in seconds.
func (o *Outlook) delay(a resources.Allocation) float64 {
	switch {
	case o.Current == nil:
		return o.Startup
	case o.Current.SameShape(a):
		return 0
	}
	return o.Restart
}

// own returns the predicted whole run at the baseline.
func (o *Outlook) own() BaselineRun {
	seconds := o.Startup + o.Total*o.Model.UnitSeconds(o.Baseline).P50
	return BaselineRun{Seconds: seconds, USD: max(1e-9, seconds/3600*float64(o.Rates.Hourly(o.Baseline))), Share: max(1e-9, ResourceShare(o.Baseline, o.Limits))}
}

// state builds the agent's state from the prediction for one allocation.
func (o *Outlook) state(a resources.Allocation, unit float64, seconds, usd sla.Interval) State {
	per := o.Model.UnitSamples()
	measures := map[sla.Objective]sla.Measure{
		sla.Time: {Value: o.Elapsed, Projected: &seconds}, sla.Cost: {Value: o.SpentUSD, Projected: &usd}, sla.Memory: {Value: o.Model.PeakMemoryGiB()},
		sla.GPUUtil: {Value: math.NaN()}, sla.CPUUtil: {Value: math.NaN()}, sla.Throughput: {Value: math.NaN()},
	}
	if per > 0 {
		measures[sla.Throughput] = sla.Measure{Value: per / unit}
	} else {
		per = 1
	}
	one := a
	one.CPUs = 1
	cpu := 100 * o.Model.median(one) / (float64(a.CPUs) * unit)
	gpu := math.NaN()
	if one = a; a.GPUs > 0 {
		one.GPUs = 1
		gpu = 100 * o.Model.median(one) / (float64(a.GPUs) * unit)
	}
	return BuildState(StateInput{Allocation: a, Limits: o.Limits, GPUUtil: gpu, CPUUtil: cpu, MemoryGiB: o.Model.PeakMemoryGiB(),
		Done: o.Done, Total: o.Total, Throughput: per / unit, Elapsed: o.Elapsed, SpentUSD: o.SpentUSD, Spec: o.Spec,
		ReferenceSeconds: o.Own.Seconds, ReferenceUSD: o.Own.USD, ReferenceSamples: per * o.Total / o.Own.Seconds,
		Verdicts: sla.Evaluate(o.Spec, measures), Probing: o.Current == nil || !o.Current.SameShape(a)})
}

// BaselineRun is the predicted whole run at the baseline: seconds, USD, share of the limits held (0…1).
type BaselineRun struct{ Seconds, USD, Share float64 }

// median returns the approximate posterior median of the seconds per unit, from a subset of the draws.
func (m *Model) median(a resources.Allocation) float64 {
	log := m.at(a).log
	var out [31]float64
	for i := range out {
		out[i] = log[i*len(log)/len(out)]
	}
	slices.Sort(out[:])
	return math.Exp(out[len(out)/2])
}
