package analysis

import (
	"encoding/json"
	"io"
	"strconv"

	"trainopt/optimizer/plan"
	"trainopt/optimizer/report/page"
)

// sheet is a front for a terminal of the given width, which only text uses.
type sheet struct {
	*front
	width int
}

// frontFormats is the registry of output formats, one line each.
var frontFormats = page.Formats[sheet]{
	"text":     renderText,
	"json":     renderJSON,
	"csv":      page.CSVOf(sheet.lines),
	"html":     page.HTMLOf(sheet.pictured),
	"svg":      renderSVG,
	"markdown": page.MarkdownOf(func(f sheet) page.Document { return f.document(len(f.Points)) }),
}

// FrontFormats returns the names of the formats of a front, sorted.
func FrontFormats() []string { return frontFormats.Names() }

// Render writes a front in one of the formats. The output depends on the front alone and, for text, on the width (0:
// 80 columns).
func (f *front) Render(w io.Writer, format string, width int) error {
	return frontFormats.Write(w, "front of "+f.Subject, sheet{f, width}, format)
}

// frontSchema is the version of the JSON format.
const frontSchema = 1

// document is the JSON format of a front.
type document struct {
	Schema     int             `json:"schema"`
	Source     string          `json:"source"` // run, model, measured
	Subject    string          `json:"subject"`
	Basis      string          `json:"basis"`
	Predicted  bool            `json:"predicted"`
	Preference plan.Preference `json:"preference"`
	FrontSize  int             `json:"front_size"`
	Chosen     point           `json:"chosen"`
	Points     []point         `json:"points"`
	Trades     []trade         `json:"trades"`
	Steps      []step          `json:"steps"`
	Notes      []string        `json:"notes"`
}

func renderJSON(w io.Writer, f sheet) error {
	d := document{Schema: frontSchema, Source: f.Source, Subject: f.Subject, Basis: f.Basis, Predicted: f.Predicted, Preference: f.Preferred,
		FrontSize: len(f.labelled()), Points: []point{}, Trades: []trade{}, Steps: []step{}, Notes: append([]string{}, f.Notes...)}
	for _, p := range f.Points {
		for _, v := range []*float64{&p.Seconds.P5, &p.Seconds.P50, &p.Seconds.P95, &p.CostUSD.P5, &p.CostUSD.P50, &p.CostUSD.P95, &p.Resource} {
			*v = nine(*v)
		}
		d.Points = append(d.Points, p)
	}
	d.Chosen = d.Points[f.Chosen]
	d.Trades, d.Steps = append(d.Trades, f.Trades...), append(d.Steps, f.Steps...)
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	_, err = w.Write(append(data, '\n'))
	return err
}

// nine rounds to nine significant digits, as in run.json.
func nine(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 9, 64), 64)
	return r
}

// lines returns one row per point, with a superset of the columns of a run's pareto_front.csv.
func (f *front) lines() [][]string {
	rows := [][]string{{"label", "name", "gpus", "cpus", "memory_gib", "batch_size", "num_workers", "seconds_p5", "seconds_p50", "seconds_p95",
		"cost_usd_p5", "cost_usd_p50", "cost_usd_p95", "resource", "feasible", "on_front", "chosen", "taken"}}
	number := func(v float64) string { return strconv.FormatFloat(v, 'g', 9, 64) }
	whole := func(n int) string {
		if n == 0 {
			return ""
		}
		return strconv.Itoa(n)
	}
	yes := func(b bool) string { return map[bool]string{true: "1", false: "0"}[b] }
	for _, p := range f.Points {
		a := p.Allocation
		rows = append(rows, []string{p.Label, page.PlainBlanks(page.Clean(p.Name)), strconv.Itoa(a.GPUs), strconv.Itoa(a.CPUs), number(float64(a.Memory)), whole(a.BatchSize), whole(a.NumWorkers),
			number(p.Seconds.P5), number(p.Seconds.P50), number(p.Seconds.P95), number(p.CostUSD.P5), number(p.CostUSD.P50), number(p.CostUSD.P95),
			number(p.Resource), yes(p.Feasible), yes(p.OnFront), yes(p.Chosen), yes(p.Taken)})
	}
	return rows
}
