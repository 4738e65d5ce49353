//go:build browser

package serve_test

import (
	"bufio"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"golang.org/x/sys/unix"

	"trainopt/optimizer/journal"
	"trainopt/optimizer/serve"
)

// patience bounds the waits of a test; it expires only if the test fails.
const patience = 5 * time.Minute

// binary is the program. The other tests of the package are not part of these builds: `make test` runs them.
var binary = flag.String("binary", "", "the program, by its absolute path (make browser)")

// paced is a training whose epoch takes as long as its CPUs and its parallel share say, whatever the load of the machine.
const paced = `import os, signal, sys, time
ckpt = os.path.join(os.environ.get("OPTIMIZER_CHECKPOINT_DIR", "."), "epoch")
total, cpus = int(os.environ["OPTIMIZER_EPOCHS"]), len(os.sched_getaffinity(0))
pace = 0.6 * (0.4 + 0.6 / cpus)
leave = []
signal.signal(signal.SIGUSR1, lambda *a: leave.append(1))
start = 0
if os.environ.get("OPTIMIZER_RESUME") == "1" and os.path.exists(ckpt):
    start = int(open(ckpt).read())
log = os.environ["OPTIMIZER_LOG"]
if not os.path.exists(log):
    open(log, "w").write("epoch,total_epochs,data_count,epoch_time,train_loss\n")
for epoch in range(start + 1, total + 1):
    time.sleep(pace)
    with open(log, "a") as f: f.write("%d,%d,100,%g,%g\n" % (epoch, total, pace, 1 / epoch))
    print("epoch", epoch, "of", total, "on", cpus, "CPUs", flush=True)
    os.makedirs(os.path.dirname(ckpt), exist_ok=True)
    with open(ckpt + ".tmp", "w") as f: f.write(str(epoch))
    os.replace(ckpt + ".tmp", ckpt)
    if leave: sys.exit(75)
`

// world is a folder with a state directory, a served page and a browser.
type world struct {
	t          *testing.T
	dir, state string
	url, login string
	ctx        context.Context
}

func newWorld(t *testing.T) *world {
	t.Helper()
	if _, err := exec.LookPath("chromium"); err != nil {
		t.Skip("needs Chromium: apt-get install chromium")
	}
	if *binary == "" {
		t.Fatal("without the program: -binary PATH (make browser)")
	}
	w := &world{t: t, dir: t.TempDir()}
	w.state = filepath.Join(w.dir, "state")
	return w
}

// serve starts the page and opens it in a browser that is logged in.
func (w *world) serve(flags ...string) {
	w.t.Helper()
	cmd := w.command(append([]string{"serve", "--listen", "127.0.0.1:0", "--json"}, flags...)...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			w.t.Errorf("serve: %v", err)
		}
	})
	var said struct {
		URL   string `json:"url"`
		Login string `json:"login_url"`
	}
	if err := json.NewDecoder(bufio.NewReader(out)).Decode(&said); err != nil {
		w.t.Fatal(err)
	}
	w.url, w.login = strings.TrimSuffix(said.URL, "/"), said.Login
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath("chromium"), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.WindowSize(1440, 1000))
	alloc, stop := chromedp.NewExecAllocator(w.t.Context(), options...)
	w.t.Cleanup(stop)
	ctx, cancel := chromedp.NewContext(alloc)
	w.t.Cleanup(cancel)
	w.ctx = ctx
	if err := chromedp.Do(ctx); err != nil { // its context is that of the browser
		w.t.Fatal(err)
	}
	w.do(chromedp.Navigate(w.login))
}

func (w *world) command(args ...string) *exec.Cmd {
	cmd := exec.Command(*binary, append([]string{"--state-dir", w.state}, args...)...)
	cmd.Dir, cmd.Stderr = w.dir, os.Stderr
	return cmd
}

func (w *world) do(actions ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, actions...); err != nil {
		w.t.Fatal(err)
	}
}

// evaluate returns the value of an expression in the page; that of a promise when it is kept.
func evaluate[T any](w *world, expression string) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.t.Fatalf("%.200s: %v", expression, err)
	}
	return v
}

func (w *world) script(statement string) { evaluate[chromedp.Void](w, statement) }

