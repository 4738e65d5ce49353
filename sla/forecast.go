package sla

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// Baseline is the outcome of one finished run of the same work, the input of Forecast. A missing measurement is NaN;
// a time, cost, throughput or memory of 0 or less is treated as missing too.
type Baseline struct {
	Time       time.Duration // start to end
	CostUSD    float64
	Throughput float64 // mean, samples/s
	MemoryGiB  float64 // peak
	GPUUtilPct float64 // mean, %
	CPUUtilPct float64 // mean, %
}

// value returns the outcome for one objective, and whether it is known.
func (b Baseline) value(o Objective) (float64, bool) {
	switch o {
	case Time:
		return b.Time.Seconds(), b.Time > 0
	case Cost:
		return b.CostUSD, finite(b.CostUSD) && b.CostUSD > 0
	case Throughput:
		return b.Throughput, finite(b.Throughput) && b.Throughput > 0
	case Memory:
		return b.MemoryGiB, finite(b.MemoryGiB) && b.MemoryGiB > 0
	case GPUUtil:
		return b.GPUUtilPct, finite(b.GPUUtilPct) && b.GPUUtilPct >= 0
	case CPUUtil:
		return b.CPUUtilPct, finite(b.CPUUtilPct) && b.CPUUtilPct >= 0
	}
	return 0, false
}

const (
	slackAbove  = 1.1 // factor on the mean of the history for maxima
	slackBelow  = 0.9 // factor for minima
	minForRange = 3   // runs required for an interval
)

// Forecast derives limits from earlier runs of the same work: 1.1 × the mean for maxima and 0.9 × the mean for
// minima, the forecast rule of SLA-MORL. An objective without data in any run has no limit.
//
// The intervals are the 90 % prediction intervals of the next run, mean ± t(0.95, n−1)·s·√(1+1/n), for objectives
// with data from at least three runs; they assume normally distributed outcomes. Bounds are clamped at 0 and
// utilization also at 100. The error wraps errNoData if no run has data.
func Forecast(history []Baseline) (Spec, map[Objective]Interval, error) {
	var spec Spec
	intervals := map[Objective]Interval{}
	for _, t := range targets {
		values := make([]float64, 0, len(history))
		for _, b := range history {
			if v, ok := b.value(t.objective); ok {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		mean := stat.Mean(values, nil)
		slack := slackBelow
		if t.maximum {
			slack = slackAbove
		}
		if limit := slack * mean; t.check(limit) == nil {
			t.set(&spec, limit)
		}
		if len(values) >= minForRange {
			p := predict(values, mean)
			if t.unit == "%" {
				p.P95 = math.Min(p.P95, 100)
				p.P50 = math.Min(p.P50, 100)
			}
			intervals[t.objective] = p
		}
	}
	if len(spec.Agreed()) == 0 {
		return Spec{}, nil, fmt.Errorf("forecast an SLA from %d earlier runs: %w", len(history), errNoData)
	}
	return spec, intervals, nil
}

// predict returns the 90 % prediction interval of the next value; its lower bound is clamped at 0.
func predict(values []float64, mean float64) Interval {
	n := float64(len(values))
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: n - 1}.Quantile(0.95)
	half := t * stat.StdDev(values, nil) * math.Sqrt(1+1/n)
	return Interval{P5: math.Max(0, mean-half), P50: mean, P95: mean + half}
}

// UpdateFromBaseline returns a copy of s in which [Forecast] supplies every limit that is not set; limits already set
// are kept. Call it before a run, because an SLA does not change during one. The error wraps errNoData if the history
// has no data.
func (s Spec) UpdateFromBaseline(history []Baseline) (Spec, error) {
	forecast, _, err := Forecast(history)
	if err != nil {
		return s, err
	}
	for _, t := range targets {
		if t.get(s) == 0 {
			t.set(&s, t.get(forecast))
		}
	}
	return s, nil
}
