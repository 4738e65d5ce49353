package serve

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"trainopt/internal/regular"
	"trainopt/optimizer/report/page"
)

// Bounds on result files.
const (
	maxResult      = 64 << 20 // bytes of a file
	maxResultFiles = 500      // per folder
	headBytes      = 4 << 10  // read of each file in the list
)

// resultFile is a result in the list.
type resultFile struct {
	Name, Address, Kind, Size string
	Changed                   time.Time
}

type resultFolder struct {
	Path  string
	Files []resultFile
	Why   string // instead of files
	More  int
}

func (s *Server) resultsPage(w http.ResponseWriter, r *http.Request) {
	var folders []resultFolder
	for i, dir := range s.options.Results {
		folders = append(folders, listResults(i, dir))
	}
	writePage(w, http.StatusOK, "results", s.shell(r, "Results of simulations and comparisons", "/results", folders))
}

// listResults lists the result files of a folder, newest first.
func listResults(n int, dir string) resultFolder {
	out := resultFolder{Path: dir}
	entries, err := os.ReadDir(dir)
	if err != nil {
		out.Why = err.Error()
		return out
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || info.Size() > maxResult || strings.HasPrefix(e.Name(), ".") {
			continue
		}
		kind := resultKind(filepath.Join(dir, e.Name()))
		if kind == "" {
			continue
		}
		out.Files = append(out.Files, resultFile{Name: e.Name(), Address: fmt.Sprintf("/results/%d/%s", n, url.PathEscape(e.Name())), Kind: kind,
			Size: byteText(info.Size()), Changed: info.ModTime()})
	}
	slices.SortStableFunc(out.Files, func(a, b resultFile) int { return b.Changed.Compare(a.Changed) })
	if len(out.Files) > maxResultFiles {
		out.More = len(out.Files) - maxResultFiles
		out.Files = out.Files[:maxResultFiles]
	}
	if len(out.Files) == 0 {
		out.Why = "No result in this folder: write one with -o FILE.html or -o FILE.json."
	}
	return out
}

func byteText(n int64) string {
	switch {
	case n < 1<<10:
		return fmt.Sprintf("%d B", n)
	case n < 1<<20:
		return page.WithUnit(float64(n)/(1<<10), "KiB")
	}
	return page.WithUnit(float64(n)/(1<<20), "MiB")
}

// resultKind tells a result file by its beginning; empty for other files.
func resultKind(path string) string {
	f, err := regular.Open(path, maxResult)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, headBytes)
	n, _ := f.Read(head)
	head = head[:n]
	switch strings.ToLower(filepath.Ext(path)) {
	case ".html", ".htm":
		if bytes.HasPrefix(head, []byte("<!DOCTYPE html>")) {
			return "page"
		}
	case ".json":
		return jsonKind(head)
	}
	return ""
}

// jsonKind names a result by its first fields, such as "simulate queue" or "compare rounds".
func jsonKind(head []byte) string {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return ""
	}
	known, engine, compare := false, "", false
	for range 40 {
		name, err := d.Token()
		if err != nil {
			break
		}
		switch name {
		case "schema":
			known = true
		case "metrics", "title", "rows", "paired":
			compare = compare || known
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			break
		}
		if name == "engine" || name == "env" {
			_ = json.Unmarshal(value, &engine) // a kind only if it is a text
		}
	}
	switch {
	case !known || engine == "":
		return ""
	case compare:
		return "compare " + engine
	}
	return "simulate " + engine
}

func (s *Server) resultPage(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.PathValue("folder"))
	name := r.PathValue("name")
	if err != nil || n < 0 || n >= len(s.options.Results) || name != filepath.Base(name) || strings.HasPrefix(name, ".") {
		s.refuse(w, r, http.StatusNotFound, "there is no such result")
		return
	}
	path := filepath.Join(s.options.Results[n], name)
	kind := resultKind(path)
	data, err := regular.ReadFile(path, maxResult)
	if kind == "" || err != nil {
		s.refuse(w, r, http.StatusNotFound, "there is no such result")
		return
	}
	if kind == "page" {
		w.Header().Set("Content-Security-Policy", documentPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write(data)
		return
	}
	var fields orderedObject
	if err := json.Unmarshal(data, &fields); err != nil {
		s.refuse(w, r, http.StatusUnprocessableEntity, "read result "+name+": "+err.Error())
		return
	}
	doc := resultDocument(name, kind, fields).Captioned()
	writePage(w, http.StatusOK, "document", s.shell(r, name, "/results", doc))
}

