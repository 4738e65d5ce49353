package serve

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/chart"
	"trainopt/optimizer/report/page"
)

// wasteCache holds the analysis of all runs, which takes seconds for thousands of them.
type wasteCache struct {
	mu      sync.Mutex
	version uint64
	at      time.Time
	doc     page.Document
	err     error
}

// analysisFor is the time for which an analysis is shown although runs have changed.
const analysisFor = 30 * time.Second

// analyze returns the analysis of all finished runs.
func (s *Server) analyze(version uint64) (page.Document, error) {
	c := &s.waste
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.at.IsZero() && (c.version == version || time.Since(c.at) < analysisFor) {
		return c.doc, c.err
	}
	c.doc, c.err = s.options.Analyze()
	c.version, c.at = version, time.Now()
	return c.doc, c.err
}

type wasteBody struct {
	Causes   *page.Table
	Runs     *page.Table
	Oversize *page.Table
	Known    int
	All      int
	Analysis *page.Document
	Problem  string
}

// causes are the causes of wasted spend in a record.
var causes = []struct {
	name, about string
	of          func(w waste) journal.Number
}{
	{"failed runs", "work that was lost because a run failed", func(w waste) journal.Number { return w.Failed }},
	{"restarts", "checkpoint, exit and start until work resumed", func(w waste) journal.Number { return w.Restarts }},
	{"idle processors", "allocated and not used, where resources are priced by unit", func(w waste) journal.Number { return w.Idle }},
	{"input-bound", "processors that waited for data", func(w waste) journal.Number { return w.InputBound }},
	{"unused memory", "allocated and not used, where resources are priced by unit", func(w waste) journal.Number { return w.OverProvisioned }},
}

// mostRuns is the number of runs in a table of the page.
const mostRuns = 20

func (s *Server) wastePage(w http.ResponseWriter, r *http.Request) {
	list := s.index.list()
	body := wasteBody{All: list.total, Causes: causesTable(list.runs), Runs: costlyTable(list.runs), Oversize: oversizeTable(list.runs)}
	for _, run := range list.runs {
		if chart.Known(run.WasteUSD.most()) {
			body.Known++
		}
	}
	if s.options.Analyze != nil && list.total > 0 {
		doc, err := s.analyze(list.version)
		if err != nil {
			body.Problem = err.Error()
		} else {
			doc = doc.Captioned()
			body.Analysis = &doc
		}
	}
	writePage(w, http.StatusOK, "waste", s.shell(r, "Wasted spend", "/waste", body))
}

func causesTable(runs []*Summary) *page.Table {
	t := &page.Table{Caption: "Wasted spend by cause, over all runs", Columns: append(page.Left("Cause"), page.Right("USD", "Runs")...), Named: true}
	t.Columns = append(t.Columns, page.Left("What it is")...)
	for _, c := range causes {
		sum, n := 0.0, 0
		for _, run := range runs {
			if v := c.of(run.WasteUSD); v.Known() {
				sum += float64(v)
				n++
			}
		}
		amount := chart.NoData
		if n > 0 {
			amount = chart.USD(sum)
		}
		t.Rows = append(t.Rows, page.Row(c.name, amount, chart.Count(float64(n)), c.about))
	}
	return t
}

// costlyTable lists the runs with the largest waste by one cause; causes may overlap and are not added.
func costlyTable(runs []*Summary) *page.Table {
	t := &page.Table{Caption: "Runs with the largest waste", Columns: append(page.Left("Run", "State"), page.Right("Cost", "Largest waste")...)}
	t.Columns = append(t.Columns, page.Left("Cause")...)
	costly := slices.DeleteFunc(slices.Clone(runs), func(s *Summary) bool { return !(s.WasteUSD.most() > 0) })
	slices.SortStableFunc(costly, func(a, b *Summary) int { return compareDown(a.WasteUSD.most(), b.WasteUSD.most()) })
	for _, run := range costly[:min(len(costly), mostRuns)] {
		cause := ""
		for _, c := range causes {
			if v := c.of(run.WasteUSD); v.Known() && float64(v) == run.WasteUSD.most() {
				cause = c.name
			}
		}
		t.Rows = append(t.Rows, page.Row(run.ID, run.State, chart.USD(float64(run.CostUSD)), chart.USD(run.WasteUSD.most()), cause))
	}
	return t
}

func compareDown(a, b float64) int {
	switch {
	case a > b:
		return -1
	case a < b:
		return 1
	}
	return 0
}

// Thresholds of right-sizing.
const (
	lowUse      = 50.0 // % of the allocated CPUs or GPUs
	memoryRoom  = 2.0  // ratio of allocated to used memory
	memorySlack = 1.25 // recommended ratio
)

// oversizeTable lists ended runs that held at least twice what they used, newest first, one per script, with what would
// have sufficed.
func oversizeTable(runs []*Summary) *page.Table {
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
		t.Rows = append(t.Rows, page.Row(run.ID, run.Allocation.text, chart.Percent(float64(run.CPUUtil)), chart.Percent(float64(run.GPUUtil)), chart.GiB(float64(run.PeakMemoryGiB)), advice))
	}
	return t
}

// rightSize describes the resources that a run would have needed, by its measured use; empty if it used what it held.
func rightSize(s *Summary) string {
	var parts []string
	if use := float64(s.CPUUtil); use < lowUse && s.Allocation.CPUs > 1 {
		if need := max(1, int(float64(s.Allocation.CPUs)*use/100*memorySlack+0.999)); need < s.Allocation.CPUs {
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
