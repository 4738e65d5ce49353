package report

import (
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
	"trainopt/resources"
	"trainopt/sla"
)

// throughput formats a throughput in samples/s.
var throughput = page.Rate("")

// predicted reports whether an interval contains a prediction. The zero Interval means "not predicted".
func predicted(i sla.Interval) bool {
	return i != sla.Interval{} && page.Known(i.P5) && page.Known(i.P50) && page.Known(i.P95)
}

// notMeasured is shown for a change that was not measured.
const notMeasured = "not measured"

// change formats a change as page.Change does.
func change(v float64) string {
	if !page.Known(v) {
		return notMeasured
	}
	return page.Change(v)
}

// interval formats an interval as "80.1 s (75.0 s to 92.3 s)", each number with one.
func interval(i sla.Interval, one func(float64) string) string {
	if !predicted(i) {
		return page.NoData
	}
	return one(i.P50) + " (" + between(i, one) + ")"
}

func between(i sla.Interval, one func(float64) string) string {
	lo, hi := one(i.P5), one(i.P95)
	if lo == hi {
		return lo
	}
	// Write a common unit once: "75.0 to 92.3 s".
	if a, unit, ok := strings.Cut(lo, page.Blank); ok && !strings.Contains(unit, page.Blank) && strings.HasSuffix(hi, page.Blank+unit) && strings.Count(hi, page.Blank) == 1 {
		lo = a
	}
	return lo + " to " + hi
}

// allocationText formats an allocation such that "8 CPU, 4 GiB" can be broken only after the comma.
func allocationText(a resources.Allocation) string {
	return strings.ReplaceAll(strings.ReplaceAll(a.String(), " ", page.Blank), ","+page.Blank, ", ")
}

// number formats the Number of a record.
func number(n journal.Number, one func(float64) string) string { return one(float64(n)) }

func optional(s *string) string {
	if s == nil || strings.TrimSpace(*s) == "" {
		return page.NoData
	}
	return *s
}

func yesNo(b *bool) string {
	switch {
	case b == nil:
		return page.NoData
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
	sla.Time: {"finish within", page.Duration}, sla.Cost: {"spend at most", page.USD}, sla.Throughput: {"throughput at least", throughput},
	sla.Memory: {"memory at most", page.GiB}, sla.GPUUtil: {"GPU utilization at least", page.Percent}, sla.CPUUtil: {"CPU utilization at least", page.Percent},
}

// Objective returns the display name of an objective and the formatter of its values.
func Objective(o sla.Objective) (name string, one func(float64) string) {
	if known, ok := objectives[o]; ok {
		return known.name, known.one
	}
	return string(o), page.Significant
}

// with sets the light of the last cell of a row and returns the row.
func with(cells []page.Cell, l page.Light) []page.Cell {
	cells[len(cells)-1].Light = l
	return cells
}
