package sla

import "time"

// Interval is a predicted quantity: the 5th, 50th and 95th percentile. P5 ≤ P50 ≤ P95.
type Interval struct {
	P5  float64 `json:"p5"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Spec is the agreement for one run. It does not change during a run. A zero field is not agreed.
type Spec struct {
	TimeMax       time.Duration // finish within, from the start of the run, probes and restarts included
	CostMaxUSD    float64       // spend at most, USD
	ThroughputMin float64       // samples/s
	MemoryMaxGiB  float64       // peak host memory of the job, GiB
	GPUUtilMinPct float64       // mean GPU utilisation, %
	CPUUtilMinPct float64       // mean utilisation of the allocated CPUs, %
}

// Objective names one term of a Spec.
type Objective string

// The objectives, in the order in which they are always listed.
const (
	Time       Objective = "time"       // s
	Cost       Objective = "cost"       // USD
	Throughput Objective = "throughput" // samples/s
	Memory     Objective = "memory"     // GiB
	GPUUtil    Objective = "gpu_util"   // %
	CPUUtil    Objective = "cpu_util"   // %
)

// Status is the state of one objective.
type Status string

// AtRisk means: met so far, but the projection to completion says that it may not hold.
// Unknown means: no data; it is never counted as met or violated.
const (
	Met      Status = "met"
	Violated Status = "violated"
	AtRisk   Status = "at-risk"
	Unknown  Status = "unknown"
)

// Verdict is the judgement of one objective at one moment.
type Verdict struct {
	Objective Objective `json:"objective"`
	Limit     float64   `json:"limit"`
	// Value is what was measured so far, nil when there is no data.
	Value *float64 `json:"value"`
	// Projected is the value at completion, nil when it cannot be projected.
	Projected *Interval `json:"projected"`
	Unit      string    `json:"unit"` // "s", "USD", "samples/s", "GiB", "%"
	Status    Status    `json:"status"`
	// Severity is the relative excess (maxima) or shortfall (minima) of the projected value, 0…1, nil
	// when unknown.
	Severity *float64 `json:"severity"`
}
