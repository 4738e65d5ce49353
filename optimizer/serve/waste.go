package serve

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

// prepared is a document that takes seconds to make: it is made in the background and kept.
type prepared struct {
	mu      sync.Mutex
	version uint64 // of what the document was made from
	at      time.Time
	made    madeDocument
	making  chan struct{} // closed when the document is made; nil: none is being made
}

// madeDocument is a document of a page, or why it could not be made.
type madeDocument struct {
	Doc     *page.Document
	Problem string
	Making  bool // none exists yet
}

// Times of prepared documents.
const (
	preparedFor  = 30 * time.Second // for which a document is shown although what it was made from has changed
	preparedWait = 2 * time.Second  // for which a request waits for the first document
	refreshEvery = "3"              // seconds after which a browser asks again for the first document
)

// of returns the latest document, and starts to make another one if the version has changed. The first request waits a
// while for the document; if it is absent then, the browser is asked to return.
func (p *prepared) of(w http.ResponseWriter, version uint64, build func() (page.Document, error)) madeDocument {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.making == nil && (p.at.IsZero() || p.version != version && time.Since(p.at) > preparedFor) {
		done := make(chan struct{})
		p.making = done
		go func() {
			doc, err := attempt(build)
			p.mu.Lock()
			defer p.mu.Unlock()
			p.made, p.version, p.at, p.making = madeDocument{Doc: &doc}, version, time.Now(), nil
			if err != nil {
				p.made = madeDocument{Problem: err.Error()}
			}
			close(done)
		}()
	}
	if done := p.making; p.at.IsZero() {
		p.mu.Unlock()
		select {
		case <-done:
		case <-time.After(preparedWait):
		}
		p.mu.Lock()
		if p.at.IsZero() {
			w.Header().Set("Refresh", refreshEvery)
			return madeDocument{Making: true}
		}
	}
	return p.made
}

// attempt makes a document; a panic, as by a damaged file, is an error and does not end the page.
func attempt(build func() (page.Document, error)) (doc page.Document, err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("it panicked: %v", x)
		}
	}()
	doc, err = build()
	return doc.Captioned(), err
}

type wasteBody struct {
	Causes   *page.Table
	Runs     *page.Table
	Oversize *page.Table
	Known    int
	All      int
	Analysis madeDocument
}

// causes are the causes of wasted spend in a record.
var causes = []struct {
	name, about string
	of          func(w journal.Waste) journal.Number
}{
	{"failed runs", "work that was lost because a run failed", func(w journal.Waste) journal.Number { return w.Failed }},
	{"restarts", "checkpoint, exit and start until work resumed", func(w journal.Waste) journal.Number { return w.Restarts }},
	{"idle processors", "allocated and not used, where resources are priced by unit", func(w journal.Waste) journal.Number { return w.Idle }},
	{"input-bound", "processors that waited for data", func(w journal.Waste) journal.Number { return w.InputBound }},
	{"unused memory", "allocated and not used, where resources are priced by unit", func(w journal.Waste) journal.Number { return w.OverProvisioned }},
}

// mostRuns is the number of runs in a table of the page.
const mostRuns = 20

func (s *Server) wastePage(w http.ResponseWriter, r *http.Request) {
	list := s.index.list()
	body := wasteBody{All: list.total, Causes: causesTable(list.runs), Runs: costlyTable(list.runs), Oversize: oversizeTable(list.runs)}
	for _, run := range list.runs {
		if page.Known(run.mostWaste()) {
			body.Known++
		}
	}
	if s.options.Analyze != nil && list.total > 0 {
		body.Analysis = s.analysis.of(w, list.version, s.options.Analyze)
	}
	writePage(w, http.StatusOK, "waste", s.shell(r, "Wasted spend", "/waste", body))
}

func causesTable(runs []*runSummary) *page.Table {
	t := &page.Table{Caption: "Wasted spend by cause, over all runs", Columns: slices.Concat(page.Left("Cause"), page.Right("USD", "Runs"), page.Left("What it is")), Named: true}
	for _, c := range causes {
		sum, n := 0.0, 0
		for _, run := range runs {
			if v := c.of(run.WasteUSD); v.Known() {
				sum += float64(v)
				n++
			}
		}
		amount := page.NoData
		if n > 0 {
			amount = page.USD(sum)
		}
		t.Rows = append(t.Rows, page.Row(c.name, amount, page.Count(float64(n)), c.about))
	}
	return t
}