// until waits until an expression, or the value of a promise, is true in a page that is complete. An expression that
// fails, as in a page that is being replaced, is not true yet.
func (w *world) until(what, expression string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	test := "(async () => { try { return document.readyState === 'complete' && Boolean(await (" + expression + ")) } catch { return false } })()"
	for ctx.Err() == nil {
		if ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool](test, chromedp.EvalAwaitPromise)); err == nil && ok {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("the page did not come to: %s\n%s", what, evaluate[string](w, "(document.querySelector('main') || document.documentElement).innerText"))
}

func (w *world) text(selector string) string {
	return evaluate[string](w, fmt.Sprintf("(document.querySelector(%q)||{}).innerText || ''", selector))
}

// has is whether an element shows a text; pages keep numbers and their units together by no-break spaces.
func has(selector, text string) string {
	return fmt.Sprintf("((document.querySelector(%q)||{}).innerText||'').replaceAll('\\u00a0', ' ').includes(%q)", selector, text)
}

// click clicks an element found by a selector and a part of its text.
func (w *world) click(selector, text string) {
	w.t.Helper()
	found := fmt.Sprintf("[...document.querySelectorAll(%q)].find(e => e.innerText.includes(%q))", selector, text)
	w.until("has "+selector+" "+text, "(e => e && (window.confirm = () => true, e.click(), true))("+found+")")
}

func (w *world) logOut() {
	w.t.Helper()
	w.click("button", "Log out")
	w.until("is logged out", "document.body.classList.contains('reading')")
}

// train starts a paced training and returns its run.
func (w *world) train(epochs string, flags ...string) (dir string) {
	w.t.Helper()
	script := filepath.Join(w.dir, "paced.py")
	write(w.t, script, paced)
	cmd := w.command(append([]string{"--train", script, "--epochs", epochs, "--cpus", "1:2", "--cpu-hour", "1", "--gb-hour", "0", "--budget", "5", "--deadline", "1h", "--quiet"}, flags...)...)
	if err := cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = cmd.Wait() })
	w.t.Cleanup(func() {
		for _, e := range must(journal.ListRunning(w.state)) {
			_ = w.command("runs", "stop", e.ID).Run()
		}
	})
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if list := must(journal.List(w.state)); len(list) > 0 && list[0].Record != nil {
			return list[0].Dir
		}
	}
	w.t.Fatal("the training did not start")
	return ""
}

func must[T any](v T, _ error) T { return v }

// needCPUs skips a test that moves a job between one and two CPUs.
func needCPUs(t *testing.T) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		t.Fatal(err)
	}
	if set.Count() < 2 {
		t.Skip("needs two CPUs")
	}
}

// TestFollowPreferStopResume follows a training, chooses another preference on its page, stops and resumes it.
func TestFollowPreferStopResume(t *testing.T) {
	needCPUs(t)
	w := newWorld(t)
	dir := w.train("2000", "--prefer", "cost")
	w.serve()
	id := filepath.Base(dir)
	w.until("lists the run", has("#runs-table", id))
	w.shot("runs-live")
	w.click("#runs-table th a", "paced")
	w.until("plans one CPU", has("#front-section", "1 CPU"))
	w.until("predicts the finish", has("#forecast", "predicted finish"))
	w.until("draws the chart", "document.querySelector('figure[data-chart=finish] canvas')")
	w.until("shows the output", has("#log-stdout", "on 1 CPUs"))
	first := w.text("#progress-words")
	w.until("makes progress", fmt.Sprintf("document.querySelector('#progress-words').innerText !== %q", first))
	w.shot("run-live")
	w.until("has a point of the front to click", "document.querySelector('#front-section svg a')")
	w.click("#front-section button", "time")
	w.until("answers", has("#outcome", "the plan changes to 2 CPU"))
	w.until("moved", has("#log-stdout", "on 2 CPUs"))
	w.until("shows the preference", has("#preference", "time"))
	w.until("shows the decision", has("[data-part=sections]", "Requested preferences"))
	rec, err := journal.ReadRecord(dir)
	if err != nil || rec.Plan.Allocation.CPUs != 2 || rec.Preference.Time != 1 || len(rec.PreferenceChanges) != 1 || !rec.PreferenceChanges[0].Changed {
		t.Errorf("%v: plan %v, preference %v, changes %v", err, rec.Plan.Allocation, rec.Preference, rec.PreferenceChanges)
	}
	w.shot("run-moved")
	w.click("[data-part=controls] button", "Stop")
	w.until("stops", has("#outcome", "stopped"))
	w.until("shows the state", has("[data-part=state]", "stopped"))
	w.click("[data-part=controls] button", "Resume")
	w.until("resumes", has("#outcome", "resumed"))
	w.until("runs again", has("[data-part=state]", "running"))
	w.click("[data-part=controls] button", "Stop")
	w.until("stops again", has("[data-part=state]", "stopped"))
	if rec, err := journal.ReadRecord(dir); err != nil || rec.State != journal.Stopped || rec.Exit.Reason != "user" {
		t.Errorf("%v: state %s %+v", err, rec.State, rec.Exit)
	}
}

