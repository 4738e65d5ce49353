package main

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"trainopt/cmd/optimize/internal/cli"
	"trainopt/optimizer/history"
	"trainopt/optimizer/journal"
	"trainopt/optimizer/run"
	"trainopt/sla"
)

// past records a finished run of a model and returns its id.
func (w *world) past(model string, day int) string {
	w.t.Helper()
	at := time.Date(2026, 3, day, 12, 0, 0, 0, time.UTC)
	run, err := journal.Create(w.state(), journal.NewRunID(at, model))
	if err != nil {
		w.t.Fatal(err)
	}
	rec := journal.NewRecord()
	rec.RunID, rec.State, rec.StartedAt, rec.Training.Model = run.ID(), journal.Done, at, &model
	rec.Outcome.Seconds, rec.Outcome.CostUSD = 100, 0.25
	stretch := journal.Blank[journal.Probe]()
	stretch.UnitSeconds, stretch.Allocation.CPUs = []journal.Number{1, 2}, 4
	rec.Measured = []journal.Probe{stretch}
	if err := run.WriteRecord(rec); err != nil {
		w.t.Fatal(err)
	}
	return run.ID()
}

// table runs a command that prints CSV and returns its rows by column name.
func (w *world) table(args ...string) []map[string]string {
	w.t.Helper()
	code, out, errs := w.run(args...)
	if code != run.CodeDone {
		w.t.Fatalf("%q: exit %d\n%s", args, code, errs)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) == 0 {
		w.t.Fatalf("%q: %v in %s", args, err, out)
	}
	var list []map[string]string
	for _, cells := range rows[1:] {
		row := map[string]string{}
		for i, name := range rows[0] {
			row[name] = cells[i]
		}
		list = append(list, row)
	}
	return list
}

const smallLog = "epoch,epoch_time,total_epochs,train_loss\n1,9,3,0.9\n2,5,3,0.5\nrubbish\n3,5,3,0.4\n"

