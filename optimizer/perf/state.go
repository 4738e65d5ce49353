package perf

import (
	"math"

	"trainopt/resources"
	"trainopt/sla"
)

// Objectives of the job's rewards, in order. All are relative: 1 is the whole run at the user's own configuration, for
// the agreement one missed limit.
var Objectives = []string{"cost", "time", "resource", "sla"}

// StateSize is the length of a State.
const StateSize = 21

// State is what a learning agent sees of a job: StateSize numbers, each defined and normalised by its row of
// StateTable. The paper behind it (SLA-MORL, arXiv 2508.03509) gives the number 21 and the groups, not the
// list; the list is ours.
type State [StateSize]float64

// StateInput is everything from which a State is computed. Unknown numbers are NaN; zero limits are not agreed.
type StateInput struct {
	Allocation resources.Allocation
	Limits     resources.Limits

	GPUUtil, CPUUtil float64 // measured lately, %, CPU relative to the allocated CPUs
	MemoryGiB        float64 // used by the job

	Done, Total float64 // units of work; Total 0 when unknown
	Throughput  float64 // measured lately, samples/s
	Elapsed     float64 // s
	SpentUSD    float64

	// Spec gives the scales: time, cost and throughput relative to what was agreed. Reference* are used for what
	// was not: the predicted seconds, cost and throughput of the user's own configuration; 0 when unknown.
	Spec                                             sla.Spec
	ReferenceSeconds, ReferenceUSD, ReferenceSamples float64

	// Verdicts are the judgement of the agreement on projected values; objectives that are absent are not agreed.
	Verdicts []sla.Verdict
	// Probing is true while allocations are being measured, false when the run is at its chosen one.
	Probing bool
}

// StateRow defines one component of State.
type StateRow struct {
	Name string
	// Definition, with the range after clipping.
	Definition string
	// Unknown is the value that stands for "no data".
	Unknown float64
	lo, hi  float64
	value   func(*StateInput) float64 // NaN: unknown
}

// slaTerms are the five terms of the agreement in the state: utilisation joins GPU and CPU, the worse one counts.
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

// StateTable defines State, row by row. -1 is "no data" where 0 would be a value; a met bit without data is 0.5.
var StateTable = func() [StateSize]StateRow {
	t := [StateSize]StateRow{
		{"gpus", "GPUs / most allowed, 0…1; 0 when none are allowed", 0, 0, 1, func(i *StateInput) float64 {
			return share(float64(i.Allocation.GPUs), float64(i.Limits.GPUs.Max))
		}},
		{"cpus", "CPUs / most allowed, 0…1", -1, 0, 1, func(i *StateInput) float64 {
			return share(float64(i.Allocation.CPUs), float64(i.Limits.CPUs.Max))
		}},
		{"memory", "memory / most allowed, 0…1", -1, 0, 1, func(i *StateInput) float64 {
			return share(float64(i.Allocation.Memory), float64(i.Limits.MemoryMax))
		}},
		{"gpu_util", "mean GPU utilisation / 100 %, 0…1", -1, 0, 1, func(i *StateInput) float64 { return i.GPUUtil / 100 }},
		{"cpu_util", "utilisation of the allocated CPUs / 100 %, 0…1", -1, 0, 1, func(i *StateInput) float64 { return i.CPUUtil / 100 }},
		{"memory_util", "memory used / memory allocated, 0…1", -1, 0, 1, func(i *StateInput) float64 {
			return share(i.MemoryGiB, float64(i.Allocation.Memory))
		}},
		{"progress", "units done / total units, 0…1", -1, 0, 1, func(i *StateInput) float64 { return share(i.Done, i.Total) }},
		{"throughput", "log2(throughput / reference) / 4, -0.99…1: 0 is the reference", -1, -0.99, 1, func(i *StateInput) float64 {
			return math.Log2(share(i.Throughput, agreedOr(i.Spec.ThroughputMin, i.ReferenceSamples))) / 4
		}},
		{"time", "elapsed / agreed time (or that of the user's own configuration), 0…2", -1, 0, 2, func(i *StateInput) float64 {
			return share(i.Elapsed, agreedOr(i.Spec.TimeMax.Seconds(), i.ReferenceSeconds))
		}},
		{"cost", "spent / agreed cost (or that of the user's own configuration), 0…2", -1, 0, 2, func(i *StateInput) float64 { return share(i.SpentUSD, agreedOr(i.Spec.CostMaxUSD, i.ReferenceUSD)) }},
	}
	for k, term := range slaTerms {
		t[10+k] = StateRow{"met_" + term.name, "1 met or not agreed, 0.5 at risk or no data, 0 violated", 0.5, 0, 1,
			func(i *StateInput) float64 { return metBit(i.Verdicts, term.objectives) }}
		t[15+k] = StateRow{"severity_" + term.name, "relative excess or shortfall of the projected value, 0…1; 0 when not agreed", 0, 0, 1,
			func(i *StateInput) float64 { return severity(i.Verdicts, term.objectives) }}
	}
	t[20] = StateRow{"phase", "0 probing, 1 running", 0, 0, 1, func(i *StateInput) float64 {
		if i.Probing {
			return 0
		}
		return 1
	}}
	return t
}()

// StateNames are the names of the components, in order.
func StateNames() [StateSize]string {
	var names [StateSize]string
	for i, r := range StateTable {
		names[i] = r.Name
	}
	return names
}

// BuildState computes the state; every component is finite whatever the input.
func BuildState(in StateInput) State {
	var s State
	for i, r := range StateTable {
		v := r.value(&in)
		if math.IsNaN(v) {
			s[i] = r.Unknown
		} else {
			s[i] = min(max(v, r.lo), r.hi)
		}
	}
	return s
}

// share is part / whole, NaN when either is unknown or the whole is not positive.
func share(part, whole float64) float64 {
	if !(whole > 0) || math.IsInf(whole, 0) || part < 0 {
		return math.NaN()
	}
	return part / whole
}

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

func agreedOr(agreed, reference float64) float64 {
	if agreed > 0 {
		return agreed
	}
	return reference
}

// Reward is the vector reward of being at an allocation, per unit of work; every component is ≤ 0, more is better,
// NaN is unknown. Work, not the clock, is the step, so that a slow allocation earns no extra steps.
type Reward struct {
	Cost     float64 // -USD per unit
	Time     float64 // -hours per unit
	Resource float64 // -(share of the limits held) × hours per unit
	SLA      float64 // -sum of the projected severities of the agreement, each 0…1
}

// Vector is the reward in the fixed order cost, time, resource, SLA debt.
func (r Reward) Vector() [4]float64 { return [4]float64{r.Cost, r.Time, r.Resource, r.SLA} }

// RewardInput is what a reward is computed from.
type RewardInput struct {
	UnitSeconds float64 // measured or predicted seconds per unit, NaN unknown
	USDPerHour  float64 // price of the allocation
	Allocation  resources.Allocation
	Limits      resources.Limits
	Verdicts    []sla.Verdict
}

// RewardOf computes the reward of one unit of work.
func RewardOf(in RewardInput) Reward {
	hours := in.UnitSeconds / 3600
	var debt float64
	for _, term := range slaTerms {
		debt += severity(in.Verdicts, term.objectives)
	}
	return Reward{Cost: -in.USDPerHour * hours, Time: -hours, Resource: -ResourceShare(in.Allocation, in.Limits) * hours, SLA: -debt}
}

// ResourceShare is the part of the limits that an allocation holds, 0…1: the mean over GPUs, CPUs and memory of
// given / most allowed, leaving out what has no limit.
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
