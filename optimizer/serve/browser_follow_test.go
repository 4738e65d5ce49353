//go:build browser

package serve_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/browser"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/serve"
)

// tab opens another tab of the browser, in front of the others.
func (w *world) tab() *world {
	w.t.Helper()
	ctx, cancel := chromedp.NewContext(w.ctx)
	w.t.Cleanup(cancel)
	other := *w
	other.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // its context is that of the tab
		w.t.Fatal(err)
	}
	return &other
}

// window minimizes the window of a tab, which hides its page, or shows it again.
func (w *world) window(state browser.WindowState) {
	w.t.Helper()
	w.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
		found, err := cdp.Call(ctx, t, browser.GetWindowForTarget, browser.GetWindowForTargetParams{})
		if err != nil {
			return err
		}
		_, err = cdp.Call(ctx, t, browser.SetWindowBounds, browser.SetWindowBoundsParams{WindowID: found.WindowID, Bounds: &browser.Bounds{WindowState: state}})
		return err
	}))
}

// add appends to a file of a run.
func (w *world) add(id, file, text string) {
	w.t.Helper()
	f, err := os.OpenFile(filepath.Join(journal.RunsDir(w.state), id, file), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		w.t.Fatal(err)
	}
}

// open opens the page of a run in another tab and waits until it has its first state.
func (w *world) open(id string) *world {
	w.t.Helper()
	x := w.tab()
	x.do(chromedp.Navigate(w.url + "/runs/" + id))
	x.until("draws the chart", "document.querySelector('figure[data-chart=finish] canvas')")
	return x
}

// answered checks that the server answers a page beside its event stream, reading and changing.
func (w *world) answered(id string) {
	w.t.Helper()
	w.until("is answered", "fetch('/api/runs').then(r => r.ok)")
	w.until("changes a note", fmt.Sprintf("fetch('/runs/%s/note', {method: 'POST', body: new URLSearchParams({text: 'seen'}), headers: {Accept: 'application/json'}}).then(r => r.ok)", id))
}

// keepSources keeps the event streams that a page opens.
const keepSources = "window.sources = []; window.EventSource = class extends EventSource { constructor(...args) { super(...args); sources.push(this); } }"

// TestSevenPages opens the pages of more ended runs than a browser opens connections to a server. Each closes its stream, and
// follows a run that another agent continues.
func TestSevenPages(t *testing.T) {
	w := newWorld(t)
	ids := serve.WriteRuns(t, w.state, 7)
	w.serve()
	var x *world
	for _, id := range ids {
		x = w.tab()
		x.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: keepSources})
			return err
		}), chromedp.Navigate(w.url+"/runs/"+id))
		x.until("has followed the run to its end", "sources.length > 0 && sources.every(s => s.readyState === EventSource.CLOSED)")
	}
	w.answered(ids[0])
	serve.HoldRun(t, w.state, ids[6])
	w.add(ids[6], "job.stdout", "continued by another agent\n")
	x.until("follows the run that continues", has("#log-stdout", "continued by another agent"))
}

// TestHiddenPages opens the pages of more running runs than a browser opens connections to a server. Those that are hidden
// do not occupy any, and continue where they were when they are shown again.
func TestHiddenPages(t *testing.T) {
	w := newWorld(t)
	ids := serve.WriteRuns(t, w.state, 7)
	for _, id := range ids {
		serve.HoldRun(t, w.state, id)
	}
	w.serve()
	var pages []*world
	for _, id := range ids {
		x := w.open(id)
		x.until("shows the output", has("#log-stdout", "epoch 2 of 40"))
		x.window(browser.WindowStateMinimized)
		x.until("is hidden", "document.hidden")
		pages = append(pages, x)
	}
	w.answered(ids[0])
	w.add(ids[0], "job.stdout", "epoch 3 of 40\n")
	x := pages[0]
	x.window(browser.WindowStateNormal)
	x.until("continues", has("#log-stdout", "epoch 3 of 40"))
	if text := x.text("#log-stdout"); strings.TrimSpace(text) != "epoch 1 of 40\nepoch 2 of 40\nepoch 3 of 40" {
		t.Errorf("output of the page that was hidden: %q", text)
	}
	x.script("dispatchEvent(new PageTransitionEvent('pagehide', {persisted: true}))")
	w.add(ids[0], "job.stdout", "epoch 4 of 40\n")
	x.script("dispatchEvent(new PageTransitionEvent('pageshow', {persisted: true}))")
	x.until("continues after a return to it", has("#log-stdout", "epoch 4 of 40"))
}

// TestThinnedSamples halves the samples of a run, as the table of a long run does, while its page is open: the charts keep
// their past, which is more than the stream sends.
func TestThinnedSamples(t *testing.T) {
	w := newWorld(t)
	id := serve.WriteRuns(t, w.state, 1)[0]
	serve.HoldRun(t, w.state, id)
	const head, rows = "time_s,cpus,memory_gib,tree_cpu_percent,tree_memory_gib,cost_usd,projected_s,projected_cost_usd,units,throughput\n", 24_000
	table := func(step int) string {
		var b strings.Builder
		b.WriteString(head)
		for at := 0; at < rows; at += step {
			fmt.Fprintf(&b, "%d,2,4,150.12345678,1.12345678,%.8f,24118.12345678,0.12345678,%d,100.12345678\n", at, .0001*float64(at), at)
		}
		return b.String()
	}
	path := filepath.Join(journal.RunsDir(w.state), id, "samples.csv")
	write(t, path, table(1))
	w.serve()
	x := w.open(id)
	times := "uPlot.sync('run').plots[0].data[0]"
	x.until("has the whole run", times+"[0] === 0 && "+times+".at(-1) === 23999")
	write(t, path+".new", table(2)+fmt.Sprintf("%d,2,4,150,1,2.4,24118,0.12,24001,100\n", rows+1))
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	x.until("follows the replaced table", times+".at(-1) === 24001")
	if first := evaluate[float64](x, times+"[0]"); first != 0 {
		t.Errorf("the first point lies at %g s after the table was thinned, want 0", first)
	}
	w.add(id, "samples.csv", fmt.Sprintf("%d,2,4,150,1,2.4,24118,0.12,24002,100\n", rows+2))
	x.until("follows it further", times+".at(-1) === 24002")
	if !evaluate[bool](x, times+".every((t, i, all) => i === 0 || t > all[i - 1]) && "+times+"[0] === 0") {
		t.Error("the points are not in the order of time from 0")
	}
}

// TestSelectedRun checks that the list is renewed while a run is selected, and that the selection and the focus stay.
func TestSelectedRun(t *testing.T) {
	w := newWorld(t)
	ids := serve.WriteRuns(t, w.state, 3)
	w.serve()
	w.until("lists the runs", has("#found", "3 of 3 runs"))
	box := fmt.Sprintf("document.querySelector('input[value=%q]')", ids[1])
	w.script(box + ".focus(), " + box + ".click()")
	if err := os.Mkdir(filepath.Join(journal.RunsDir(w.state), "20990101-000000-new-000000"), 0o700); err != nil {
		t.Fatal(err)
	}
	w.until("lists the new run", has("#found", "4 of 4 runs"))
	if !evaluate[bool](w, "document.activeElement === "+box+" && "+box+".checked") {
		t.Error("the selected run has lost its mark or the focus")
	}
}
