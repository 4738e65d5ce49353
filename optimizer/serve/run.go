package serve

import (
	"cmp"
	"fmt"
	"html/template"
	"io"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/plan"
	"trainopt/optimizer/report"
	"trainopt/optimizer/report/page"
)

// runBody is the content of the page of a run.
type runBody struct {
	Run     *runSummary
	Problem string
	Done    string // outcome of the last change
	Parts   map[string]template.HTML
	Charts  []liveChart
	Output  []output
}

// liveChart is a chart that the script draws from the samples. Without scripts it is a picture.
type liveChart struct{ Name, Title, Limit, Unit, About string }

type output struct{ Stream, Title, Text string }

// ofRun wraps the handlers of requests that name a run.
func (s *Server) ofRun(next func(http.ResponseWriter, *http.Request, *runSummary)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if run, ok := s.index.run(r.PathValue("id")); ok {
			next(w, r, run)
			return
		}
		s.refuse(w, r, http.StatusNotFound, "there is no such run")
	}
}

func (s *Server) runPage(w http.ResponseWriter, r *http.Request, run *runSummary) {
	body := runBody{Run: run, Parts: map[string]template.HTML{}}
	if text, ok := s.done.LoadAndDelete(run.ID); ok {
		body.Done = text.(string)
	}
	rec, err := journal.ReadRecord(run.dir)
	if err != nil {
		body.Problem = err.Error()
	} else {
		parts, err := s.parts(rec, run.dir, journal.HolderOf(run.dir))
		if err != nil {
			body.Problem = err.Error()
		}
		for name, html := range parts {
			body.Parts[name] = template.HTML(html)
		}
		body.Charts = liveCharts(run)
	}
	for _, o := range []output{{Stream: "stderr", Title: "Error output"}, {Stream: "stdout", Title: "Standard output"}} {
		newest, _ := report.Output(run.dir, o.Stream)
		t := tail{path: newest, keep: 16 << 10, turn: plainOutput}
		if _, err := t.read(); err != nil {
			o.Text = err.Error()
		}
		data, _ := t.since(position{})
		t.close()
		o.Text += strings.ToValidUTF8(string(data), "·")
		body.Output = append(body.Output, o)
	}
	sh := s.shell(r, titleOf(run), "/", body)
	sh.Live = true
	writePage(w, http.StatusOK, "run", sh)
}

func titleOf(s *runSummary) string { return cmp.Or(s.Name, s.ID) }

// liveCharts lists the charts of a run with their limits.
func liveCharts(s *runSummary) []liveChart {
	limit := func(n journal.Number) string {
		if !n.Known() {
			return ""
		}
		return strconv.FormatFloat(float64(n), 'g', -1, 64)
	}
	return []liveChart{
		{"finish", "Predicted finish", limit(s.DeadlineS), "s", "Elapsed time, and the finish as it was predicted at each time, with its 90 % interval."},
		{"money", "Cost against budget", limit(s.BudgetUSD), "USD", "Spent so far, and the cost of the whole run as it was predicted at each time, with its 90 % interval."},
		{"throughput", "Throughput", "", " " + s.ThroughputUnit, "Pace of the latest unit of work."},
		{"utilisation", "Utilization of allocated resources", "", "%", "CPUs and GPUs of the job."},
		{"memory", "Memory", "", "GiB", "Memory of the job, and the memory allocated to it."},
		{"progress", "Progress", limit(s.TotalUnits), " " + s.Unit + "s", "Work done."},
	}
}

// parts renders the parts of the page of a run that change with its record.
func (s *Server) parts(rec *journal.Record, dir string, agent *journal.Holder) (map[string]string, error) {
	doc := report.Overview(rec, dir, agent).Captioned()
	sections := slices.DeleteFunc(slices.Clone(doc.Sections), func(x page.Section) bool {
		return !slices.Contains([]string{"sla", "decisions", "recommendation", "warnings"}, x.ID)
	})
	run := summary(rec, agent)
	run.ID = filepath.Base(dir)
	out := map[string]string{}
	for _, p := range []struct {
		name string
		data any
	}{
		{"state", rowOfRun(run)}, {"summary", doc}, {"controls", run}, {"progress", rowOfRun(run)},
		{"front", frontOf(rec, run)}, {"sections", sections},
	} {
		html, err := partOf("part-"+p.name, p.data)
		if err != nil {
			return nil, fmt.Errorf("show %s of run %s: %w", p.name, run.ID, err)
		}
		out[p.name] = string(html)
	}
	return out, nil
}