// resultDocument converts a result to a document: pictures of the metrics of a comparison or of the jobs of a
// simulation, then every field.
func resultDocument(name, kind string, o orderedObject) page.Document {
	doc := page.Document{Title: cmp.Or(o.text("title"), kind), Subtitle: name + " · " + kind}
	if p := o.text("policy"); p != "" {
		doc.Subtitle += " · policy " + p
	}
	if strings.HasPrefix(kind, "compare ") {
		doc.Sections = append(doc.Sections, comparedMetrics(rowsOf(o.get("rows"))))
	} else if jobs := rowsOf(o.get("jobs")); len(jobs) > 0 {
		doc.Sections = append(doc.Sections, jobPictures(jobs))
	}
	var plain []page.Field
	for _, f := range o {
		if f.name == "jobs" || f.name == "rows" || f.name == "schema" {
			continue
		}
		if scalar(f.value) {
			plain = append(plain, page.Field{Name: plainName(f.name), Value: valueText(f.name, f.value)})
		}
	}
	doc.Sections = append(doc.Sections, page.Section{ID: "figures", Title: "Figures", Blocks: []page.Block{{Fields: plain}}})
	for _, f := range o {
		if b, ok := fieldBlock(f, kind); ok {
			doc.Sections = append(doc.Sections, page.Section{ID: "f-" + f.name, Title: plainName(f.name), Blocks: []page.Block{b}})
		}
	}
	return doc
}

func scalar(v any) bool {
	switch v.(type) {
	case orderedObject, []any:
		return false
	}
	return true
}

// mostRows is the number of rows of a table of a result; the file has all of them.
const mostRows = 200

// fieldBlock shows a field that is a list or an object.
func fieldBlock(f field, kind string) (page.Block, bool) {
	switch v := f.value.(type) {
	case orderedObject:
		var fields []page.Field
		for _, x := range v {
			fields = append(fields, page.Field{Name: plainName(x.name), Value: valueText(x.name, x.value)})
		}
		return page.Block{Fields: fields}, len(fields) > 0
	case []any:
		rows := rowsOf(v)
		if len(rows) == 0 {
			var notes []string
			for _, x := range v[:min(len(v), mostRows)] {
				notes = append(notes, valueText("", x))
			}
			return page.Block{Notes: notes}, len(notes) > 0
		}
		if strings.HasPrefix(kind, "compare ") && f.name == "rows" {
			return page.Block{}, false // shown by metric
		}
		return tableBlock(rows), true
	}
	return page.Block{}, false
}

// tableBlock shows objects as rows; the columns are the fields of the first ones.
func tableBlock(rows []orderedObject) page.Block {
	var names []string
	for _, r := range rows[:min(len(rows), 20)] {
		for _, f := range r {
			if !slices.Contains(names, f.name) {
				names = append(names, f.name)
			}
		}
	}
	t := &page.Table{Named: true, Long: len(rows) > 15}
	for _, n := range names {
		_, isNumber := rows[0].get(n).(float64)
		t.Columns = append(t.Columns, page.Column{Name: plainName(n), Right: isNumber})
	}
	for _, r := range rows[:min(len(rows), mostRows)] {
		var cells []string
		for _, n := range names {
			cells = append(cells, valueText(n, r.get(n)))
		}
		t.Rows = append(t.Rows, page.Row(cells...))
	}
	b := page.Block{Caption: page.Plural(len(rows), "row"), Table: t}
	if len(rows) > mostRows {
		b.Caption = fmt.Sprintf("The first %d of %s rows", mostRows, page.Count(float64(len(rows))))
	}
	return b
}

// plainNames are the words for parts of names of fields that are not words.
var plainNames = map[string]string{"procs": "processors", "compat": "as in the original", "wall": "computing time", "n": "cases", "jct": "completion time", "rps": "requests/s"}

// plainName turns the name of a field to words: "mean_wait_s" to "mean wait".
func plainName(name string) string {
	for _, unit := range []string{"_s", "_usd", "_joules", "_gib"} {
		name = strings.TrimSuffix(name, unit)
	}
	words := strings.Split(name, "_")
	for i, w := range words {
		words[i] = cmp.Or(plainNames[w], w)
	}
	return strings.Join(words, " ")
}

