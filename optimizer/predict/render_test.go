package predict

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"trainopt/optimizer/history"
	"trainopt/optimizer/plan"
)

var update = flag.Bool("update", false, "write the golden files anew")

// shown is an answer with content in every section.
func shown(t testing.TB) *answer {
	f := newFake()
	f.gpu = math.NaN()
	f.units = 3.6e5
	yes := true
	return ask(t, f, asking(func(q *Question) {
		q.Subject, q.Job.ScriptSHA256, q.Job.Dataset, q.Job.Params = "train.py", "abc", "imagenet", 25.6e6
		q.Today = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		q.Batch, q.Deadline, q.Budget, q.Resumable, q.Preference = 256, 12*time.Hour, 12, &yes, plan.Preference{Cost: 1}
	}), ran("20261120-093000-ab12", 20, 3), ran("20261101-093000-cd34", 10, 1))
}

func rendered(t testing.TB, a *answer, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := a.Render(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden compares the rendered output with reviewed files.
func TestGolden(t *testing.T) {
	for format, file := range map[string]string{"text": "answer.txt", "markdown": "answer.md", "json": "answer.json"} {
		got, path := rendered(t, shown(t), format), filepath.Join("testdata", file)
		if *update {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs from %s (go test -update writes it anew):\n%s", format, path, got)
		}
	}
}

// TestTextFits: no line is wider than a terminal, even with long names.
func TestTextFits(t *testing.T) {
	long := strings.Repeat("averylongname", 9)
	for name, change := range map[string]func(*Question){
		"plain": nil,
		"long":  func(q *Question) { q.Subject, q.Job.Model = long, long; q.Machines[0].Offer.Type = long },
		"huge":  func(q *Question) { q.Job.Epochs, q.Budget = 1e7, 1e9 },
		"tiny":  func(q *Question) { q.Job.Epochs, q.Deadline = 1e-4, time.Second },
		"hostile": func(q *Question) {
			q.Subject, q.Job.Model = "\x1b[31mred\nline", "\u202eabc\x00"
		},
	} {
		text := rendered(t, ask(t, newFake(), asking(change)), "text")
		for _, line := range strings.Split(text, "\n") {
			if twwidth.Width(line) > 96 && !strings.Contains(line, long) {
				t.Errorf("%s: %d columns: %s", name, twwidth.Width(line), line)
			}
		}
		if strings.ContainsAny(text, "\x1b\x00\u202e") || strings.Contains(text, "NaN") {
			t.Errorf("%s: %q", name, text)
		}
	}
}

// TestJSON: the output is valid, unknown numbers are null, and positions are in range.
func TestJSON(t *testing.T) {
	var d struct {
		Schema  int
		Chosen  *struct{ Machine string }
		Options []struct {
			Machine                                string
			Seconds                                *struct{ P5, P50, P95 float64 }
			Throughput, Peak_gpu_memory_gib        *struct{ P50 float64 }
			Units_per_s                            *struct{ P50 float64 }
			Usd_per_hour, Chance, Interruption_usd *float64
		}
		On_demand, Spot []int
		Limits          map[string]*float64
		Changes         []struct{ Kind, Words string }
	}
	a := shown(t)
	if err := json.Unmarshal([]byte(rendered(t, a, "json")), &d); err != nil {
		t.Fatal(err)
	}
	if d.Schema != 1 || d.Chosen == nil || d.Chosen.Machine != chosen(a) || len(d.Options) != len(a.Options) || len(d.On_demand) == 0 || len(d.Spot) == 0 || *d.Limits["deadline_s"] != 43200 {
		t.Errorf("%+v", d)
	}
	for i, o := range d.Options {
		if o.Peak_gpu_memory_gib != nil || o.Seconds == nil || !near(o.Seconds.P95, a.Options[i].Seconds.P95, 1e-8) || o.Units_per_s == nil {
			t.Errorf("option %d: %+v", i, o)
		}
	}
	b := ask(t, newFake(), asking(nil))
	text := rendered(t, b, "json")
	for _, part := range []string{`"deadline_s": null`, `"startup_s": null`, `"params": null`, `"batch": null`, `"resumable": null`} {
		if !strings.Contains(text, part) {
			t.Errorf("JSON does not have %s", part)
		}
	}
}

// TestCSV: one row per option, as many cells as columns, blanks for unknown values.
func TestCSV(t *testing.T) {
	a := shown(t)
	rows, err := csv.NewReader(strings.NewReader(rendered(t, a, "csv"))).ReadAll()
	if err != nil || len(rows) != len(a.Options)+1 {
		t.Fatalf("%d rows, %v; want %d", len(rows), err, len(a.Options)+1)
	}
	at := map[string]int{}
	for k, name := range rows[0] {
		at[name] = k
	}
	if got := rows[1][at["peak_gpu_memory_gib_p50"]]; got != "" {
		t.Errorf("an unknown peak is %q", got)
	}
	if got := rows[1][at["seconds_p50"]]; got == "" {
		t.Error("no seconds")
	}
}

// TestNothingFits: every format reports it.
func TestNothingFits(t *testing.T) {
	f := newFake()
	f.gpu = 1000
	a := ask(t, f, asking(nil), history.Entry{ID: "x"})
	for format := range formats {
		if text := rendered(t, a, format); format != "csv" && !strings.Contains(text, "none of the") {
			t.Errorf("%s does not say that nothing fits:\n%s", format, text)
		}
	}
}

// TestExtrapolationIsMarked: every table marks an option with an extrapolated speed, with a legend above.
func TestExtrapolationIsMarked(t *testing.T) {
	f := newFake()
	f.upTo = 4
	text := rendered(t, ask(t, f, asking(func(q *Question) { q.Preference = plan.Preference{Cost: 1} })), "text")
	for _, part := range []string{" 8 × A100 40GB *  sky:a8", " 4 × T4     ", "*: its speed is beyond what was measured"} {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
	if text := rendered(t, shown(t), "text"); strings.Contains(text, "*") {
		t.Errorf("a mark where nothing is extrapolated:\n%s", text)
	}
}

// TestHTML: the page has no external references, and hostile names are escaped.
func TestHTML(t *testing.T) {
	a := ask(t, newFake(), asking(func(q *Question) { q.Subject, q.Deadline = `<script>alert(1)</script>"'`, 20*time.Hour }))
	text := rendered(t, a, "html")
	for _, bad := range []string{"<script", "http://", "https://", "NaN", "ZgotmplZ", "%!"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, good := range []string{"<svg", `class="ring"`, `class="whisker"`, "deadline"} {
		if !strings.Contains(text, good) {
			t.Errorf("the page has no %q", good)
		}
	}
	if err := a.Render(&bytes.Buffer{}, "pdf"); err == nil || !strings.Contains(err.Error(), "csv, html, json, markdown, text") {
		t.Errorf("%v: want the formats that are known", err)
	}
}