// frontView is the front of a run with the preferences that select its points.
type frontView struct {
	ID      string
	Live    bool // an agent can carry out a preference
	Now     string
	Weights plan.Preference
	Presets []preset
	Picture *page.Picture
	Rows    []frontRow
	Why     string // instead of a front
	AtS     string
	Planner string
	HasSLA  bool
}

// preset is a named preference and what it selects.
type preset struct {
	Name, Allocation string
	Current          bool
}

type frontRow struct {
	Letter, Allocation        string
	Time, TimeSpan            string
	Cost, CostSpan            string
	Resource, Chance          string
	Chosen, Feasible, OnFront bool
	Prefer                    string // that selects this point; empty: none does
}

// frontOf returns the candidates of the last decision. Points on the front come first, from the fastest.
func frontOf(rec *journal.Record, run *runSummary) frontView {
	v := frontView{ID: run.ID, Live: run.State == "running", Now: rec.Preference.String(), Weights: rec.Preference, HasSLA: run.BudgetUSD.Known() || run.DeadlineS.Known()}
	for _, name := range []string{"time", "cost", "resource", "balanced"} {
		v.Presets = append(v.Presets, preset{Name: name, Current: name == v.Now})
	}
	p := rec.Plan
	if p == nil || len(p.Candidates) == 0 {
		v.Why = "No candidates yet: the run measures first."
		if run.State != "running" {
			v.Why = "Nothing was predicted in this run."
		} else if rec.Training.Unit != "" && !rec.Training.TotalUnits.Known() {
			v.Why = "The total amount of work is unknown, so that no whole run can be predicted (--epochs N or --steps N sets it)."
		}
		return v
	}
	v.Planner, v.AtS = p.Planner, page.Duration(math.Max(0, float64(p.AtS)))
	for i := range v.Presets {
		for _, o := range p.Options {
			if o.Prefer == v.Presets[i].Name {
				v.Presets[i].Allocation = o.Candidate.Allocation.String()
			}
		}
	}
	candidates := slices.DeleteFunc(slices.Clone(p.Candidates), func(c plan.Candidate) bool {
		return !page.Known(c.Seconds.P50) || !page.Known(c.CostUSD.P50) || !(c.Seconds.P50 > 0)
	})
	slices.SortStableFunc(candidates, func(a, b plan.Candidate) int {
		if a.OnFront != b.OnFront {
			return map[bool]int{true: -1, false: 1}[a.OnFront]
		}
		return cmp.Compare(a.Seconds.P50, b.Seconds.P50)
	})
	prefer := plan.Preferring(candidates)
	for i, c := range candidates {
		row := frontRow{Allocation: c.Allocation.String(), Time: page.Duration(c.Seconds.P50), TimeSpan: span(c.Seconds.P5, c.Seconds.P95, page.Duration),
			Cost: page.USD(c.CostUSD.P50), CostSpan: span(c.CostUSD.P5, c.CostUSD.P95, page.USD), Resource: page.Share(c.Resource), Chance: page.Share(c.Chance),
			Chosen: c.Allocation.Same(p.Allocation), Feasible: len(c.Breaks) == 0, OnFront: c.OnFront, Letter: page.Letter(i)}
		if w, ok := prefer[i]; ok {
			row.Prefer = w.String()
		}
		v.Rows = append(v.Rows, row)
	}
	v.Picture = v.picture(candidates, rec)
	return v
}

func span(lo, hi float64, one func(float64) string) string {
	if !page.Known(lo) || !page.Known(hi) || lo == hi {
		return ""
	}
	return one(lo) + " to " + one(hi)
}

// picture draws the candidates; a point that a preference selects leads to its row.
func (v *frontView) picture(candidates []plan.Candidate, rec *journal.Record) *page.Picture {
	s := page.Scatter{ID: "front", Title: "Time and cost of every candidate (predicted)", XName: "time of the whole run", YName: "cost of the whole run, USD", TimeX: true,
		XLimit: page.Level{Name: "deadline", Value: rec.SLA.TimeMax.Seconds()}, YLimit: page.Level{Name: "budget", Value: rec.SLA.CostMaxUSD},
		Keys: []page.Key{{Class: "ring", Name: "chosen"}, {Class: "disc", Name: "Pareto front"}, {Class: "disc quiet", Name: "feasible"}, {Class: "disc hollow", Name: "at risk"}}}
	for i := len(candidates) - 1; i >= 0; i-- { // those of the front above the others
		c, row := candidates[i], v.Rows[i]
		m := page.Mark{X: c.Seconds.P50, Y: c.CostUSD.P50, Radius: page.ShareRadius(c.Resource), Title: row.Allocation + "\ntime " + row.Time + "\ncost " + row.Cost}
		switch {
		case c.OnFront:
			m.Class, m.Name = "on-front", row.Letter
			s.Edge = append(s.Edge, page.Point{X: m.X, Y: m.Y})
		case row.Feasible:
			m.Class = "quiet"
		}
		if !row.Feasible {
			m.Class += " hollow"
		}
		if row.Chosen {
			m.Ring = "chosen"
		}
		if v.Live && row.Prefer != "" {
			m.Link = "#candidate-" + row.Letter
			m.Title += "\nprefer " + row.Prefer
		}
		s.Marks = append(s.Marks, m)
	}
	s.About = fmt.Sprintf("%s, %d on the Pareto front", page.Plural(len(candidates), "candidate"), len(s.Edge))
	p := s.Picture()
	return &p
}

