package plan

import (
	"fmt"
	"math"
	"time"

	"trainopt/sla"
)

// limitWords names an agreed limit with its value.
func limitWords(o sla.Objective, spec sla.Spec) string {
	switch o {
	case sla.Time:
		return "deadline " + spec.TimeMax.String()
	case sla.Cost:
		return "budget " + usd(spec.CostMaxUSD)
	case sla.Throughput:
		return fmt.Sprintf("throughput of at least %.4g samples/s", spec.ThroughputMin)
	case sla.Memory:
		if spec.MemoryMaxGiB > 0 {
			return fmt.Sprintf("memory of at most %.3g GiB", spec.MemoryMaxGiB)
		}
		return "the memory allowed"
	case sla.GPUUtil:
		return fmt.Sprintf("GPU utilisation of at least %.3g %%", spec.GPUUtilMinPct)
	case sla.CPUUtil:
		return fmt.Sprintf("CPU utilisation of at least %.3g %%", spec.CPUUtilMinPct)
	}
	return string(o)
}

// length is a time in words; per unit of work when the total is unknown.
func (b *board) length(seconds float64) string {
	if b.forecast.perUnit {
		return duration(seconds) + " a unit"
	}
	return duration(seconds)
}

// duration is three digits at most: 1h2m, 12m5s, 8.3s, 0.04s.
func duration(seconds float64) string {
	if math.IsNaN(seconds) || math.IsInf(seconds, 0) || math.Abs(seconds) > 1e9 {
		return "unknown"
	}
	d := time.Duration(seconds * float64(time.Second))
	switch {
	case seconds >= 36000:
		return trimmed(d.Round(time.Minute))
	case seconds >= 60:
		return d.Round(time.Second).String()
	default:
		return fmt.Sprintf("%.3gs", seconds)
	}
}

func trimmed(d time.Duration) string { // "12h5m0s" → "12h5m"
	s := d.String()
	return s[:len(s)-len("0s")]
}

// durationUp rounds up to what a user would type as a deadline.
func durationUp(seconds float64) string {
	step := 1.0
	switch {
	case seconds >= 36000:
		step = 600
	case seconds >= 600:
		step = 60
	}
	return (time.Duration(math.Ceil(seconds/step)*step) * time.Second).String()
}

// usd is two significant digits below a cent, cents or better above.
func usd(v float64) string {
	switch {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "unknown"
	case v >= 1:
		return fmt.Sprintf("$%.2f", v)
	case v >= 0.01:
		return fmt.Sprintf("$%.3f", v)
	default:
		return fmt.Sprintf("$%.2g", v)
	}
}

// usdUp rounds up to three significant digits, so that the figure suffices as a budget.
func usdUp(v float64) string {
	if !(v > 0) {
		return usd(v)
	}
	unit := math.Pow(10, math.Floor(math.Log10(v))-2)
	return fmt.Sprintf("$%.3g", math.Ceil(v/unit)*unit)
}
