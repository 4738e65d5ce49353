package front

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/plan"
)

// formats is the registry: one function and one line each. Width is the columns of a terminal, for text alone.
var formats = map[string]func(w io.Writer, f *Front, width int) error{
	"text":     renderText,
	"json":     renderJSON,
	"csv":      renderCSV,
	"html":     renderHTML,
	"svg":      renderSVG,
	"markdown": renderMarkdown,
}

// Known reports whether Render knows the format.
func Known(format string) bool { return formats[format] != nil }

// FormatNames lists the formats for people.
func FormatNames() string { return strings.Join(slices.Sorted(maps.Keys(formats)), ", ") }

// Render writes a front in one of the formats: its bytes depend on the front and, as text, on the width (0: 80 columns).
func Render(w io.Writer, f *Front, format string, width int) error {
	render := formats[format]
	if render == nil {
		return fmt.Errorf("render front as %q: unknown format, want one of %s", format, FormatNames())
	}
	var b bytes.Buffer
	if err := render(&b, f, width); err != nil {
		return fmt.Errorf("render front of %s as %s: %w", f.Subject, format, err)
	}
	_, err := w.Write(b.Bytes())
	return err
}

// Schema is the version of the JSON form.
const Schema = 1

type document struct {
	Schema     int             `json:"schema"`
	Source     string          `json:"source"` // run, model, measured
	Subject    string          `json:"subject"`
	Basis      string          `json:"basis"`
	Predicted  bool            `json:"predicted"`
	Preference plan.Preference `json:"preference"`
	FrontSize  int             `json:"front_size"`
	Chosen     Point           `json:"chosen"`
	Points     []Point         `json:"points"`
	Trades     []Trade         `json:"trades"`
	Steps      []Step          `json:"steps"`
	Notes      []string        `json:"notes"`
}

func renderJSON(w io.Writer, f *Front, _ int) error {
	d := document{Schema: Schema, Source: f.Source, Subject: f.Subject, Basis: f.Basis, Predicted: f.Predicted, Preference: f.Preferred,
		FrontSize: len(f.labelled()), Points: []Point{}, Trades: []Trade{}, Steps: []Step{}, Notes: append([]string{}, f.Notes...)}
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

// nine rounds to the nine significant digits in which run.json has its numbers.
func nine(v float64) float64 {
	r, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 9, 64), 64)
	return r
}

// renderCSV writes one row a point, with the columns of a run's pareto_front.csv and some more.
func renderCSV(w io.Writer, f *Front, _ int) error {
	out := csv.NewWriter(w)
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
		rows = append(rows, []string{p.Label, clean(p.Name), strconv.Itoa(a.GPUs), strconv.Itoa(a.CPUs), number(float64(a.Memory)), whole(a.BatchSize), whole(a.NumWorkers),
			number(p.Seconds.P5), number(p.Seconds.P50), number(p.Seconds.P95), number(p.CostUSD.P5), number(p.CostUSD.P50), number(p.CostUSD.P95),
			number(p.Resource), yes(p.Feasible), yes(p.OnFront), yes(p.Chosen), yes(p.Taken)})
	}
	return out.WriteAll(rows)
}

// row is a point of the front in words.
type row struct {
	Mark, Label, Name, Time, Cost, Resource, Rate string
	TimeRange, CostRange                          string
	Chosen, Taken                                 bool
}

// rows are the points of the front, the fastest first.
func (f *Front) rows() []row {
	rates, u := map[string]string{}, f.rateUnit()
	for _, s := range f.Steps {
		rates[s.To] = usd(float64(s.USDPerHour) / 3600 * u.size)
	}
	var out []row
	for _, i := range f.labelled() {
		p := f.Points[i]
		r := row{Label: p.Label, Name: clean(p.Name), Time: duration(p.Seconds.P50), Cost: usd(p.CostUSD.P50), Resource: share(p.Resource), Rate: rates[p.Label],
			Chosen: p.Chosen, Taken: p.Taken}
		if p.Seconds.P5 != p.Seconds.P95 {
			r.TimeRange, r.CostRange = duration(p.Seconds.P5)+" to "+duration(p.Seconds.P95), usd(p.CostUSD.P5)+" to "+usd(p.CostUSD.P95)
		}
		if p.Chosen {
			r.Mark = "chosen"
		}
		if p.Taken {
			r.Mark = strings.TrimPrefix(r.Mark+", the run's plan", ", ")
		}
		out = append(out, r)
	}
	return out
}

// rateUnit is the time in which all rates of the table are given.
func (f *Front) rateUnit() unit {
	u := unit{1, "second"}
	for _, s := range f.Steps {
		u = readable(u, float64(s.USDPerHour)/3600)
	}
	return u
}

// rateName heads the column of rates.
func (f *Front) rateName() string { return f.rateUnit().one() + " less" }

// rateWords explains it.
func (f *Front) rateWords() string {
	return fmt.Sprintf("%s: what it costs more than the next cheaper point, per %s less", f.rateName(), f.rateUnit().name)
}

func renderMarkdown(w io.Writer, f *Front, _ int) error {
	escape := strings.NewReplacer("|", `\|`, "<", "&lt;", "`", "'", "*", `\*`, "_", `\_`).Replace
	fmt.Fprintf(w, "# Pareto front: %s\n\n%s; %s.\n\n", escape(clean(f.Subject)), escape(clean(f.Basis)), f.countWords())
	fmt.Fprintf(w, "Preference %s selects **%s**.\n\n", preferenceWords(f.Preferred), escape(clean(f.chosenWords())))
	fmt.Fprintf(w, "| | allocation | time | cost | resources | %s | |\n|---|---|--:|--:|--:|--:|---|\n", f.rateName())
	for _, r := range f.rows() {
		fmt.Fprintf(w, "| %s | %s | %s | %s | %s | %s | %s |\n", r.Label, escape(r.Name), r.Time, r.Cost, r.Resource, r.Rate, r.Mark)
	}
	for _, s := range []struct {
		title string
		lines []string
	}{{"What one gives up", f.tradeLines()}, {"Notes", f.Notes}} {
		if len(s.lines) > 0 {
			fmt.Fprintf(w, "\n## %s\n\n", s.title)
			for _, l := range s.lines {
				fmt.Fprintf(w, "- %s\n", escape(clean(l)))
			}
		}
	}
	return nil
}

// tradeLines are the trades in words, one for each point that they lead to.
func (f *Front) tradeLines() []string {
	var out []string
	for i, t := range f.Trades {
		if !slices.ContainsFunc(f.Trades[:i], func(before Trade) bool { return before.To == t.To }) {
			out = append(out, t.Words)
		}
	}
	return out
}
