package report

import (
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// tiles returns the figures below the answers, each with its limit or interval.
func tiles(d *data) []tile {
	r := d.Record
	o, c := r.Outcome, r.Comparison
	list := []tile{
		{Label: "Time", Value: number(o.Seconds, duration), Note: limitNote("deadline", r.SLA.LimitOf(sla.Time), duration), Light: verdictLight(r, sla.Time)},
		{Label: "Cost", Value: number(o.CostUSD, usd), Note: limitNote("budget", r.SLA.LimitOf(sla.Cost), usd), Light: verdictLight(r, sla.Cost)},
		{Label: "Time vs. baseline", Value: number(c.SecondsChangePct, change), Note: intervalNote(c.SecondsChange), Light: changeLight(c.SecondsChangePct, c.SecondsChange)},
		{Label: "Cost vs. baseline", Value: number(c.CostChangePct, change), Note: intervalNote(c.CostChange), Light: changeLight(c.CostChangePct, c.CostChange)},
		{Label: "Throughput", Value: number(o.Throughput, rate(r)), Note: limitNote("at least", r.SLA.LimitOf(sla.Throughput), throughput), Light: verdictLight(r, sla.Throughput)},
	}
	if r.Outcome.GPUUtil.Known() || r.Plan != nil && r.Plan.Allocation.GPUs > 0 {
		list = append(list, tile{Label: "GPU utilization", Value: number(o.GPUUtil, percent), Note: "CPU " + number(o.CPUUtil, percent), Light: verdictLight(r, sla.GPUUtil)})
	} else {
		list = append(list, tile{Label: "CPU utilization", Value: number(o.CPUUtil, percent), Note: "of the allocated CPUs", Light: verdictLight(r, sla.CPUUtil)})
	}
	list = append(list, tile{Label: "Peak memory", Value: number(o.PeakMemoryGiB, gib), Note: memoryNote(r), Light: verdictLight(r, sla.Memory)})
	for i := range list {
		switch v := list[i].Value; {
		case v == noData || v == notMeasured:
			list[i].Light, list[i].Note = muted, ""
		case list[i].Light == muted: // measured but not rated
			list[i].Light = dark
		}
	}
	return list
}

func limitNote(word string, n journal.Number, one func(float64) string) string {
	if !n.Known() {
		return ""
	}
	return word + " " + number(n, one)
}

func intervalNote(i *sla.Interval) string {
	if i == nil || !known(i.P5) || !known(i.P95) {
		return ""
	}
	return "90 %: " + between(*i, change)
}

func memoryNote(r *journal.Record) string {
	if r.Plan == nil || r.Plan.Allocation.Memory <= 0 {
		return ""
	}
	word := " recommended"
	if len(r.Stretches) > 0 || slices.ContainsFunc(r.Enforced, func(line string) bool { return strings.HasPrefix(line, "memory:") }) {
		word = " allocated"
	}
	return "of " + gib(float64(r.Plan.Allocation.Memory)) + word
}

func verdictLight(r *journal.Record, o sla.Objective) light {
	for _, v := range r.SLA.Verdicts {
		if v.Objective == o {
			return statusLight(v.Status)
		}
	}
	return dark
}

func statusLight(s sla.Status) light {
	switch s {
	case sla.Met:
		return good
	case sla.AtRisk:
		return warn
	case sla.Violated:
		return bad
	}
	return muted
}
