package plan

import (
	"fmt"
	"math"

	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// limitWords returns the name of a limit of the SLA with its value.
func limitWords(o sla.Objective, spec sla.Spec) string {
	switch o {
	case sla.Time:
		return "the deadline of " + duration(spec.TimeMax.Seconds())
	case sla.Cost:
		return "the budget of " + usd(spec.CostMaxUSD)
	case sla.Throughput:
		return fmt.Sprintf("throughput of at least %.4g samples/s", spec.ThroughputMin)
	case sla.Memory:
		if spec.MemoryMaxGiB > 0 {
			return fmt.Sprintf("memory of at most %.3g GiB", spec.MemoryMaxGiB)
		}
		return "the memory allowed"
	case sla.GPUUtil:
		return fmt.Sprintf("GPU utilization of at least %.3g %%", spec.GPUUtilMinPct)
	case sla.CPUUtil:
		return fmt.Sprintf("CPU utilization of at least %.3g %%", spec.CPUUtilMinPct)
	}
	return string(o)
}

// length formats a time; per unit of work when the total is unknown.
func (b *evaluation) length(seconds float64) string {
	if b.forecast.perUnit {
		return duration(seconds) + " per unit"
	}
	return duration(seconds)
}

// duration formats seconds as the report does.
func duration(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || math.Abs(seconds) > 1e9 {
		return "unknown"
	}
	return page.PlainBlanks(page.Duration(seconds))
}

// durationUp formats seconds rounded up to a value suitable for --deadline.
func durationUp(seconds float64) string {
	step := 1.0
	switch {
	case seconds >= 36000:
		step = 600
	case seconds >= 600:
		step = 60
	}
	return duration(math.Ceil(seconds/step) * step)
}

// usd formats an amount as the report does.
func usd(v float64) string {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return "unknown"
	}
	return page.USD(v)
}

// usdUp formats an amount rounded up to three significant digits, so that it suffices as a budget.
func usdUp(v float64) string {
	if !(v > 0) {
		return usd(v)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return fmt.Sprintf("$%.3g", math.Ceil(v/unit)*unit)
}
