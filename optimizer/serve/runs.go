package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"

	"trainopt/optimizer/report/page"
)

// runsBody is the content of the list of runs.
type runsBody struct {
	Query  query
	Heads  []head
	Rows   []runRow
	Found  int
	All    int
	Read   int // runs that were read so far
	Pages  int
	First  string
	Before string
	After  string
	Last   string
	States []string
	SLAs   []string
	Tags   []string
	Sizes  []int
	Part   string // address of the table alone
}

// head is the heading of a column that orders the list.
type head struct {
	Name, Link, Sorted string // Sorted: ascending, descending or none
	Right              bool
}

// runRow is a run in the list.
type runRow struct {
	*runSummary
	Light, SLALight page.Light
	Time, Cost      string
	Progress        string
	Percent         string // of the work; empty if the total is unknown
}

func rowOfRun(s *runSummary) runRow {
	r := runRow{runSummary: s, Light: s.light, SLALight: s.slaLight, Time: page.Duration(float64(s.Seconds)), Cost: page.USD(float64(s.CostUSD)), Progress: progressWords(s)}
	if p := 100 * float64(s.Units) / float64(s.TotalUnits); page.Known(p) {
		r.Percent = strconv.Itoa(int(math.Min(100, math.Floor(p))))
	}
	return r
}

// progressWords returns "12 of 40 epochs".
func progressWords(s *runSummary) string {
	switch {
	case !s.Units.Known():
		return page.NoData
	case s.TotalUnits.Known():
		return fmt.Sprintf("%s of %s %ss", page.Count(float64(s.Units)), page.Count(float64(s.TotalUnits)), s.Unit)
	}
	return fmt.Sprintf("%s %ss", page.Count(float64(s.Units)), s.Unit)
}

// stateWords lists the values of runSummary.State that a user may select.
var stateWords = []string{"running", "interrupted", "finished", "stopped", "failed", "planned only", "never began", "unreadable"}

var slaWords = []string{"met", "at-risk", "missed", "unknown", "none"}

func (s *Server) runsPage(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	list := s.index.list()
	tag := fmt.Sprintf(`W/"%d-%d-%s"`, list.version, len(list.runs), assetsVersion)
	part := r.URL.Query().Get("part") == "table"
	if part {
		w.Header().Set("ETag", tag)
		if r.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
	}
	body := s.runsBody(q, list)
	sh := s.shell(r, "Runs", "/", body)
	if part {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		if err := pages().ExecuteTemplate(w, "runs-table", body); err != nil {
			return // the connection is gone
		}
		return
	}
	writePage(w, http.StatusOK, "runs", sh)
}

// runsBody selects the runs of a query.
func (s *Server) runsBody(q query, list listing) runsBody {
	found := q.selected(list.runs)
	part, pages := q.cut(found)
	b := runsBody{Query: q, Found: len(found), All: list.total, Read: len(list.runs), Pages: pages, States: stateWords, SLAs: slaWords, Tags: tagsOf(list.runs), Sizes: sizes}
	for _, run := range part {
		b.Rows = append(b.Rows, rowOfRun(run))
	}
	for _, c := range []struct {
		name, sort string
		right      bool
	}{{"Run", "name", false}, {"State", "state", false}, {"SLA", "sla", false}, {"Progress", "progress", false}, {"Time", "time", true}, {"Cost", "cost", true}, {"Started", "started", false}} {
		h := head{Name: c.name, Sorted: "none", Right: c.right}
		down := c.sort != "name" && c.sort != "state" && c.sort != "sla"
		if q.Sort == c.sort {
			h.Sorted = map[bool]string{true: "descending", false: "ascending"}[q.Down]
			down = !q.Down
		}
		next := q
		next.Sort, next.Down, next.Page = c.sort, down, 1
		h.Link = next.link()
		b.Heads = append(b.Heads, h)
	}
	at := func(n int) string { return q.link("page", strconv.Itoa(n)) }
	if q.Page > 1 {
		b.First, b.Before = q.link("page", ""), at(q.Page-1)
	}
	if q.Page < pages {
		b.After, b.Last = at(q.Page+1), at(pages)
	}
	b.Part = q.link("part", "table")
	return b
}

// tagsOf returns the tags of all runs, the most frequent first, at most 50.
func tagsOf(runs []*runSummary) []string {
	count := map[string]int{}
	for _, s := range runs {
		for _, t := range s.Tags {
			count[t]++
		}
	}
	tags := make([]string, 0, len(count))
	for t := range count {
		tags = append(tags, t)
	}
	slices.SortFunc(tags, func(a, b string) int { return cmp.Or(cmp.Compare(count[b], count[a]), cmp.Compare(a, b)) })
	return tags[:min(len(tags), 50)]
}

// apiRuns is the list of runs as JSON.
func (s *Server) apiRuns(w http.ResponseWriter, r *http.Request) {
	q, err := parseQuery(r.URL.Query())
	if err != nil {
		s.refuse(w, r, http.StatusBadRequest, err.Error())
		return
	}
	list := s.index.list()
	found := q.selected(list.runs)
	part, pages := q.cut(found)
	if part == nil {
		part = []*runSummary{}
	}
	answerJSON(w, http.StatusOK, map[string]any{"schema": 1, "total": list.total, "read": len(list.runs), "found": len(found), "page": q.Page, "pages": pages, "size": q.Size, "runs": part})
}

// apiIndex lists the addresses for programs.
func (s *Server) apiIndex(w http.ResponseWriter, _ *http.Request) {
	answerJSON(w, http.StatusOK, map[string]any{"schema": 1, "get": []string{"/api/runs", "/api/runs/ID", "/api/runs/ID/samples", "/api/runs/ID/training", "/runs/ID/events"},
		"post": []string{"/runs/ID/stop", "/runs/ID/resume", "/runs/ID/prefer", "/runs/ID/note"}})
}