// reportPage is the full report of a run as it is now.
func (s *Server) reportPage(w http.ResponseWriter, r *http.Request, run *runSummary) {
	data, err := report.Load(run.dir)
	if err != nil {
		s.refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	w.Header().Set("Content-Security-Policy", documentPolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_ = data.Render(w, "html") // the connection may be gone
}

// chartFile is a chart of the report as a picture, for pages without scripts.
func (s *Server) chartFile(w http.ResponseWriter, r *http.Request, run *runSummary) {
	data, err := report.Load(run.dir)
	if err != nil {
		s.refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	for _, p := range data.Document().Pictures {
		if p.ID+".svg" == r.PathValue("name") && p.Empty == "" {
			w.Header().Set("Content-Security-Policy", documentPolicy)
			w.Header().Set("Content-Type", "image/svg+xml; charset=utf-8")
			_, _ = io.WriteString(w, p.File())
			return
		}
	}
	s.refuse(w, r, http.StatusNotFound, "there is no such chart, or it has no data")
}

// outputFile is the whole output of all jobs of the run that is kept, as it was written.
func (s *Server) outputFile(w http.ResponseWriter, r *http.Request, run *runSummary) {
	name := r.PathValue("name")
	if name != "stdout" && name != "stderr" {
		s.refuse(w, r, http.StatusNotFound, "there is no such output")
		return
	}
	_, out := report.Output(run.dir, name)
	defer out.Close()
	if found, err := out.Open(-1); !found || err != nil {
		s.refuse(w, r, http.StatusNotFound, "this output is not kept")
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Content-Disposition", "inline; filename="+strconv.Quote(url.PathEscape(run.ID+"."+name)))
	_ = out.Copy(w) // the connection may be gone
}

// apiRun is the record of a run with its note.
func (s *Server) apiRun(w http.ResponseWriter, r *http.Request, run *runSummary) {
	rec, err := journal.ReadRecord(run.dir)
	if err != nil {
		s.refuse(w, r, http.StatusNotFound, err.Error())
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{"schema": 1, "summary": run, "record": rec})
}

// maxPoints is the number of rows of a series that a page gets at once.
const maxPoints = 1200

// series is a table of a run as columns.
type series struct {
	Schema  int                         `json:"schema"`
	RunID   string                      `json:"run_id"`
	Columns map[string][]journal.Number `json:"columns"`
	After   string                      `json:"after"` // of the event stream, to continue after the last row
}

func readSeries(run *runSummary, file string, names []string) (series, error) {
	columns, at, err := columnsOf(filepath.Join(run.dir, file), names, maxPoints)
	out := series{Schema: 1, RunID: run.ID, Columns: map[string][]journal.Number{}, After: cursor{samples: at}.String()}
	for i, name := range names {
		numbers := []journal.Number{}
		for _, v := range columns[i] {
			numbers = append(numbers, journal.Number(v))
		}
		out.Columns[name] = numbers
	}
	return out, err
}

// apiSeries returns the handler of a table of a run.
func (s *Server) apiSeries(file string, names []string) http.HandlerFunc {
	return s.ofRun(func(w http.ResponseWriter, r *http.Request, run *runSummary) {
		out, err := readSeries(run, file, names)
		if err != nil && !os.IsNotExist(err) {
			s.refuse(w, r, http.StatusInternalServerError, err.Error())
			return
		}
		answerJSON(w, http.StatusOK, out)
	})
}

// trainingColumns are the columns of performance_metrics.csv that readers get.
var trainingColumns = []string{"time_s", "epoch", "step", "throughput", "train_loss", "train_accuracy", "test_loss", "test_accuracy", "cost_usd"}
