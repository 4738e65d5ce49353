package report

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode"

	"github.com/olekukonko/tablewriter/pkg/twwidth"

	"trainopt/internal/conformance"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/report/page"
)

func load(t testing.TB, name string) *data {
	t.Helper()
	d, err := Load(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func render(t testing.TB, d *data, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := d.Render(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestGolden compares whole reports with golden files; -update rewrites them.
func TestGolden(t *testing.T) {
	for _, name := range []string{"finished", "unfinished", "failed", "nothing", "gpu", "stopped", "unsized"} {
		for format, ending := range map[string]string{"text": "txt", "markdown": "md", "csv": "csv"} {
			got := render(t, load(t, name), format)
			path := filepath.Join("testdata", "expected", name+"."+ending)
			if *update {
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("%s as %s differs from %s (-update writes it again):\n%s", name, format, path, firstDifference(string(want), got))
			}
		}
	}
}

func firstDifference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		a, b := "(end)", "(end)"
		if i < len(w) {
			a = w[i]
		}
		if i < len(g) {
			b = g[i]
		}
		if a != b {
			return fmt.Sprintf("line %d\n-%s\n+%s", i+1, a, b)
		}
	}
	return ""
}

func TestEveryFormatOfEveryRecording(t *testing.T) {
	for name := range recordings {
		d := load(t, name)
		for format := range formats {
			first := render(t, d, format)
			if first == "" {
				t.Errorf("%s as %s is empty", name, format)
			}
			if again := render(t, load(t, name), format); again != first {
				t.Errorf("%s as %s: two readings give different bytes: %s", name, format, firstDifference(first, again))
			}
		}
	}
	if err := load(t, "finished").Render(io.Discard, "pdf"); err == nil || !strings.Contains(err.Error(), strings.Join(Formats(), ", ")) {
		t.Errorf("unknown format: %v, want the known ones named", err)
	}
}

func TestTextFitsATerminal(t *testing.T) {
	for name := range recordings {
		for i, line := range strings.Split(render(t, load(t, name), "text"), "\n") {
			if w := twwidth.Width(line); w > 100 {
				t.Errorf("%s: line %d is %d columns wide: %s", name, i+1, w, line)
			}
			if strings.TrimRight(line, " ") != line {
				t.Errorf("%s: line %d ends in blanks", name, i+1)
			}
		}
	}
}

// TestFirstLinesAnswer checks that the first lines answer the main questions.
func TestFirstLinesAnswer(t *testing.T) {
	cases := map[string][]string{
		"finished":   {"train: finished, SLA met", "yes after 2 m 52 s; 31 of 31 epochs", "3 of 3 met", "$0.0062", "inside the 90 % intervals", "cost −39.4 % (90 % CI −41.7 to −36.9 %)"},
		"gpu":        {"resnet50: finished, SLA missed", "1 of 4 missed: spend at most $10.00", "outside the 90 % intervals"},
		"failed":     {"train: failed", "out of memory", "last output: MemoryError", "3 of 3 unknown (not finished)", "nothing was predicted", "not compared: the run did not finish", "optimize runs resume 20260315-110000-train-c0ffee"},
		"unfinished": {"train: interrupted", "optimize runs resume 20260316-070000-train-beef01", "at risk: finish within", "on track", "compared when the run has finished"},
		"nothing":    {"run: planned only", "no limits set", "no data", "not measured"},
		"stopped": {"train: stopped", "the deadline was reached (SIGTERM)", "1 of 3 missed: finish within 2 m 52 s", "2 of 3 unknown (not finished)", "not compared",
			"lost since the last checkpoint: 21.8 s, 5 epochs (checkpoint at 26 epochs, out/ckpt.pt)", "optimize runs resume 20260319-080000-train-d00d1e --deadline 5m"},
		"unsized": {"gpt: finished", "no prediction: the total amount of work is unknown (--epochs N or --steps N sets it)", "ran at the baseline configuration"},
	}
	for name, want := range cases {
		head, _, _ := strings.Cut(render(t, load(t, name), "text"), "\n\nSLA\n")
		flat := strings.Join(strings.Fields(head), " ")
		for _, w := range want {
			if !strings.Contains(flat, w) {
				t.Errorf("%s: the first lines do not say %q:\n%s", name, w, head)
			}
		}
	}
}

// TestNoNumberWithoutAMeasurement checks that no digit appears where a number was not measured.
func TestNoNumberWithoutAMeasurement(t *testing.T) {
	d := load(t, "nothing")
	for _, a := range answers(d) {
		if strings.ContainsAny(a.Text, "0123456789$%") {
			t.Errorf("%s: %q claims a number", a.Question, a.Text)
		}
	}
	for _, tile := range tiles(d) {
		if tile.Value != page.NoData && tile.Value != "not measured" || tile.Note != "" {
			t.Errorf("tile %s shows %q, %q", tile.Label, tile.Value, tile.Note)
		}
	}
	if list := recommend(d.Record); len(list) > 0 {
		t.Errorf("advice without a measurement: %v", list)
	}
	if page := render(t, d, "html"); strings.Contains(page, "<svg") {
		t.Error("a picture of nothing was drawn")
	}
	for _, f := range facts(d) {
		if f.kind == "predicted" && f.value != "" || f.kind == "measured" && f.value != "" && f.name != "restarts" && f.name != "rows" {
			t.Errorf("CSV claims %s %s = %s", f.section, f.name, f.value)
		}
	}
	// Phases that never ran do not count against the SLA of a failed run.
	for _, c := range realised(load(t, "unfinished").Record) {
		if c.comparable {
			t.Errorf("%s of an unfinished run was held against the prediction", c.name)
		}
	}
}

var (
	reference = regexp.MustCompile(`(?i)(?:src|href|action|data|poster|srcset|xlink:href)\s*=\s*["']?([^"'\s>]*)`)
	outside   = regexp.MustCompile(`(?i)@import|url\(|<(?:script|iframe|link|object|embed|img|base|form)\b|\son\w+\s*=\s*["']`)
)

// TestNothingFalse lists statements that no format may make about a run that ended early or whose total is unknown.
func TestNothingFalse(t *testing.T) {
	for name, never := range map[string][]string{
		"stopped": {"✓ met", `"met"`, "all 3", "kept", "−39.4", "SLA met", "was used up"},
		"failed":  {"✓ met", `"met"`, "kept", "SLA met"},
		"unsized": {"samples/s", "Chance", "−48.9", "excellent", "inside the 90", "outside the 90", "0.02 GiB", "0 s (1", ": no rows", "Missing or damaged"},
	} {
		for format := range formats {
			text := render(t, load(t, name), format)
			for _, word := range never {
				if format == "csv" && word == "samples/s" || format == "html" && word == "samples/s" {
					continue // the title of the empty chart of samples/s contains it
				}
				if strings.Contains(text, word) {
					at := strings.Index(text, word)
					t.Errorf("%s as %s says %q: %s", name, format, word, text[max(0, at-80):min(len(text), at+80)])
				}
			}
		}
	}
	text := strings.Join(strings.Fields(render(t, load(t, "unsized"), "text")), " ")
	for _, want := range []string{"0.333 steps/s", "20.5 MiB", "The machine is paid as a whole: $0.34/h", "An unused CPU or GiB saves nothing", "restarts 1 (time not measured)"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in the report of a run of unknown total:\n%s", want, text)
		}
	}
}

func TestHTMLIsOneSafeFile(t *testing.T) {
	for name := range recordings {
		page := render(t, load(t, name), "html")
		wellFormed(t, name, page)
		for _, m := range reference.FindAllStringSubmatch(tagsOf(page), -1) {
			if !strings.HasPrefix(m[1], "#") {
				t.Errorf("%s: refers to something outside: %s", name, m[0])
			}
		}
		if m := outside.FindString(tagsOf(page)); m != "" {
			t.Errorf("%s: contains %q", name, m)
		}
		if !strings.Contains(page, `default-src 'none'`) {
			t.Errorf("%s: no policy against loading anything", name)
		}
		if n, m := strings.Count(page, "<svg"), strings.Count(page, `<desc id="`); n != m {
			t.Errorf("%s: %d pictures, %d with a description", name, n, m)
		}
	}
}

// tagsOf returns a page without its text.
func tagsOf(page string) string {
	return strings.Join(regexp.MustCompile(`<[^>]*>`).FindAllString(page, -1), "\n") + regexp.MustCompile(`(?s)<style>.*</style>`).FindString(page)
}

// wellFormed checks that tags nest, attributes are quoted, ids are unique and no number in a picture is NaN.
func wellFormed(t *testing.T, name, page string) {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(page))
	dec.Entity = xml.HTMLEntity
	ids := map[string]bool{}
	for {
		token, err := dec.Token()
		if err == io.EOF {
			return
		}
		if err != nil {
			t.Errorf("%s: not well-formed: %v", name, err)
			return
		}
		e, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		for _, a := range e.Attr {
			if a.Name.Local == "id" {
				if ids[a.Value] {
					t.Errorf("%s: id %q twice", name, a.Value)
				}
				ids[a.Value] = true
			}
			if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
				t.Errorf("%s: <%s %s=%q>", name, e.Name.Local, a.Name.Local, a.Value)
			}
		}
	}
}

