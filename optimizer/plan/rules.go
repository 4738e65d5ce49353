package plan

import (
	"fmt"
	"math"

	"trainopt/resources"
)

// rules is the decision rule that SLA-MORL (Jul 2025) ships in place of its agent, kept as a reference policy: fixed
// thresholds on GPU utilization, without a model or constraints.
//
//	time      utilization > 70 % and room: +2 GPU, +8 CPU, +16 GiB; else +4 CPU
//	cost      utilization < 5 %: 1 GPU (0 when < 1 % and at least 8 CPUs), < 50 %: -1 GPU;
//	          -4 CPU and -8 GiB when the throughput is over 1.5 × the SLA minimum
//	resource  utilization < 5 %: 1 GPU (0 when < 1 %), < 40 %: -1, > 90 %: +1; then 4 CPUs and 8 GiB per GPU
//	balanced  unchanged
//
// Batch size (only when the script allows a range): 128 per GPU for time; otherwise the baseline's batch per GPU ×
// GPUs, at least 75 % of the baseline's when utilization is below 15 %, at least 32.
//
// The rule starts from Current, or else Baseline (the original starts from the end of a random walk). Unknown
// utilization or throughput triggers no rule. Results are clipped to the limits. Mixed preferences follow their
// largest weight.
type rules struct{}

var _ Planner = rules{}

// Name returns "rules".
func (rules) Name() string { return "rules" }

// Decide applies the rule. With a model, the choice is predicted and checked like any other; it is not changed,
// except for the baseline where that is held. *Infeasible is returned when no allowed allocation meets the SLA.
func (p rules) Decide(s Snapshot) (Plan, error) {
	from := s.Baseline
	if s.Current != nil {
		from = *s.Current
	}
	prefer := s.Preference.leading()
	to := clip(applyRule(prefer, from, s), s)
	if to.SameShape(from) {
		to.GPUIDs = from.GPUIDs
	}
	util := "unknown"
	if !math.IsNaN(s.GPUUtil) {
		util = fmt.Sprintf("%.0f %%", s.GPUUtil)
	}
	reason := fmt.Sprintf("rule for %s at GPU utilization %s: %s → %s", prefer, util, from, to)
	return fixed(p.Name(), s, to, reason)
}

// applyRule returns the allocation after the rule of one preset, before clipping.
func applyRule(prefer string, from resources.Allocation, s Snapshot) resources.Allocation {
	a, util := from, s.GPUUtil // comparisons with NaN are false: no rule applies
	a.GPUIDs = nil
	switch prefer {
	case "time":
		if util > 70 && a.GPUs < s.Limits.GPUs.Max {
			a.GPUs, a.CPUs, a.Memory = a.GPUs+2, a.CPUs+8, a.Memory+16
		} else {
			a.CPUs += 4
		}
	case "cost":
		switch {
		case util < 1 && a.CPUs >= 8:
			a.GPUs = 0
		case util < 5:
			a.GPUs = min(a.GPUs, 1)
		case util < 50:
			a.GPUs--
		}
		if s.Spec.ThroughputMin > 0 && s.Throughput > 1.5*s.Spec.ThroughputMin {
			a.CPUs, a.Memory = a.CPUs-4, max(a.Memory-8, 1)
		}
	case "resource":
		switch {
		case util < 1:
			a.GPUs = 0
		case util < 5:
			a.GPUs = min(a.GPUs, 1)
		case util < 40:
			a.GPUs--
		case util > 90:
			a.GPUs++
		}
		if from.GPUs > 0 { // the published rule sizes by GPU and does not cover CPU jobs
			gpus := clip(a, s).GPUs
			a.CPUs, a.Memory = 4*gpus, resources.GiB(8*gpus)
		}
	}
	a.BatchSize = ruleBatch(prefer, clip(a, s).GPUs, s)
	return a
}

// ruleBatch returns the batch size of the rule; 0 is the default of the script.
func ruleBatch(prefer string, gpus int, s Snapshot) int {
	own := s.Baseline.BatchSize
	if s.Limits.BatchSize.Max <= 0 {
		return own
	}
	if prefer == "time" && gpus > 0 {
		return 128 * gpus
	}
	if own == 0 {
		return 0
	}
	batch := own / max(1, s.Baseline.GPUs) * max(1, gpus)
	if s.GPUUtil < 15 {
		batch = max(batch, int(0.75*float64(own)))
	}
	return max(batch, 32)
}

// fixed returns the plan for an allocation chosen without the model, with its prediction where a model exists. If the
// allocation is not among the candidates it is added to them. Where the baseline is held and the allocation is
// slower, the baseline is returned.
func fixed(planner string, s Snapshot, a resources.Allocation, reason string) (Plan, error) {
	if s.Model == nil {
		return unpredicted(planner, a, reason), nil
	}
	b := newEvaluation(s)
	at := -1
	for i, c := range b.cs {
		if c.Allocation.SameShape(a) && c.Allocation.Memory == a.Memory {
			at = i
		}
	}
	if at < 0 {
		at = b.add(b.forecast.outcome(a))
		b.excludeSlower()
		b.mark()
	}
	if len(where(b.cs, feasible)) == 0 {
		return b.infeasible(planner, at)
	}
	if b.cs[at].Slower {
		at = b.baseline
		a, reason = b.cs[at].Allocation, fmt.Sprintf("%s, which is predicted slower than the baseline: the baseline is kept", reason)
	}
	if !finite(b.cs[at]) {
		return Plan{}, fmt.Errorf("plan %s: %w", a, errNothingPredicted)
	}
	p := b.plan(planner, at, reason)
	p.Allocation = a
	return p, nil
}