// TestRunsExport checks the selection of rows, the formats and the destinations.
func TestRunsExport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	old, young := w.past("resnet50", 1), w.past("bert", 2)
	w.write("log.csv", smallLog)
	if code, _, errs := w.run("runs", "import", "log.csv", "--model", "bert"); code != run.CodeDone {
		t.Fatal(errs)
	}
	for args, want := range map[string]string{
		"":                             young + "/probe-1 " + young + " " + old + "/probe-1 " + old + " log",
		"--kind run":                   young + " " + old,
		"--kind probe,log":             young + "/probe-1 " + old + "/probe-1 log",
		"--model BERT":                 young + "/probe-1 " + young + " log",
		"--since 2026-03-02":           young + "/probe-1 " + young,
		"--since 2026-03-02T13:00:00Z": "",
	} {
		var got []string
		for _, row := range w.table(append([]string{"runs", "export"}, strings.Fields(args)...)...) {
			id := row["id"]
			if row["kind"] == "log" {
				id = "log"
			}
			got = append(got, id)
		}
		if text := strings.Join(got, " "); text != want {
			t.Errorf("runs export %s: %s, want %s", args, text, want)
		}
	}
	if row := w.table("runs", "export", "--kind", "run")[1]; row["seconds"] != "100" || row["cost_usd"] != "0.25" || row["gpu_util"] != "" || row["started_at"] != "2026-03-01T12:00:00Z" {
		t.Errorf("row %v", row)
	}
	_, out, _ := w.run("runs", "export", "--json", "--kind", "run")
	var doc struct {
		Schema  int
		Entries []map[string]any
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != 1 || len(doc.Entries) != 2 || doc.Entries[0]["gpu_util"] != nil || doc.Entries[0]["seconds"] != 100.0 {
		t.Errorf("%v in %s", err, out)
	}
	if code, out, errs := w.run("runs", "export", "-o", "all.parquet"); code != run.CodeDone || out != "" {
		t.Fatalf("exit %d, %q, %s", code, out, errs)
	}
	data, err := os.ReadFile(filepath.Join(w.dir, "all.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
	if err != nil || file.NumRows() != 5 || len(file.Schema().Columns()) != len(history.Columns()) {
		t.Errorf("parquet: %v, %+v", err, file)
	}
	if left, _ := filepath.Glob(filepath.Join(w.dir, ".all.parquet*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// TestRunsRefusals checks that refusals are one line with the exit code of a usage error.
func TestRunsRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("log.csv", smallLog)
	w.write("empty.csv", "")
	for name, c := range map[string]struct {
		args string
		code run.Code
		want string
	}{
		"format":        {"runs export --format xls", 2, "csv, json, parquet"},
		"kind":          {"runs export --kind table", 2, "run, probe or log"},
		"date":          {"runs export --since yesterday", 2, "2026-01-31"},
		"no such place": {"runs export -o absent/a.csv", 2, "absent"},
		"no log named":  {"runs import", 2, "import"},
		"no such log":   {"runs import absent.csv", 2, "log absent.csv: no such file"},
		"no row":        {"runs import empty.csv", 2, "empty.csv"},
		"log format":    {"runs import log.csv --format word", 2, "keras"},
		"GPUs":          {"runs import log.csv --gpus -1", 2, "0 or more"},
		"CPUs":          {"runs import log.csv --cpus 0", 2, "1 or more"},
		"which GPUs":    {"runs import log.csv --gpus 0 --gpu T4", 2, "--gpu"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := w.run(strings.Fields(c.args)...)
			if code != c.code || out != "" || !strings.Contains(errs, c.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("exit %d, %q, %q: want %d and one line with %q", code, out, errs, c.code, c.want)
			}
		})
	}
}

// TestParquetToATerminal checks that Parquet output to a terminal is refused with a hint.
func TestParquetToATerminal(t *testing.T) {
	t.Parallel()
	terminal, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skipf("no terminal to be had: %v", err)
	}
	defer terminal.Close()
	w := newWorld(t)
	var errs bytes.Buffer
	e := &cli.Env{Args: []string{"runs", "export", "--format", "parquet"}, Stdout: terminal, Stderr: &errs, Environ: w.environ, Dir: w.dir, Clock: run.SystemClock{}, Width: func() int { return 0 }}
	if code := execute(e); code != run.CodeUsage || !strings.Contains(errs.String(), "-o") {
		t.Errorf("exit %d, %s", code, errs.String())
	}
}

// TestRunsImport checks the reported counts, that a repeated import changes nothing, that flags replace values missing
// in a log, and that a bad log does not prevent the import of the others.
func TestRunsImport(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("log.csv", smallLog)
	w.write("copy of it.csv", smallLog)
	code, out, errs := w.run("runs", "import", "log.csv", "--gpus", "2", "--gpu", "Tesla T4", "--cpus", "8", "--model", "resnet50", "--params", "25e6", "--nodes", "1")
	if code != run.CodeDone || !strings.HasPrefix(out, "log.csv (") || !strings.Contains(out, "3 rows imported, 1 skipped (line 4: ") {
		t.Fatalf("exit %d, %s%s", code, out, errs)
	}
	for range 2 {
		rows := w.table("runs", "export")
		if len(rows) != 1 {
			t.Fatalf("%d entries, want 1: the same log is the same entry", len(rows))
		}
		if r := rows[0]; r["kind"] != "log" || r["gpus"] != "2" || r["gpu"] != "T4" || r["cpus"] != "8" || r["nodes"] != "1" || r["model"] != "resnet50" ||
			r["family"] != "resnet" || r["model_params"] != "2.5e+07" || r["rows"] != "3" || r["bad_rows"] != "1" || r["units"] != "3" || r["memory_gib"] != "" {
			t.Errorf("entry %v", r)
		}
		if code, _, errs := w.run("runs", "import", "copy of it.csv", "--gpus", "2", "--gpu", "Tesla T4", "--cpus", "8", "--model", "resnet50", "--params", "25e6", "--nodes", "1"); code != run.CodeDone {
			t.Fatal(errs)
		}
	}
	w.write("other.csv", "epoch,epoch_time\n1,2\n2,3\n")
	code, out, errs = w.run("--json", "runs", "import", "absent.csv", "other.csv")
	var doc struct {
		Schema int
		Logs   []struct {
			Rows    int
			Entries []string
		}
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil || len(doc.Logs) != 1 || doc.Logs[0].Rows != 2 || len(doc.Logs[0].Entries) != 1 {
		t.Errorf("%v in %s", err, out)
	}
	if code != run.CodeUsage || !strings.Contains(errs, "absent.csv") || !strings.HasPrefix(out, "{\n  \"schema\": 1,") {
		t.Errorf("exit %d, %s%s: want the schema first", code, out, errs)
	}
	if _, _, errs := w.run("runs", "import", "log.csv"); !strings.Contains(errs, "log.csv: ") {
		t.Errorf("the notes do not name the log: %s", errs)
	}
	if rows := w.table("runs", "export"); len(rows) != 2 {
		t.Errorf("%d entries, want 2", len(rows))
	}
}

// TestRunsSayAltered requires that a number edited in run.json is pointed out by list and report, and refused by
// what computes with it.
func TestRunsSayAltered(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.past("a", 1)
	path := filepath.Join(w.state(), "runs", id, journal.RecordFile)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, bytes.Replace(data, []byte(`"seed": `), []byte(`"seed": 9`), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, out, _ := w.run("runs"); !strings.Contains(out, "finished, altered") {
		t.Errorf("runs:\n%s", out)
	}
	if _, out, _ := w.run("report", id); !strings.Contains(out, "was changed by another program") {
		t.Errorf("report:\n%s", out)
	}
	for _, args := range [][]string{{"analyze", id}, {"pareto", id}, {"predict", "--like", id}} {
		if code, out, errs := w.run(args...); code == run.CodeDone || out != "" || !strings.Contains(errs, "checksum is wrong") {
			t.Errorf("%v: exit %d, %q, %q", args, code, out, errs)
		}
	}
}

// TestRunsListFits checks that the list fits a terminal for long names and many limits, with complete run ids, and that
// a stopped run has met no limit.
func TestRunsListFits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	short := w.past("a", 1)
	if _, out, _ := w.run("runs"); !strings.Contains(out, short) {
		t.Errorf("a short list is cut:\n%s", out)
	}
	id := w.past("train_an_image_classifier_on_everything_there_is", 2)
	rec, err := journal.ReadRecord(filepath.Join(w.state(), "runs", id))
	if err != nil {
		t.Fatal(err)
	}
	rec.State, rec.Exit = journal.Stopped, &journal.Exit{Reason: "deadline"}
	for k, o := range []sla.Objective{sla.Time, sla.Cost, sla.Throughput, sla.Memory} {
		rec.SLA.Verdicts = append(rec.SLA.Verdicts, sla.Verdict{Objective: o, Status: []sla.Status{sla.Met, sla.Violated}[k%2]})
	}
	rec.Outcome.Epochs, rec.Training.TotalUnits, rec.Training.Unit = 50, 120_000, "epoch"
	data, err := json.Marshal(rec)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(w.state(), "runs", id, journal.RecordFile), data, 0o644); err != nil {
		t.Fatal(err)
	}
	broken := w.past("b", 3)
	if err := os.WriteFile(filepath.Join(w.state(), "runs", broken, journal.RecordFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	code, out, errs := w.run("runs")
	if code != run.CodeDone {
		t.Fatal(errs)
	}
	for _, line := range strings.Split(out, "\n") {
		if n := utf8.RuneCountInString(line); n > 100 || strings.HasSuffix(line, " ") {
			t.Errorf("%d columns: %q", n, line)
		}
	}
	for _, part := range []string{id, short, " deadline ", " ✗ 3 ? 1 ", " 50/120,000 ", "unreadable"} {
		if !strings.Contains(out, part) {
			t.Errorf("no %q in\n%s", part, out)
		}
	}
	lines := strings.Split(out, "\n")
	for _, line := range lines[1 : len(lines)-1] {
		called, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if _, err := journal.Find(w.state(), called); err != nil {
			t.Errorf("%q finds no run: %v", called, err)
		}
	}
}

// TestRunsShowDamage checks that the list shows the damaged file of a run and that the run can be removed.
func TestRunsShowDamage(t *testing.T) {
	w := newWorld(t)
	id := w.past("a", 1)
	if err := os.WriteFile(filepath.Join(w.state(), "runs", id, journal.RecordFile), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, out, errs := w.run("runs"); !strings.Contains(out, " unreadable  run.json is damage") {
		t.Errorf("%s\n%s", out, errs)
	}
	if code, out, errs := w.run("runs", "rm", id); code != run.CodeDone || !strings.Contains(out, "removed "+id) {
		t.Errorf("exit %d: %s\n%s", code, out, errs)
	}
}

// TestRunsImportOfWhatIsNoLog checks that a file that is missing, empty, a directory or not a training log is a usage
// error.
func TestRunsImportOfWhatIsNoLog(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("empty.csv", "")
	w.write("binary.csv", "\x00\xff\x01\xfe\n\x80\x81\n")
	if err := os.Mkdir(filepath.Join(w.dir, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"absent.csv", "empty.csv", "binary.csv", "folder"} {
		code, out, errs := w.run("runs", "import", name)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, name) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q: want 2 and a line that names it", name, code, out, errs)
		}
	}
	if _, err := os.Stat(w.state()); err == nil {
		t.Error("a state directory was made for nothing")
	}
}

// TestRunsRemoveForgets checks that removed runs disappear from the history too.
func TestRunsRemoveForgets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gone, stays := w.past("a", 1), w.past("b", 2)
	if n := len(w.table("runs", "export")); n != 4 {
		t.Fatalf("%d entries", n)
	}
	if code, _, errs := w.run("runs", "rm", gone); code != run.CodeDone {
		t.Fatal(errs)
	}
	db, _, err := history.Open(w.state())
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	entries, err := db.Entries(history.Filter{})
	if err != nil || len(entries) != 2 || entries[1].ID != stays {
		t.Errorf("%v, %+v", err, entries)
	}
}

// TestExportMakesNoStateDirectory checks that an export from a missing state directory does not create it.
func TestExportMakesNoStateDirectory(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	if rows := w.table("runs", "export"); len(rows) != 0 {
		t.Errorf("%v", rows)
	}
	if _, err := os.Stat(w.state()); err == nil {
		t.Errorf("%s was made", w.state())
	}
}

// TestExportReportsDamage: entries that are left out of an export because their bytes were changed are never left out
// silently; a table of another form is rebuilt.
func TestExportReportsDamage(t *testing.T) {
	t.Parallel()
	for name, change := range map[string][2]string{"a value": {"damagedmodel", "damagedmodem"}, "a column": {"script_sha256 TEXT NOT NULL, problem", "script_sha255 TEXT NOT NULL, problem"}} {
		w := newWorld(t)
		w.past("resnet50", 1)
		w.write("log.csv", smallLog)
		if code, _, errs := w.run("runs", "import", "log.csv", "--model", "damagedmodel"); code != run.CodeDone {
			t.Fatal(errs)
		}
		path := filepath.Join(w.state(), "history.db")
		data, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(data, []byte(change[0])) {
			t.Fatalf("%s: %v", name, err)
		}
		if err := os.WriteFile(path, bytes.ReplaceAll(data, []byte(change[0]), []byte(change[1])), 0o600); err != nil {
			t.Fatal(err)
		}
		code, out, errs := w.run("runs", "export")
		if code != run.CodeDone || !strings.Contains(out, "resnet50") || strings.Contains(out, "damagedmodem") || !strings.Contains(errs, "was damaged") {
			t.Errorf("%s: exit %d\n%s%s", name, code, out, errs)
		}
	}
}