// valueText formats a value by the unit in the name of its field.
func valueText(name string, v any) string {
	switch v := v.(type) {
	case nil:
		return page.NoData
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case string:
		return v
	case float64:
		return unitOf(name)(v)
	}
	data, err := json.Marshal(plainValue(v))
	if err != nil {
		return page.NoData
	}
	return shortText(string(data), 300)
}

func shortText(s string, most int) string {
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

// unitOf returns the format of a number by the name of its field.
func unitOf(name string) func(float64) string {
	switch {
	case strings.HasSuffix(name, "_s"):
		return page.Duration
	case strings.HasSuffix(name, "_usd"), name == "usd":
		return page.USD
	case strings.HasSuffix(name, "_joules"):
		return func(v float64) string { return page.WithUnit(v, "J") }
	case strings.HasSuffix(name, "_gib"):
		return page.GiB
	}
	return page.Count
}

// plainValue converts objects to maps for JSON.
func plainValue(v any) any {
	switch v := v.(type) {
	case orderedObject:
		m := map[string]any{}
		for _, f := range v {
			m[f.name] = plainValue(f.value)
		}
		return m
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = plainValue(v[i])
		}
		return out
	}
	return v
}

// comparedMetrics shows each metric of a comparison as a table of policies with their intervals, the lowest mean first.
func comparedMetrics(rows []orderedObject) page.Section {
	s := page.Section{ID: "metrics", Title: "Metrics by policy"}
	var names []string
	for _, r := range rows {
		if m := r.text("metric"); m != "" && !slices.Contains(names, m) {
			names = append(names, m)
		}
	}
	for _, m := range names {
		bars := page.Bars{Title: plainName(m), Why: "no policy has a value"}
		t := &page.Table{Columns: append(page.Left("Policy"), page.Right("Mean", "Interval", "n")...), Named: true}
		for _, r := range rows {
			if r.text("metric") != m {
				continue
			}
			one, mean := unitOf(m), r.number("mean")
			t.Rows = append(t.Rows, page.Row(r.text("policy"), one(mean), span(r.number("lo"), r.number("hi"), one), valueText("", r.get("n"))))
			bars.Rows = append(bars.Rows, page.Bar{Name: r.text("policy"), Text: one(mean), Parts: []page.Part{{Value: mean, Class: "s1"}}, Title: r.text("policy") + ": " + one(mean)})
		}
		s.Blocks = append(s.Blocks, page.Block{Caption: plainName(m), Pictures: []page.Picture{bars.Picture()}, Table: t})
	}
	return s
}

// jobPictures shows the distributions of the times and costs of the jobs of a simulation.
func jobPictures(jobs []orderedObject) page.Section {
	s := page.Section{ID: "distributions", Title: "Distributions over the jobs"}
	b := page.Block{}
	for _, d := range []struct {
		title, unit string
		of          func(o orderedObject) float64
	}{
		{"Completion time", "seconds", func(o orderedObject) float64 { return o.number("jct_s") }},
		{"Wait", "seconds", func(o orderedObject) float64 { return o.number("start_s") - o.number("submit_s") }},
		{"Turnaround", "seconds", func(o orderedObject) float64 { return o.number("end_s") - o.number("submit_s") }},
		{"Cost", "USD", func(o orderedObject) float64 { return o.number("cost_usd") }},
	} {
		var values []float64
		for _, j := range jobs {
			if v := d.of(j); page.Known(v) {
				values = append(values, v)
			}
		}
		if len(values) == 0 {
			continue
		}
		if most := slices.Max(values); d.unit == "seconds" && most >= 120 {
			per := 60.0
			if d.unit = "minutes"; most >= 7200 {
				per, d.unit = 3600, "hours"
			}
			for i := range values {
				values[i] /= per
			}
		}
		line := page.Distribution("jobs", values)
		c := page.Chart{Title: d.title, X: page.Axis{Name: d.unit, Zero: true}, Y: page.Axis{Name: "share of the jobs", Share: true, Zero: true, Top: 1}, Series: []page.Series{line}}
		b.Pictures = append(b.Pictures, c.Picture())
	}
	s.Blocks = []page.Block{b}
	return s
}
