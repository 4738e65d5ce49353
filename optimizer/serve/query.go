package serve

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// query selects, orders and cuts the list of runs.
type query struct {
	Words string // all must occur in the id, name, script, model, state, tags or note of a run
	State string // of runSummary; empty: all
	SLA   string // of runSummary; empty: all
	Tag   string
	Sort  string // a key of orders
	Down  bool
	Page  int // from 1
	Size  int // runs per page
}

// sizes are the numbers of runs per page.
var sizes = []int{25, 50, 100, 250}

// orders are the orders of the list. Unknown values come last in both directions.
var orders = map[string]func(s *runSummary) (float64, string){
	"started":  func(s *runSummary) (float64, string) { return 0, s.ID },
	"name":     func(s *runSummary) (float64, string) { return 0, strings.ToLower(s.Name) },
	"state":    func(s *runSummary) (float64, string) { return 0, s.State },
	"sla":      func(s *runSummary) (float64, string) { return 0, s.SLA },
	"progress": func(s *runSummary) (float64, string) { return float64(s.Units) / float64(s.TotalUnits), "" },
	"time":     func(s *runSummary) (float64, string) { return float64(s.Seconds), "" },
	"cost":     func(s *runSummary) (float64, string) { return float64(s.CostUSD), "" },
	"waste":    func(s *runSummary) (float64, string) { return s.mostWaste(), "" },
}

// parseQuery reads a query from the parameters of an address. Values that are not valid are errors.
func parseQuery(v url.Values) (query, error) {
	q := query{Words: strings.TrimSpace(v.Get("q")), State: v.Get("state"), SLA: v.Get("sla"), Tag: v.Get("tag"), Sort: cmp.Or(v.Get("sort"), "started"), Down: true, Page: 1, Size: 50}
	if _, ok := orders[q.Sort]; !ok {
		return q, fmt.Errorf("sort %q: unknown", q.Sort)
	}
	switch d := v.Get("dir"); d {
	case "":
		q.Down = q.Sort != "name" && q.Sort != "state" && q.Sort != "sla"
	case "up", "down":
		q.Down = d == "down"
	default:
		return q, fmt.Errorf("dir %q: want up or down", d)
	}
	var err error
	number := func(name string, to *int, most int) {
		text := v.Get(name)
		if text == "" || err != nil {
			return
		}
		n, bad := strconv.Atoi(text)
		if bad != nil || n < 1 || n > most {
			err = fmt.Errorf("%s %q: want a number from 1 to %d", name, text, most)
			return
		}
		*to = n
	}
	number("page", &q.Page, 1_000_000)
	number("size", &q.Size, 1000)
	return q, err
}

// values returns the parameters of the query with another value of some; an empty value removes the parameter.
func (q query) values(pairs ...string) url.Values {
	v := url.Values{}
	set := func(name, value string) {
		if v.Del(name); value != "" {
			v.Set(name, value)
		}
	}
	set("q", q.Words)
	set("state", q.State)
	set("sla", q.SLA)
	set("tag", q.Tag)
	if q.Sort != "started" || !q.Down {
		set("sort", q.Sort)
		set("dir", map[bool]string{true: "down", false: "up"}[q.Down])
	}
	if q.Page > 1 {
		set("page", strconv.Itoa(q.Page))
	}
	if q.Size != 50 {
		set("size", strconv.Itoa(q.Size))
	}
	for i := 0; i+1 < len(pairs); i += 2 {
		set(pairs[i], pairs[i+1])
	}
	return v
}

// link returns the address of the list with other parameters.
func (q query) link(pairs ...string) string {
	if v := q.values(pairs...); len(v) > 0 {
		return "/?" + v.Encode()
	}
	return "/"
}

// selected returns the runs of the query in order, uncut. O(n log n).
func (q query) selected(runs []*runSummary) []*runSummary {
	words := strings.Fields(strings.ToLower(q.Words))
	var out []*runSummary
	for _, s := range runs {
		if q.State != "" && s.State != q.State || q.SLA != "" && s.SLA != q.SLA || q.Tag != "" && !slices.Contains(s.Tags, q.Tag) ||
			slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(s.words, w) }) {
			continue
		}
		out = append(out, s)
	}
	if q.Sort == "started" { // the order of the list
		if !q.Down {
			slices.Reverse(out)
		}
		return out
	}
	type key struct {
		number float64
		text   string
		run    *runSummary
	}
	keys := make([]key, len(out))
	for i, s := range out {
		keys[i].number, keys[i].text = orders[q.Sort](s)
		keys[i].run = s
	}
	slices.SortStableFunc(keys, func(a, b key) int {
		if x := math.IsNaN(a.number); x != math.IsNaN(b.number) {
			return map[bool]int{true: 1, false: -1}[x]
		}
		c := cmp.Or(cmp.Compare(a.number, b.number), strings.Compare(a.text, b.text))
		if q.Down {
			return -c
		}
		return c
	})
	for i, k := range keys {
		out[i] = k.run
	}
	return out
}

// cut returns one page of runs and the number of pages, at least 1. A page beyond the last is the last.
func (q *query) cut(runs []*runSummary) (part []*runSummary, pages int) {
	pages = max(1, (len(runs)+q.Size-1)/q.Size)
	q.Page = min(q.Page, pages)
	from := (q.Page - 1) * q.Size
	return runs[from:min(from+q.Size, len(runs))], pages
}

// slaWord summarises the verdicts of a run.
func slaWord(rec *journal.Record) string {
	word := "none"
	for _, v := range rec.SLA.Verdicts {
		switch {
		case v.Status == sla.Violated:
			return "missed"
		case v.Status == sla.AtRisk:
			word = "at-risk"
		case v.Status == sla.Unknown && word != "at-risk":
			word = "unknown"
		case word == "none":
			word = "met"
		}
	}
	return word
}
