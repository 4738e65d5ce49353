package report

import (
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// Numbers are formatted as on every other page.
const (
	noData = page.NoData
	nb     = page.Blank
)

var (
	known       = page.Known
	significant = page.Significant
	withUnit    = page.WithUnit
	duration    = page.Duration
	usd         = page.USD
	gib         = page.GiB
	percent     = page.Percent
	throughput  = page.Rate("")
	share       = page.Share
	count       = page.Count
	plural      = page.Plural
	clean       = page.Clean
	plainBlanks = page.PlainBlanks
)

// predicted reports whether an interval contains a prediction. The zero Interval means "not predicted".
func predicted(i sla.Interval) bool {
	return i != sla.Interval{} && known(i.P5) && known(i.P50) && known(i.P95)
}

// notMeasured is shown for a change that was not measured.
const notMeasured = "not measured"

// change formats a change as page.Change does.
func change(v float64) string {
	if !known(v) {
		return notMeasured
	}
	return page.Change(v)
}

// interval formats an interval as "80.1 s (75.0 s to 92.3 s)", each number with one.
func interval(i sla.Interval, one func(float64) string) string {
	if !predicted(i) {
		return noData
	}
	return one(i.P50) + " (" + between(i, one) + ")"
}

func between(i sla.Interval, one func(float64) string) string {
	lo, hi := one(i.P5), one(i.P95)
	if lo == hi {
		return lo
	}
	// Write a common unit once: "75.0 to 92.3 s".
	if a, unit, ok := strings.Cut(lo, nb); ok && !strings.Contains(unit, nb) && strings.HasSuffix(hi, nb+unit) && strings.Count(hi, nb) == 1 {
		lo = a
	}
	return lo + " to " + hi
}

// allocationText formats an allocation such that "8 CPU, 4 GiB" can be broken only after the comma.
func allocationText(a resources.Allocation) string {
	return strings.ReplaceAll(strings.ReplaceAll(a.String(), " ", nb), ","+nb, ", ")
}

// number formats the Number of a record.
func number(n journal.Number, one func(float64) string) string { return one(float64(n)) }

func optional(s *string) string {
	if s == nil || strings.TrimSpace(*s) == "" {
		return noData
	}
	return *s
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return noData
	case *b:
		return "yes"
	}
	return "no"
}

// rate returns the formatter of a run's throughput in its unit.
func rate(r *journal.Record) func(float64) string { return page.Rate(r.Outcome.ThroughputUnit) }

// objectives are the display names of objectives and the formatters of their values.
var objectives = map[sla.Objective]struct {
	name string
	one  func(float64) string
}{
	sla.Time: {"finish within", duration}, sla.Cost: {"spend at most", usd}, sla.Throughput: {"throughput at least", throughput},
	sla.Memory: {"memory at most", gib}, sla.GPUUtil: {"GPU utilization at least", percent}, sla.CPUUtil: {"CPU utilization at least", percent},
}

// Objective returns the display name of an objective and the formatter of its values.
func Objective(o sla.Objective) (name string, one func(float64) string) {
	if known, ok := objectives[o]; ok {
		return known.name, known.one
	}
	return string(o), significant
}