// TestPointOfTheFront chooses a preference by clicking a point of the front.
func TestPointOfTheFront(t *testing.T) {
	needCPUs(t)
	w := newWorld(t)
	dir := w.train("2000", "--prefer", "cost")
	w.serve()
	w.do(chromedp.Navigate(w.url + "/runs/" + filepath.Base(dir)))
	w.until("has two points to click", "document.querySelectorAll('#front-section figure svg:not([style*=none]) a').length >= 2")
	w.until("has decided for one CPU", has("[data-part=sections] dl", "1 CPU")) // the plan; a warning of a busy machine names it too
	w.until("has a point of two CPUs", "[...document.querySelectorAll('#front-section svg a')].find(a => a.getAttribute('aria-label').startsWith('2 CPU')).dispatchEvent(new MouseEvent('click', {bubbles: true, cancelable: true})), true")
	w.until("answers", has("#outcome", "the plan changes to 2 CPU"))
}

func TestReadOnly(t *testing.T) {
	w := newWorld(t)
	ids := serve.WriteRuns(t, w.state, 3)
	w.serve()
	w.logOut()
	w.do(chromedp.Navigate(w.url + "/runs/" + ids[2]))
	w.until("is loaded", has("h1", "unet"))
	if evaluate[bool](w, "[...document.querySelectorAll('.change')].some(e => e.offsetParent)") {
		t.Error("controls are shown without the token")
	}
	if answer := evaluate[int](w, "(async () => (await fetch('/runs/"+ids[2]+"/note', {method: 'POST', body: 'text=x'})).status)()"); answer == 200 {
		t.Error("a note was written without the token")
	}
}

func TestCompareThree(t *testing.T) {
	w := newWorld(t)
	ids := serve.WriteRuns(t, w.state, 12)
	w.serve()
	for _, id := range ids[9:] {
		w.do(chromedp.Click(chromedp.CSS(fmt.Sprintf("input[value=%q]", id))))
	}
	w.until("counts the selection", has("#selected", "3 selected"))
	w.do(chromedp.Click(chromedp.CSS("#compare-button")))
	w.until("compares", "document.querySelectorAll('.chips li').length === 3")
	w.until("draws", "document.querySelectorAll('#main svg path.line').length >= 9 && document.querySelectorAll('#main svg path.thread').length >= 3")
	for _, want := range []string{"Settings", "seed", "training loss", "peak memory"} {
		w.until("has "+want, has("main", want))
	}
	w.shot("compare")
	w.click(".switch a", "progress")
	w.until("switches the axis", has(".switch a[aria-current]", "progress"))
}

func TestFilterTenThousand(t *testing.T) {
	w := newWorld(t)
	serve.WriteRuns(t, w.state, 10_000)
	w.serve()
	w.until("has read all runs", "fetch('/api/runs').then(r => r.json()).then(r => r.read === 10000 && r.total === 10000)")
	w.do(chromedp.Navigate(w.url + "/"))
	w.until("shows all runs", has("#found", "10,000 of 10,000 runs")+" && !"+has("#found", "read so far"))
	// In one statement: the list, which is updated, may replace the form between two actions.
	w.script("{ const q = document.querySelector('#q'); q.value = 'bert'; document.querySelector('#state').value = 'failed'; q.form.requestSubmit() }")
	w.until("filters", has("#found", "833 of 10,000 runs"))
	w.click("thead a", "Cost")
	w.until("sorts", "document.querySelector('th[aria-sort=descending]').innerText.includes('Cost')")
	w.shot("runs")
	w.click(".pager a", "Older")
	w.until("turns the page", has(".pager", "Page 2 of 17"))
}

