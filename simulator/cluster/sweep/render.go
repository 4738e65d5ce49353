package sweep

import (
	"fmt"
	"io"
	"math"

	"trainopt/optimizer/report/page"
	"trainopt/simulator/cluster"
)

var formats = page.Formats[*Result]{
	"json": page.JSONOf(func(r *Result) *Result { return r }),
	"text": page.TextOf((*Result).document),
}

// Formats returns the names of the formats supported by Write.
func Formats() []string { return formats.Names() }

// Write writes a result in one of Formats.
func Write(w io.Writer, r *Result, format string) error {
	return formats.Write(w, "decision", r, format)
}

func (r *Result) document() page.Document {
	kinds := fmt.Sprintf("%d kinds", r.Kinds)
	if r.Kinds == 0 {
		kinds = "all different"
	}
	from := "from all jobs"
	if r.Updates {
		from = fmt.Sprintf("from the %d jobs that ended and the %d that arrived", r.Changes, r.Changes)
	}
	fields := append(r.First.fields("first decision", "all jobs wait"), r.Next.fields("next decision", from)...)
	if known(r.PeakGiB) {
		fields = append(fields, page.Field{Name: "memory of the process", Value: fmt.Sprintf("%.2f GiB at most, with the jobs", float64(r.PeakGiB))})
	}
	return page.Document{
		Layout: page.Listing, Title: fmt.Sprintf("%s on %d devices of %d types", r.Policy, r.Devices, r.Types),
		Subtitle: fmt.Sprintf("%d drawn jobs, %s; seed %d", r.Jobs, kinds, r.Seed),
		Sections: []page.Section{{Blocks: []page.Block{{Fields: fields}}}},
	}
}

func (s *decisionStep) fields(name, note string) []page.Field {
	return []page.Field{
		{Name: name, Value: fmt.Sprintf("%s real, %s of processor time", seconds(s.Seconds), seconds(s.CPUSeconds)), Note: note},
		{Name: "  jobs with devices", Value: fmt.Sprint(s.Placed)},
		{Name: "  below the optimum", Value: loss(s.MaxLoss)},
	}
}

func known(n cluster.Number) bool { return !math.IsNaN(float64(n)) }

func seconds(n cluster.Number) string {
	if !known(n) {
		return "unknown"
	}
	return fmt.Sprintf("%.3g s", float64(n))
}

func loss(n cluster.Number) string {
	switch v := 100 * float64(n); {
	case !known(n):
		return "unknown: the policy proves no bound"
	case v < 1e-6:
		return "at most 0.000001 %"
	default:
		return fmt.Sprintf("at most %.2g %%", v)
	}
}