// TestHostileTextStaysText checks that hostile names and log text remain text in every format.
func TestHostileTextStaysText(t *testing.T) {
	d := load(t, "hostile")
	page := render(t, d, "html")
	if strings.Contains(page, "<script") || strings.Contains(page, "<img") {
		t.Error("markup of a script's name is live in the HTML")
	}
	if !strings.Contains(page, "&lt;script&gt;alert(1)&lt;/script&gt;") {
		t.Error("the name is not shown as it is")
	}
	md := render(t, d, "markdown")
	for _, live := range []string{"<script", "<img", "[a](javascript", " **bold** "} {
		if strings.Contains(strings.ReplaceAll(md, `\`, "¬"), live) {
			t.Errorf("%q is live in the Markdown", live)
		}
	}
	for i, line := range strings.Split(md, "\n") {
		if strings.HasPrefix(line, "|") && strings.Contains(line, "alert(1)") && !strings.HasSuffix(line, " |") {
			t.Errorf("line %d breaks its table: %s", i+1, line)
		}
	}
	for _, format := range []string{"text", "markdown", "html", "csv"} {
		for _, c := range render(t, d, format) {
			if unicode.IsControl(c) && c != '\n' || unicode.Is(unicode.Bidi_Control, c) {
				t.Errorf("%s contains the control character %U", format, c)
				break
			}
		}
	}
}

func TestCSVAndJSONAreReadByMachines(t *testing.T) {
	for name := range recordings {
		rows, err := csv.NewReader(strings.NewReader(render(t, load(t, name), "csv"))).ReadAll()
		if err != nil || len(rows) < 10 || strings.Join(rows[0], " ") != "section name value p5 p95 unit kind" {
			t.Errorf("%s: CSV of %d rows, %v", name, len(rows), err)
		}
		var doc struct {
			Schema int
			State  string
			Record json.RawMessage
		}
		if err := json.Unmarshal([]byte(render(t, load(t, name), "json")), &doc); err != nil || doc.Schema != 1 || doc.State == "" {
			t.Errorf("%s: %v, %+v", name, err, doc)
		}
		if err := conformance.ValidateRecord(doc.Record); err != nil {
			t.Errorf("%s: the record in the JSON: %v", name, err)
		}
	}
}

func TestLoadSaysWhatIsMissing(t *testing.T) {
	source := load(t, "finished")
	data, err := source.Record.Encode()
	if err != nil {
		t.Fatal(err)
	}
	head := headers[samplesFile] + "\n"
	line := "1,0,2,1,180,.5,0,0,3,50,4,,,,,0.001,170,0.005\n"
	cases := map[string]struct {
		samples string // "" for no file
		want    string
		rows    int
	}{
		"not there":          {"", "samples.csv: not there", 0},
		"empty":              {" ", "", 0},
		"header only":        {head, "samples.csv: no rows", 0},
		"torn last line":     {head + line + line + "3,0,2", "samples.csv: 1 damaged row left out (line 4: 3 fields, want 18)", 2},
		"torn in the middle": {head + line + "2,0\n" + line, "1 damaged row left out (line 3", 2},
		"quote never closed": {head + line + "\"2,0\n" + line, "1 damaged row left out", 1},
		"NULs":               {head + line + strings.Repeat("\x00", 500), "1 damaged row left out", 1},
		"whole":              {head + line, "", 1},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, journal.RecordFile), data, 0o644); err != nil {
				t.Fatal(err)
			}
			if c.samples != "" {
				if err := os.WriteFile(filepath.Join(dir, samplesFile), []byte(c.samples), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			d, err := Load(dir)
			if err != nil {
				t.Fatal(err)
			}
			said := strings.Join(d.Missing, "\n")
			if !strings.Contains(said, c.want) || c.want == "" && name == "whole" && strings.Contains(said, samplesFile) {
				t.Errorf("said %q, want %q", said, c.want)
			}
			if d.samples.len() != c.rows {
				t.Errorf("%d rows were read, want %d", d.samples.len(), c.rows)
			}
			for format := range formats {
				render(t, d, format)
			}
			if c.want != "" && !strings.Contains(strings.Join(strings.Fields(render(t, d, "text")), " "), strings.Join(strings.Fields(c.want), " ")) {
				t.Error("the report does not say it")
			}
		})
	}
	if _, err := Load(t.TempDir()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no run.json: %v, want os.ErrNotExist", err)
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, journal.RecordFile), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(dir); err == nil {
		t.Error("a directory in place of run.json was read")
	}
}

func TestSummary(t *testing.T) {
	records := []*journal.Record{load(t, "finished").Record, nil, load(t, "gpu").Record, load(t, "nothing").Record, load(t, "hostile").Record}
	var b bytes.Buffer
	if err := Summary(&b, records); err != nil {
		t.Fatal(err)
	}
	flat := strings.Join(strings.Fields(b.String()), " ")
	for _, want := range []string{"train ✓ finished ✓ 3 of 3 2 m 52 s $0.0062 +70.3 % −39.4 %", "resnet50 ✓ finished ✗ 3 of 4", "no data no data not not",
		"4 runs, $12.68 for the 3 whose cost is known"} {
		if !strings.Contains(flat, want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if twwidth.Width(line) > 100 {
			t.Errorf("too wide: %s", line)
		}
	}
	b.Reset()
	if err := Summary(&b, nil); err != nil || b.String() != "No runs.\n" {
		t.Errorf("%q, %v", b.String(), err)
	}
}

func FuzzTable(f *testing.F) {
	f.Add("time_s,cpus\n1,2\n")
	f.Add("time_s,cpus\n1,2\n3")
	f.Add("\"")
	f.Add("")
	f.Add("a,a\n\"x\n,")
	f.Fuzz(func(t *testing.T, text string) {
		tab, why := readTable(strings.NewReader(text))
		if tab.len() == 0 && why == "" {
			t.Error("nothing read, and nothing said")
		}
		for i := range tab.rows {
			for c := range tab.columns {
				tab.number(i, c)
			}
		}
	})
}

// BenchmarkHTML renders a run of ten hours with one sample per second.
func BenchmarkHTML(b *testing.B) {
	d := load(b, "finished")
	rows := make([][]string, 0, 36000)
	for i := range 36000 {
		r := append([]string(nil), d.samples.rows[i%d.samples.len()]...)
		r[0] = fmt.Sprint(i)
		rows = append(rows, r)
	}
	d.samples = &table{columns: d.samples.columns, rows: rows}
	b.ReportAllocs()
	size := 0
	for b.Loop() {
		size = len(render(b, d, "html"))
	}
	b.ReportMetric(float64(size), "bytes")
}

// TestRunName: a run is named by its id if optimize finds that from the working directory of the training, otherwise by its
// path.
func TestRunName(t *testing.T) {
	for name, c := range map[string]struct{ dir, work, want string }{
		"in the working directory":  {"/p/.optimize/runs/r1", "/p", "r1"},
		"above it":                  {"/p/.optimize/runs/r1", "/p/a/b", "r1"},
		"beside it":                 {"/p/.optimize/runs/r1", "/pa", "/p/.optimize/runs/r1"},
		"below it":                  {"/p/a/.optimize/runs/r1", "/p", "/p/a/.optimize/runs/r1"},
		"another state directory":   {"/s/runs/r1", "/p", "/s/runs/r1"},
		"unknown working directory": {"/s/runs/r1", "", "r1"},
	} {
		r := journal.NewRecord()
		r.RunID, r.Dir = "r1", c.work
		if got := runName(&data{Record: r, Dir: c.dir}); got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}
