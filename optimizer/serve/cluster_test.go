//go:build !browser

package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"trainopt/optimizer/cluster"
	"trainopt/optimizer/report/page"
)

func TestCluster(t *testing.T) {
	s := newSite(t, 1, nil)
	if code, _, _ := s.ask("GET", "/cluster", ""); code != 404 {
		t.Errorf("without a cluster: %d, want 404", code)
	}
	now := float64(time.Now().Unix())
	dir := filepath.Join(s.state, "cluster")
	if err := errors.Join(os.MkdirAll(filepath.Join(dir, "jobs", "1"), 0o700), os.MkdirAll(filepath.Join(dir, "jobs", "2"), 0o700)); err != nil {
		t.Fatal(err)
	}
	log := fmt.Sprintf(`{"v":1,"t":%g,"kind":"serve","policy":"srtf","engine":"local","devices":[{"name":"cpu","count":2}]}
{"v":1,"t":%g,"kind":"submit","job":1,"name":"<b>one"}
{"v":1,"t":%g,"kind":"start","job":1,"device":"cpu","where":[0,1],"do":"start"}
{"v":1,"t":%g,"kind":"left","job":1,"device":"cpu"}
{"v":1,"t":%g,"kind":"start","job":1,"device":"cpu","where":[1],"do":"resize"}
not json
{"v":1,"t":%g,"kind":"policy","policy":"sia"}
{"v":1,"t":`, now-100, now-90, now-80, now-50, now-40, now-10)
	for name, text := range map[string]string{"events.jsonl": log, "jobs/1/spec.json": "{}", "jobs/2/spec.json": "{}",
		"jobs/2/job.json": `{"schema":1,"id":2,"name":"two","state":"waiting","submitted":"2026-01-01T00:00:00Z"}`,
		"jobs/1/job.json": `{"schema":1,"id":1,"name":"<b>one","state":"running","device":"cpu","where":[1],"unit":"epoch","done":3,"total":10,"cost_usd":0.5,"wait_s":10.0437,"run":"` + s.ids[0] + `","submitted":"2026-01-01T00:00:00Z","began":"2026-01-01T00:00:10Z","finish":["2026-01-01T00:01:00Z","2026-01-01T00:02:00Z","2026-01-01T00:03:00Z"]}`} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, body, _ := s.ask("GET", "/cluster", "")
	for _, want := range []string{"Policy sia", "no scheduler is running", "engine local", "2 unreadable lines", "3 of 10 epochs", "/runs/" + s.ids[0], "resize on cpu 1", `class="bar lease`, "cpu 0", "&lt;b&gt;one", "10 s", "for 30 s", "cluster report"} {
		if !strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if n := strings.Count(body, "1 &lt;b&gt;one"); n != 7 { // in the jobs, in three leases, and in three changes
		t.Errorf("the job is named %d times, want 7", n)
	}
	if strings.Contains(body, "$0.00") || strings.Contains(body, "0 units") {
		t.Error("a job that has not run has a cost or progress")
	}
	if code != 200 || strings.Contains(body, "<b>one") || strings.Count(body, `class="bar lease`) != 3 {
		t.Errorf("%d with %d leases, want 3", code, strings.Count(body, `class="bar lease`))
	}
	for id := 3; id <= mostJobs+2; id++ {
		at := filepath.Join(dir, "jobs", fmt.Sprint(id))
		if err := errors.Join(os.Mkdir(at, 0o700), os.WriteFile(filepath.Join(at, "spec.json"), []byte("{}"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if _, body, _ := s.ask("GET", "/cluster", ""); !strings.Contains(strings.ReplaceAll(body, "\u00a0", " "), "Not listed: 2 jobs") {
		t.Error("the page does not say that jobs are not listed")
	}
	leases, devices := leasesOf([]cluster.Event{{Kind: "start", Job: 1, Time: 5, Device: "a", Where: []int32{0}}, {Kind: "end", Job: 1, Time: 9}, {Kind: "start", Job: 2, Time: 9, Device: "a", Where: []int32{0}}}, 20)
	if len(devices) != 1 || len(leases) != 2 || leases[0].to != 9 || leases[1].from != 9 || leases[1].to != 20 {
		t.Errorf("%v on %v", leases, devices)
	}
	if _, list, _ := s.ask("GET", "/", ""); !strings.Contains(list, `href="/cluster"`) {
		t.Error("the navigation lacks the cluster")
	}
}

// TestPolicies checks that the comparison of policies is made in the background once per state of the cluster, and that a
// failure is shown.
func TestPolicies(t *testing.T) {
	release, calls := make(chan struct{}), make(chan struct{}, 10)
	result := error(nil)
	s := newSite(t, 1, func(o *Options) {
		o.Audit = func(ctx context.Context) (page.Document, error) {
			calls <- struct{}{}
			select {
			case <-release:
				return page.Document{Title: "The audit", Sections: []page.Section{{ID: "x", Title: "Other policies"}}}, result
			case <-ctx.Done():
				return page.Document{}, ctx.Err()
			}
		}
	})
	if code, _, _ := s.ask("GET", "/cluster/policies", ""); code != 404 {
		t.Errorf("without a cluster: %d, want 404", code)
	}
	log := filepath.Join(s.state, "cluster", "events.jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), os.WriteFile(log, []byte("{}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if code, body, header := s.ask("GET", "/cluster/policies", ""); code != 200 || header.Get("Refresh") == "" || !strings.Contains(body, "Being computed") {
			t.Errorf("while it is made: %d, refresh %q", code, header.Get("Refresh"))
		}
	}
	close(release)
	for strings.Contains(func() string { _, body, _ := s.ask("GET", "/cluster/policies", ""); return body }(), "Being computed") {
	}
	_, body, header := s.ask("GET", "/cluster/policies", "")
	if !strings.Contains(body, "The audit") || !strings.Contains(body, "Other policies") || header.Get("Refresh") != "" || len(calls) != 1 {
		t.Errorf("%d computations, want 1\n%s", len(calls), body)
	}
	result = errors.New("no job made progress")
	s.serve.audit.mu.Lock()
	s.serve.audit.at = s.serve.audit.at.Add(-2 * preparedFor)
	s.serve.audit.mu.Unlock()
	if err := os.WriteFile(log, []byte("{}\n{}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for !strings.Contains(func() string { _, body, _ := s.ask("GET", "/cluster/policies", ""); return body }(), "no job made progress") {
	}
	if _, body, _ := s.ask("GET", "/cluster", ""); !strings.Contains(body, `href="/cluster/policies"`) {
		t.Error("the cluster does not lead to the policies")
	}
}

// TestPanickingAudit: a report that cannot be made of a damaged log does not end the page.
func TestPanickingAudit(t *testing.T) {
	s := newSite(t, 1, func(o *Options) {
		o.Audit = func(context.Context) (page.Document, error) { panic("damaged") }
	})
	log := filepath.Join(s.state, "cluster", "events.jsonl")
	if err := errors.Join(os.MkdirAll(filepath.Dir(log), 0o700), os.WriteFile(log, []byte("{}\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for strings.Contains(func() string { _, body, _ := s.ask("GET", "/cluster/policies", ""); return body }(), "Being computed") {
	}
	if code, body, _ := s.ask("GET", "/cluster/policies", ""); code != 200 || !strings.Contains(body, "damaged") {
		t.Errorf("%d %s", code, body)
	}
}

// TestClockSetBack: leases of a log whose clock was set back are drawn within the chart.
func TestClockSetBack(t *testing.T) {
	start := func(job int, at float64) cluster.Event {
		return cluster.Event{Kind: cluster.EventStart, Job: job, Time: at, Device: "a", Where: []int32{int32(job)}}
	}
	p := leaseChart([]cluster.Event{start(1, 5000), {Kind: cluster.EventLeft, Job: 1, Time: 1000}, start(2, 1000), {Kind: cluster.EventLeft, Job: 2, Time: 1100}, start(3, 9000)}, unixTime(1200))
	if svg := string(p.SVG); strings.Contains(svg, `x="-`) || strings.Contains(svg, "for -") || strings.Count(svg, `class="bar lease`) != 3 {
		t.Error(svg)
	}
	for _, f := range regexp.MustCompile(`class="bar lease [^"]*" x="([0-9.]+)"`).FindAllStringSubmatch(string(p.SVG), -1) {
		if x, err := strconv.ParseFloat(f[1], 64); err != nil || x < leaseName-1 || x > 1090 {
			t.Errorf("a lease at %s", f[1])
		}
	}
}

// TestManyDevices: every device of a large cluster has a row.
func TestManyDevices(t *testing.T) {
	var events []cluster.Event
	for i := range int32(400) {
		events = append(events, cluster.Event{Kind: "start", Job: int(i) + 1, Time: 1000, Device: "a", Where: []int32{i}})
	}
	p := leaseChart(events, unixTime(200_000))
	if n := strings.Count(string(p.SVG), `class="bar lease`); n != 400 || p.Note != "" {
		t.Errorf("%d of 400 devices, note %q", n, p.Note)
	}
	if !strings.Contains(string(p.SVG), `height="1634"`) && !strings.Contains(string(p.SVG), " 1634\"") {
		t.Errorf("the chart is not of bounded height: %.300s", p.SVG)
	}
	if !strings.Contains(string(p.SVG), ">1970-01-0") {
		t.Error("times of another day have no date")
	}
}

// TestLongHistory: the chart of a history of any length is of bounded size, and loses no time that a device was used.
func TestLongHistory(t *testing.T) {
	var events []cluster.Event
	for k := range 20_000 {
		at := float64(1000 + 10*k)
		for d := range int32(8) {
			job := 1 + (k/100+int(d))%50
			events = append(events, cluster.Event{Kind: "start", Job: job, Time: at, Device: "a", Where: []int32{d}}, cluster.Event{Kind: "left", Job: job, Time: at + 9})
		}
	}
	events = append(events, cluster.Event{Kind: "start", Job: 99, Time: 300_000, Device: "a", Where: []int32{0}}) // a long one
	p := leaseChart(events, unixTime(400_000))
	if n := strings.Count(string(p.SVG), `class="bar lease`); n > mostBars || n < 9 {
		t.Errorf("%d bars, want at most %d", n, mostBars)
	}
	if len(p.SVG) > 4<<20 || !strings.Contains(string(p.SVG), "160,001 leases") || !strings.Contains(string(p.SVG), "leases of several jobs") {
		t.Errorf("%d bytes", len(p.SVG))
	}
	leases, _ := leasesOf(events, 400_000)
	for _, least := range []float64{0, 1, 50, 1000} {
		n, last := 0, map[string]float64{}
		for _, b := range bars(leases[len(leases)-3000:], least) {
			if n += b.n; b.from < last[b.device] || b.to < b.from {
				t.Fatalf("merging below %g s: %+v after %g s", least, b, last[b.device])
			}
			last[b.device] = b.to
		}
		if n != 3000 || last["a 0"] != 400_000 {
			t.Errorf("merging below %g s: %d leases to %g s, want 3000 to 400000 s", least, n, last["a 0"])
		}
	}
}