// costlyTable lists the runs with the largest waste by one cause; causes may overlap and are not added.
func costlyTable(runs []*runSummary) *page.Table {
	t := &page.Table{Caption: "Runs with the largest waste", Columns: slices.Concat(page.Left("Run", "State"), page.Right("Cost", "Largest waste"), page.Left("Cause"))}
	costly := slices.DeleteFunc(slices.Clone(runs), func(s *runSummary) bool { return !(s.mostWaste() > 0) })
	slices.SortStableFunc(costly, func(a, b *runSummary) int { return cmp.Compare(b.mostWaste(), a.mostWaste()) })
	for _, run := range costly[:min(len(costly), mostRuns)] {
		cause := ""
		for _, c := range causes {
			if v := c.of(run.WasteUSD); v.Known() && float64(v) == run.mostWaste() {
				cause = c.name
			}
		}
		t.Rows = append(t.Rows, page.Row(run.ID, run.State, page.USD(float64(run.CostUSD)), page.USD(run.mostWaste()), cause))
	}
	return t
}

// Thresholds of right-sizing.
const (
	lowUse      = 50.0 // % of the allocated CPUs or GPUs
	memoryRoom  = 2.0  // ratio of allocated to used memory
	memorySlack = 1.25 // recommended ratio
)

// oversizeTable lists ended runs that held at least twice what they used, newest first, one per script, with what would
// have sufficed.
func oversizeTable(runs []*runSummary) *page.Table {
	t := &page.Table{Caption: "Right-sizing: what recent runs held and used", Columns: page.Left("Run", "Allocation", "CPU use", "GPU use", "Peak memory", "Would have sufficed")}
	seen := map[string]bool{}
	for _, run := range runs {
		if len(t.Rows) == mostRuns {
			break
		}
		advice := rightSize(run)
		if run.State == "running" || seen[run.Script] || advice == "" {
			continue
		}
		seen[run.Script] = true
		t.Rows = append(t.Rows, page.Row(run.ID, run.Allocation.text, cpuUse(run), page.Percent(float64(run.GPUUtil)), page.GiB(float64(run.PeakMemoryGiB)), advice))
	}
	return t
}

// cpuUse returns the utilization of the allocated CPUs, with the part of other programs.
func cpuUse(s *runSummary) string {
	text := page.Percent(float64(s.CPUUtil))
	if s.TakenCPUs > 0 && s.CPUUtil.Known() {
		text += fmt.Sprintf(" (others %s)", page.Percent(100*s.TakenCPUs/float64(max(1, s.Allocation.CPUs))))
	}
	return text
}

// rightSize describes the resources that a run would have needed, by its measured use; empty if it used what it held. CPUs
// that other programs used count as needed.
func rightSize(s *runSummary) string {
	var parts []string
	outcome := journal.Outcome{CPUUtil: s.CPUUtil, GrantedCPUs: s.granted, TakenCPUs: s.TakenCPUs}
	if use := outcome.NeededCPUs(s.Allocation.CPUs); s.Allocation.CPUs > 1 && use < lowUse/100*float64(s.Allocation.CPUs) {
		if need := max(1, int(use*memorySlack+0.999)); need < s.Allocation.CPUs {
			parts = append(parts, fmt.Sprintf("--cpus %d:%d", need, need))
		}
	}
	if use := float64(s.GPUUtil); use < lowUse && s.Allocation.GPUs > 1 {
		if need := max(1, int(float64(s.Allocation.GPUs)*use/100*memorySlack+0.999)); need < s.Allocation.GPUs {
			parts = append(parts, fmt.Sprintf("--gpus %d:%d", need, need))
		}
	}
	if held, used := float64(s.Allocation.MemoryGiB), float64(s.PeakMemoryGiB); used > 0 && held > memoryRoom*used {
		need := max(0.25, float64(int(used*memorySlack*4+0.999))/4)
		if need < held {
			parts = append(parts, fmt.Sprintf("--memory %g:%g", need, need))
		}
	}
	return strings.Join(parts, " ")
}
