package tracker

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"trainopt/optimizer/journal"
	"trainopt/sla"
)

// add writes a run to a state directory; change sets its record.
func add(t *testing.T, state, id string, change func(*journal.Record)) *journal.Run {
	t.Helper()
	dir, err := journal.Create(state, id)
	if err != nil {
		t.Fatal(err)
	}
	rec := journal.Blank[journal.Record]()
	rec.Schema, rec.RunID, rec.State = journal.Schema, id, journal.Running
	change(&rec)
	if err := dir.WriteRecord(&rec); err != nil {
		t.Fatal(err)
	}
	return dir
}

func value(v float64) *float64 { return &v }

// running is a run with every value; an agent (this process) holds it.
func running(t *testing.T, state string) {
	dir := add(t, state, "running", func(r *journal.Record) {
		r.Outcome.CostUSD, r.Outcome.Seconds, r.Outcome.Epochs, r.Training.TotalUnits, r.Training.Unit = 1, 100, 3, 12, "epoch"
		r.Outcome.GPUUtil, r.Outcome.Restarts, r.Outcome.QueueSeconds = 50, 2, value(7)
		r.SLA.Verdicts = []sla.Verdict{{Objective: sla.Time, Limit: 1000, Value: value(100), Status: sla.Met, Unit: "s"},
			{Objective: sla.Cost, Limit: 2, Value: value(1), Status: sla.AtRisk, Unit: "USD", Projected: &sla.Interval{P5: 1.5, P50: 1.9, P95: 2.5}},
			{Objective: sla.GPUUtil, Limit: 50, Status: sla.Unknown, Unit: "%"}}
	})
	unlock, err := dir.Lock()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(unlock)
	if err := os.WriteFile(dir.Path("samples.csv"), []byte("time_s,cost_usd,projected_s,projected_s_p5,projected_s_p95\n100,1,300,,\n104.5,1.04,400,380,430\n105,1.0"), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestMetrics compares everything that is exported, in all states of a run, and checks it as promtool does.
func TestMetrics(t *testing.T) {
	state, now := t.TempDir(), time.Now()
	ended := func(ago time.Duration, s journal.State) func(*journal.Record) {
		return func(r *journal.Record) {
			at := now.Add(-ago)
			r.State, r.FinishedAt, r.Outcome.CostUSD = s, &at, 5
		}
	}
	running(t, state)
	add(t, state, "ended", ended(9*time.Minute, journal.Done))
	add(t, state, "long-ended", ended(11*time.Minute, journal.Failed))
	add(t, state, "interrupted", func(*journal.Record) {})
	if err := os.MkdirAll(filepath.Join(journal.RunsDir(state), "damaged"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(journal.RunsDir(state), "damaged", "run.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock := now
	reg := NewMetrics(state, func() time.Time { return clock })
	get := func() string {
		w := httptest.NewRecorder()
		MetricsHandler(reg).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		body, _ := io.ReadAll(w.Result().Body)
		var lines []string
		for _, line := range strings.Split(string(body), "\n") {
			if line != "" && line[0] != '#' {
				lines = append(lines, regexp.MustCompile(`,?user="[^"]*"`).ReplaceAllString(line, ""))
			}
		}
		return strings.Join(lines, "\n")
	}
	want := `optimize_run_cost_usd{run="ended"} 5
optimize_run_cost_usd{run="running"} 1.04
optimize_run_elapsed_seconds{run="running"} 104.5
optimize_run_gpu_util_ratio{run="running"} 0.5
optimize_run_predicted_cost_usd{q="0.05",run="running"} 1.5
optimize_run_predicted_cost_usd{q="0.5",run="running"} 1.9
optimize_run_predicted_cost_usd{q="0.95",run="running"} 2.5
optimize_run_predicted_seconds{q="0.05",run="running"} 380
optimize_run_predicted_seconds{q="0.5",run="running"} 400
optimize_run_predicted_seconds{q="0.95",run="running"} 430
optimize_run_progress_ratio{run="running"} 0.25
optimize_run_queue_seconds{run="running"} 7
optimize_run_restarts_total{run="ended"} 0
optimize_run_restarts_total{run="interrupted"} 0
optimize_run_restarts_total{run="running"} 2
optimize_run_sla_ok{run="running",term="cost"} 0
optimize_run_sla_ok{run="running",term="time"} 1
optimize_runs{state="done"} 1
optimize_runs{state="failed"} 1
optimize_runs{state="interrupted"} 1
optimize_runs{state="running"} 1
optimize_runs{state="stopped"} 0`
	if got := get(); got != want {
		t.Errorf("metrics:\n%s\nwant\n%s", got, want)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	clock = now.Add(2 * time.Minute) // the series of the ended run end; nothing was written since
	if got := get(); strings.Contains(got, `run="ended"`) || !strings.Contains(got, `run="running"`) || !strings.Contains(got, `{state="done"} 1`) {
		t.Errorf("after two minutes:\n%s", got)
	}
	if err := os.RemoveAll(filepath.Join(journal.RunsDir(state), "ended")); err != nil {
		t.Fatal(err)
	}
	if got := get(); !strings.Contains(got, `{state="done"} 0`) {
		t.Errorf("after the removal:\n%s", got)
	}
	if families, err := NewMetrics(filepath.Join(state, "none"), time.Now).Gather(); err != nil || len(families) != 1 {
		t.Errorf("absent directory: %v, %v", families, err)
	}
}

// TestClusterMetrics follows an event log while it grows: a torn line, an adoption by a second server, and a replaced log.
func TestClusterMetrics(t *testing.T) {
	state := t.TempDir()
	dir := filepath.Join(state, "cluster")
	if err := os.MkdirAll(filepath.Join(dir, "jobs", "9"), 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1000, 0)
	reg := NewMetrics(state, func() time.Time { return now })
	get := func() string {
		w := httptest.NewRecorder()
		MetricsHandler(reg).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		var lines []string
		for _, line := range strings.Split(w.Body.String(), "\n") {
			if strings.HasPrefix(line, "optimize_cluster_") {
				lines = append(lines, strings.TrimPrefix(line, "optimize_cluster_"))
			}
		}
		return strings.Join(lines, "\n")
	}
	write := func(flag int, text string) {
		f, err := os.OpenFile(filepath.Join(dir, "events.jsonl"), os.O_WRONLY|os.O_CREATE|flag, 0o600)
		if err == nil {
			_, err = f.WriteString(text)
			f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	has := func(when string, want ...string) {
		t.Helper()
		got := "\n" + get() + "\n"
		for _, line := range want {
			if !strings.Contains(got, "\n"+line+"\n") {
				t.Errorf("%s: without %q:%s", when, line, got)
			}
		}
	}
	if got := get(); got != "" {
		t.Errorf("without a cluster: %s", got)
	}
	write(os.O_APPEND, `{"v":1,"t":900,"kind":"serve","policy":"srtf","devices":[{"name":"a","count":4},{"name":"b","count":2}]}
{"v":1,"t":910,"kind":"submit","job":1}
{"v":1,"t":920,"kind":"submit","job":2}
{"v":1,"t":940,"kind":"submit","job":3}
{"v":1,"t":941,"kind":"submit","job":4}
{"v":1,"t":941,"kind":"decide","policy":"srtf","leases":[]}
{"v":1,"t":941,"kind":"start","job":1,"stretch":1,"device":"a","where":[0,1]}
{"v":1,"t":941,"kind":"start","job":2,"stretch":1,"device":"a","where":[1]}
{"v":1,"t":942,"kind":"running","job":1,"stretch":1}
no event
{"v":1,"t":950,"kind":"end","job":7,"state":"failed"}
{"v":1,"t":960,"kind":"left","jo`)
	want := []string{"up 0", `jobs{state="waiting"} 2`, `jobs{state="starting"} 1`, `jobs{state="running"} 1`, `jobs{state="failed"} 1`, `jobs{state="done"} 0`, `devices{state="busy",type="a"} 2`,
		`devices{state="free",type="a"} 2`, `devices{state="busy",type="b"} 0`, `devices{state="free",type="b"} 2`, `queue_seconds{q="0.5"} 59`, `queue_seconds{q="1"} 60`, `policy_info{policy="srtf"} 1`,
		"decisions_total 1", "moves_total 0"}
	has("first", want...)
	if err := os.WriteFile(filepath.Join(dir, "jobs", "9", "spec.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	has("a job that no scheduler has taken", `jobs{state="waiting"} 3`)
	write(os.O_APPEND, `b":1,"stretch":1}
{"v":1,"t":961,"kind":"policy","policy":"sia"}
{"v":1,"t":962,"kind":"start","job":1,"stretch":2,"device":"b","where":[0]}
{"v":1,"t":963,"kind":"stop","job":2,"stretch":1}
{"v":1,"t":964,"kind":"serve","policy":"sia","devices":[{"name":"b","count":2}]}
`)
	has("later", `jobs{state="starting"} 1`, `jobs{state="stopping"} 1`, `devices{state="busy",type="b"} 1`, `policy_info{policy="sia"} 1`, "moves_total 1")
	if got := get(); strings.Contains(got, `type="a"`) || strings.Contains(got, `"srtf"`) {
		t.Errorf("a type or policy of the last server remains:\n%s", got)
	}
	write(os.O_APPEND, `{"v":1,"t":965,"kind":"devices","devices":[{"name":"b","count":0}]}`+"\n")
	has("a node is down", `devices{state="busy",type="b"} 0`, `devices{state="free",type="b"} 0`)
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	write(os.O_TRUNC, `{"v":1,"t":990,"kind":"serve","policy":"fifo","devices":[{"name":"c","count":1}]}`+"\n")
	has("replaced", `jobs{state="running"} 0`, "moves_total 0", `devices{state="free",type="c"} 1`)
}

// dashboard is the part of a Grafana dashboard that contains queries.
type dashboard struct {
	Panels []struct {
		Title   string
		Targets []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Definition string }
	}
}

// TestDashboard: every query of docs/grafana.json is PromQL, and names only metrics and labels of the registry.
func TestDashboard(t *testing.T) {
	data, err := os.ReadFile("../../docs/grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	var d dashboard
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	known := map[string]string{} // description by name
	for _, desc := range all {
		known[regexp.MustCompile(`fqName: "([^"]+)"`).FindStringSubmatch(desc.String())[1]] = desc.String()
	}
	used, rules := map[string]bool{}, "groups:\n- name: dashboard\n  rules:\n"
	check := func(where, expr string) {
		for _, m := range regexp.MustCompile(`(optimize_[a-z_]+)(\{[^}]*\})?`).FindAllStringSubmatch(expr, -1) {
			desc, ok := known[m[1]]
			if used[m[1]] = true; !ok {
				t.Errorf("%s: no metric %s", where, m[1])
			}
			for _, label := range regexp.MustCompile(`([a-z_]+)[=!]`).FindAllStringSubmatch(m[2], -1) {
				if !regexp.MustCompile(`variableLabels: \{[^}]*\b` + label[1] + `\b`).MatchString(desc) {
					t.Errorf("%s: %s has no label %s", where, m[1], label[1])
				}
			}
		}
	}
	for _, p := range d.Panels {
		for i, target := range p.Targets {
			check(p.Title, target.Expr)
			rules += fmt.Sprintf("  - record: panel:%d:%d\n    expr: '%s'\n", len(used), i, target.Expr)
		}
	}
	for _, v := range d.Templating.List {
		check("variables", v.Definition)
	}
	for name := range known {
		if !used[name] {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
	if _, err := exec.LookPath("promtool"); err != nil {
		t.Skip("promtool (Debian's package prometheus) is not installed: the queries are not parsed")
	}
	file := filepath.Join(t.TempDir(), "rules.yml")
	if err := os.WriteFile(file, []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("promtool", "check", "rules", "--lint=none", file).CombinedOutput(); err != nil {
		t.Errorf("promtool check rules: %v\n%s\n%s", err, out, rules)
	}
}

// TestMetricsOfARunElsewhere: a run counts as running if its agent is on another machine.
func TestMetricsOfARunElsewhere(t *testing.T) {
	state, now := t.TempDir(), time.Now()
	dir := add(t, state, "elsewhere", func(*journal.Record) {})
	for name, text := range map[string]string{"lock": fmt.Sprintf(`{"pid": %d, "boot_id": "another", "host": "n0"}`, os.Getpid()), "state": "1"} {
		if err := os.WriteFile(dir.Path(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for age, want := range map[time.Duration]string{-20 * time.Second: `optimize_runs{state="running"} 1`, time.Hour: `optimize_runs{state="interrupted"} 1`} {
		at := time.Now().Add(-age)
		if err := os.Chtimes(dir.Path("state"), at, at); err != nil {
			t.Fatal(err)
		}
		w := httptest.NewRecorder()
		MetricsHandler(NewMetrics(state, func() time.Time { return now })).ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
		if body := w.Body.String(); !strings.Contains(body, want) {
			t.Errorf("state of %s: want %s in\n%s", age, want, body)
		}
	}
}
