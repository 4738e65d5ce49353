package perf

import (
	"math"

	"trainopt/resources"
	"trainopt/sla"
)

// Objectives are the reward components of the job, in order. All are relative: 1 is the whole run at the baseline
// and, for the SLA, one missed limit.
var Objectives = []string{"cost", "time", "resource", "sla"}

// StateSize is the length of a State.
const StateSize = 21

// State is the observation of a learning agent: StateSize numbers, each defined and normalised by its row of
// stateTable. The underlying paper (SLA-MORL, arXiv 2508.03509) specifies the number 21 and the groups but not the
// components; the list is defined here.
type State [StateSize]float64

// StateInput is the complete input of a State. Unknown numbers are NaN; zero limits are not part of the SLA.
type StateInput struct {
	Allocation resources.Allocation
	Limits     resources.Limits

	GPUUtil, CPUUtil float64 // recent, %, CPU relative to the allocated CPUs
	MemoryGiB        float64 // used by the job

	Done, Total float64 // units of work; Total 0 when unknown
	Throughput  float64 // recent, samples/s
	Elapsed     float64 // s
	SpentUSD    float64

	// Spec provides the scales: time, cost and throughput are relative to its limits. The Reference* fields replace
	// absent limits: the predicted seconds, cost and throughput of the baseline; 0 when unknown.
	Spec                                             sla.Spec
	ReferenceSeconds, ReferenceUSD, ReferenceSamples float64

	// Verdicts are the SLA verdicts on projected values; absent objectives are not part of the SLA.
	Verdicts []sla.Verdict
	// Probing is true while allocations are being measured, false at the chosen allocation.
	Probing bool
}

// stateRow defines one component of State.
type stateRow struct {
	Name string
	// Definition describes the component, with the range after clipping.
	Definition string
	// Unknown is the value for missing data.
	Unknown float64
	lo, hi  float64
	value   func(*StateInput) float64 // NaN: unknown
}

// slaTerms are the five SLA terms of the state. Utilization joins GPU and CPU; the worse one counts.
var slaTerms = [5]struct {
	name       string
	objectives []sla.Objective
}{
	{"time", []sla.Objective{sla.Time}},
	{"cost", []sla.Objective{sla.Cost}},
	{"throughput", []sla.Objective{sla.Throughput}},
	{"memory", []sla.Objective{sla.Memory}},
	{"utilisation", []sla.Objective{sla.GPUUtil, sla.CPUUtil}},
}

// stateTable defines State, row by row. Missing data is -1 where 0 would be a value; a met bit without data is 0.5.
var stateTable = func() [StateSize]stateRow {
	t := [StateSize]stateRow{
		{"gpus", "GPUs / most allowed, 0…1; 0 when none are allowed", 0, 0, 1, func(i *StateInput) float64 {
			return share(float64(i.Allocation.GPUs), float64(i.Limits.GPUs.Max))
		}},
		{"cpus", "CPUs / most allowed, 0…1", -1, 0, 1, func(i *StateInput) float64 {
			return share(float64(i.Allocation.CPUs), float64(i.Limits.CPUs.Max))
		}},
		{"memory", "memory / most allowed, 0…1", -1, 0, 1, func(i *StateInput) float64 {
			return share(float64(i.Allocation.Memory), float64(i.Limits.MemoryMax))
		}},
		{"gpu_util", "mean GPU utilization / 100 %, 0…1", -1, 0, 1, func(i *StateInput) float64 { return i.GPUUtil / 100 }},
		{"cpu_util", "utilization of the allocated CPUs / 100 %, 0…1", -1, 0, 1, func(i *StateInput) float64 { return i.CPUUtil / 100 }},
		{"memory_util", "memory used / memory allocated, 0…1", -1, 0, 1, func(i *StateInput) float64 {
			return share(i.MemoryGiB, float64(i.Allocation.Memory))
		}},
		{"progress", "units done / total units, 0…1", -1, 0, 1, func(i *StateInput) float64 { return share(i.Done, i.Total) }},
		{"throughput", "log2(throughput / reference) / 4, -0.99…1: 0 is the reference", -1, -0.99, 1, func(i *StateInput) float64 {
			return math.Log2(share(i.Throughput, limitOr(i.Spec.ThroughputMin, i.ReferenceSamples))) / 4
		}},
		{"time", "elapsed / agreed time (or that of the user's own configuration), 0…2", -1, 0, 2, func(i *StateInput) float64 {
			return share(i.Elapsed, limitOr(i.Spec.TimeMax.Seconds(), i.ReferenceSeconds))
		}},
		{"cost", "spent / agreed cost (or that of the user's own configuration), 0…2", -1, 0, 2, func(i *StateInput) float64 { return share(i.SpentUSD, limitOr(i.Spec.CostMaxUSD, i.ReferenceUSD)) }},
	}
	for k, term := range slaTerms {
		t[10+k] = stateRow{"met_" + term.name, "1 met or not agreed, 0.5 at risk or no data, 0 violated", 0.5, 0, 1,
			func(i *StateInput) float64 { return metBit(i.Verdicts, term.objectives) }}
		t[15+k] = stateRow{"severity_" + term.name, "relative excess or shortfall of the projected value, 0…1; 0 when not agreed", 0, 0, 1,
			func(i *StateInput) float64 { return severity(i.Verdicts, term.objectives) }}
	}
	t[20] = stateRow{"phase", "0 probing, 1 running", 0, 0, 1, func(i *StateInput) float64 {
		if i.Probing {
			return 0
		}
		return 1
	}}
	return t
}()

