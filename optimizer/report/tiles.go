package report

import (
	"slices"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/sla"
)

// tiles returns the figures below the answers, each with its limit or interval.
func tiles(d *data) []page.Tile {
	r := d.Record
	o, c := r.Outcome, r.Comparison
	list := []page.Tile{
		{Label: "Time", Value: number(o.Seconds, page.Duration), Note: limitNote("deadline", r.SLA.LimitOf(sla.Time), page.Duration), Light: verdictLight(r, sla.Time)},
		{Label: "Cost", Value: number(o.CostUSD, page.USD), Note: limitNote("budget", r.SLA.LimitOf(sla.Cost), page.USD), Light: verdictLight(r, sla.Cost)},
		{Label: "Time vs. baseline", Value: number(c.SecondsChangePct, change), Note: intervalNote(c.SecondsChange), Light: changeLight(c.SecondsChangePct, c.SecondsChange)},
		{Label: "Cost vs. baseline", Value: number(c.CostChangePct, change), Note: intervalNote(c.CostChange), Light: changeLight(c.CostChangePct, c.CostChange)},
		{Label: "Throughput", Value: number(o.Throughput, rate(r)), Note: limitNote("at least", r.SLA.LimitOf(sla.Throughput), throughput), Light: verdictLight(r, sla.Throughput)},
	}
	if r.Outcome.GPUUtil.Known() || r.Plan != nil && r.Plan.Allocation.GPUs > 0 {
		list = append(list, page.Tile{Label: "GPU utilization", Value: number(o.GPUUtil, page.Percent), Note: "CPU " + number(o.CPUUtil, page.Percent), Light: verdictLight(r, sla.GPUUtil)})
	} else {
		list = append(list, page.Tile{Label: "CPU utilization", Value: number(o.CPUUtil, page.Percent), Note: "of the allocated CPUs", Light: verdictLight(r, sla.CPUUtil)})
	}
	list = append(list, page.Tile{Label: "Peak memory", Value: number(o.PeakMemoryGiB, page.GiB), Note: memoryNote(r), Light: verdictLight(r, sla.Memory)})
	for i := range list {
		switch v := list[i].Value; {
		case v == page.NoData || v == notMeasured:
			list[i].Light, list[i].Note = page.Muted, ""
		case list[i].Light == page.Muted: // measured but not rated
			list[i].Light = page.Dark
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
	if i == nil || !page.Known(i.P5) || !page.Known(i.P95) {
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
	return "of " + page.GiB(float64(r.Plan.Allocation.Memory)) + word
}

func verdictLight(r *journal.Record, o sla.Objective) page.Light {
	for _, v := range r.SLA.Verdicts {
		if v.Objective == o {
			return statusLight(v.Status)
		}
	}
	return page.Dark
}

func statusLight(s sla.Status) page.Light {
	switch s {
	case sla.Met:
		return page.Good
	case sla.AtRisk:
		return page.Warn
	case sla.Violated:
		return page.Bad
	}
	return page.Muted
}
