package sla

import (
	"slices"
	"time"

	"trainopt/internal/stat"
)

// Interval is a prediction: its 5th, 50th and 95th percentile, P5 ≤ P50 ≤ P95. It is the interval type of all packages:
// optimizer/perf makes it from the posterior of a performance model, optimizer/plan and optimizer/run from the draws of a
// run, optimizer/history/transfer from earlier runs, optimizer/predict from products and sums of other intervals,
// optimizer/analysis from a single measurement (three equal percentiles), and [Forecast] from the values of earlier runs.
// docs/prediction.md states the methods. Confidence intervals of a mean (optimizer/analysis, simulator/experiment) are
// not predictions and have other types.
type Interval struct {
	P5  float64 `json:"p5"`
	P50 float64 `json:"p50"`
	P95 float64 `json:"p95"`
}

// Quantiles returns the interval of draws, interpolated linearly between order statistics; NaN without draws. It sorts them.
// O(n log n).
func Quantiles(draws []float64) Interval {
	slices.Sort(draws)
	return Interval{P5: stat.Quantile(draws, 0.05), P50: stat.Quantile(draws, 0.5), P95: stat.Quantile(draws, 0.95)}
}

// Spec contains the limits of one run. It does not change during a run. A zero field sets no limit.
type Spec struct {
	TimeMax       time.Duration // deadline from the start of the run, probes and restarts included
	CostMaxUSD    float64       // budget, USD
	ThroughputMin float64       // samples/s
	MemoryMaxGiB  float64       // peak host memory of the job, GiB
	GPUUtilMinPct float64       // mean GPU utilization, %
	CPUUtilMinPct float64       // mean utilization of the allocated CPUs, %
}

// Objective names one target of a Spec.
type Objective string

// The objectives, in the fixed order of every list.
const (
	Time       Objective = "time"       // s
	Cost       Objective = "cost"       // USD
	Throughput Objective = "throughput" // samples/s
	Memory     Objective = "memory"     // GiB
	GPUUtil    Objective = "gpu_util"   // %
	CPUUtil    Objective = "cpu_util"   // %
)

// Status is the status of one objective.
type Status string

// AtRisk means met so far, but with a projection to completion that may break the limit. Unknown means no data; it
// counts neither as met nor as violated.
const (
	Met      Status = "met"
	Violated Status = "violated"
	AtRisk   Status = "at-risk"
	Unknown  Status = "unknown"
)

// Verdict is the evaluation of one objective at one moment.
type Verdict struct {
	Objective Objective `json:"objective"`
	Limit     float64   `json:"limit"`
	// Value is the measurement so far; nil without data.
	Value *float64 `json:"value"`
	// Projected is the value at completion; nil without a projection.
	Projected *Interval `json:"projected"`
	Unit      string    `json:"unit"` // "s", "USD", "samples/s", "GiB", "%"
	Status    Status    `json:"status"`
	// Severity is the relative excess (maxima) or shortfall (minima) of the projected value, 0…1; nil if unknown.
	Severity *float64 `json:"severity"`
}