// BuildState computes the state. Every component is finite for any input.
func BuildState(in StateInput) State {
	var s State
	for i, r := range stateTable {
		v := r.value(&in)
		if math.IsNaN(v) {
			s[i] = r.Unknown
		} else {
			s[i] = min(max(v, r.lo), r.hi)
		}
	}
	return s
}

// share returns part / whole, NaN when either is unknown or whole is not positive.
func share(part, whole float64) float64 {
	if !(whole > 0) || math.IsInf(whole, 0) || part < 0 {
		return math.NaN()
	}
	return part / whole
}

// metBit returns the worst status of the given objectives: 1 met, 0.5 at risk or unknown, 0 violated; 1 without a
// verdict.
func metBit(verdicts []sla.Verdict, of []sla.Objective) float64 {
	bit := 1.0
	for _, v := range verdicts {
		for _, o := range of {
			if v.Objective != o {
				continue
			}
			switch v.Status {
			case sla.Violated:
				bit = 0
			case sla.AtRisk, sla.Unknown:
				bit = min(bit, 0.5)
			}
		}
	}
	return bit
}

// severity returns the largest severity of the given objectives, 0 without a verdict.
func severity(verdicts []sla.Verdict, of []sla.Objective) float64 {
	worst := 0.0
	for _, v := range verdicts {
		for _, o := range of {
			if v.Objective == o && v.Severity != nil && *v.Severity > worst {
				worst = *v.Severity
			}
		}
	}
	return worst
}

func limitOr(agreed, reference float64) float64 {
	if agreed > 0 {
		return agreed
	}
	return reference
}

// Reward is the vector reward of one unit of work at an allocation. Every component is ≤ 0, higher is better, NaN is
// unknown. The step is a unit of work rather than of time, so that a slow allocation earns no additional steps.
type Reward struct {
	Cost     float64 // -USD per unit
	Time     float64 // -hours per unit
	Resource float64 // -(share of the limits held) × hours per unit
	SLA      float64 // -sum of the projected SLA severities, each 0…1
}

// RewardInput is the input of RewardOf.
type RewardInput struct {
	UnitSeconds float64 // measured or predicted seconds per unit, NaN when unknown
	USDPerHour  float64 // price of the allocation
	Allocation  resources.Allocation
	Limits      resources.Limits
	Verdicts    []sla.Verdict
}

// RewardOf returns the reward of one unit of work.
func RewardOf(in RewardInput) Reward {
	hours := in.UnitSeconds / 3600
	var debt float64
	for _, term := range slaTerms {
		debt += severity(in.Verdicts, term.objectives)
	}
	return Reward{Cost: -in.USDPerHour * hours, Time: -hours, Resource: -ResourceShare(in.Allocation, in.Limits) * hours, SLA: -debt}
}

// ResourceShare returns the share of the limits that an allocation holds, 0…1: the mean over GPUs, CPUs and memory of
// given / maximum allowed, without resources that have no limit.
func ResourceShare(a resources.Allocation, l resources.Limits) float64 {
	var sum, n float64
	for _, s := range [3]float64{
		share(float64(a.GPUs), float64(l.GPUs.Max)), share(float64(a.CPUs), float64(l.CPUs.Max)), share(float64(a.Memory), float64(l.MemoryMax)),
	} {
		if !math.IsNaN(s) {
			sum += min(s, 1)
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}