func TestSimulationResult(t *testing.T) {
	w := newWorld(t)
	results := filepath.Join(w.dir, "results")
	if err := os.Mkdir(results, 0o700); err != nil {
		t.Fatal(err)
	}
	trace, _ := filepath.Abs("../../examples/cluster.swf")
	for _, name := range []string{"fcfs.json", "fcfs.html"} {
		if err := w.command("simulate", "queue", "--trace", trace, "--policy", "fcfs", "-o", filepath.Join(results, name)).Run(); err != nil {
			t.Fatal(err)
		}
	}
	serve.WriteRuns(t, w.state, 24)
	w.serve("--results", results)
	w.do(chromedp.Navigate(w.url + "/results"))
	w.shot("results")
	w.click("a", "fcfs.json")
	w.until("opens the result", has("h1", "simulate queue")+" && "+has("main", "mean bounded slowdown")+" && document.querySelector('main svg')")
	w.shot("result")
	w.do(chromedp.Navigate(w.url + "/results/0/fcfs.html"))
	w.until("opens the page", "document.querySelector('h1') && document.querySelector('svg')")
	w.do(chromedp.Navigate(w.url + "/waste"))
	w.until("shows the waste", has("main", "failed runs"))
	w.shot("waste")
	w.logOut()
	w.do(chromedp.Navigate(w.url + "/login"))
	w.shot("login")
}

// TestAccessibility runs axe-core, fetched by npm, on every page in both colour schemes.
func TestAccessibility(t *testing.T) {
	dir := t.TempDir()
	pack := exec.Command("npm", "pack", "--silent", "axe-core@4")
	pack.Dir = dir
	if err := pack.Run(); err != nil {
		t.Skipf("needs npm and axe-core: %v", err)
	}
	archive, _ := filepath.Glob(filepath.Join(dir, "axe-core-*.tgz"))
	axe, err := exec.Command("tar", "xzOf", archive[0], "package/axe.min.js").Output()
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t)
	ids := serve.WriteRuns(t, w.state, 12)
	results := filepath.Join(w.dir, "results")
	if err := os.Mkdir(results, 0o700); err != nil {
		t.Fatal(err)
	}
	trace, _ := filepath.Abs("../../examples/cluster.swf")
	if err := w.command("simulate", "queue", "--trace", trace, "--policy", "fcfs", "-o", filepath.Join(results, "fcfs.json")).Run(); err != nil {
		t.Fatal(err)
	}
	writeCluster(t, w.state, 16, 20)
	live := w.train("2000", "--prefer", "cost")
	w.serve("--results", results)
	w.do(chromedp.Navigate(w.url + "/runs/" + filepath.Base(live)))
	w.until("shows the front", has("#front-section", "Preference that selects it"))
	for _, path := range []string{"/", "/runs/" + filepath.Base(live), "/runs/" + ids[11], "/compare?run=" + ids[10] + "&run=" + ids[11], "/waste", "/results", "/results/0/fcfs.json", "/cluster", "/cluster/policies", "/login", "/nothing"} {
		for _, scheme := range []string{"light", "dark"} {
			w.do(colorScheme(scheme), chromedp.Navigate(w.url+path), chromedp.WaitReady(chromedp.CSS("main")))
			w.until("is at rest", "document.getAnimations().every(a => a.playState !== 'running' || a.effect.getTiming().iterations === Infinity)")
			w.script(string(axe))
			found := evaluate[[]string](w, `axe.run(document, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'best-practice']}).then(r => r.violations.filter(v => v.impact === 'serious' || v.impact === 'critical' || v.id === 'heading-order').map(v => v.id + ': ' + v.nodes.slice(0, 3).map(n => n.target.join(' ') + ' ' + (n.any[0] || n.all[0] || {}).message).join(' | ')))`)
			for _, f := range found {
				t.Errorf("%s, %s: %s", path, scheme, f)
			}
		}
	}
}
