package history

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"trainopt/cost"
	"trainopt/monitor"
)

func exported(t rapid.TB, entries []Entry, format string) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := Export(&b, entries, format); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// readers parse an export: each row maps the columns of known values.
var readers = map[string]func(t rapid.TB, data []byte) []map[string]any{
	"csv": func(t rapid.TB, data []byte) (out []map[string]any) {
		rows, err := csv.NewReader(bytes.NewReader(data)).ReadAll()
		if err != nil || len(rows) == 0 || len(rows[0]) != len(columns) {
			t.Fatalf("%v in %q", err, data)
		}
		for _, cells := range rows[1:] {
			row := map[string]any{}
			for i, name := range rows[0] {
				if cells[i] != "" {
					row[name] = cells[i]
				}
			}
			out = append(out, row)
		}
		return out
	},
	"json": func(t rapid.TB, data []byte) (out []map[string]any) {
		var doc struct {
			Schema  int              `json:"schema"`
			Entries []map[string]any `json:"entries"`
		}
		if err := json.Unmarshal(data, &doc); err != nil || doc.Schema != 1 || doc.Entries == nil {
			t.Fatalf("%v in %s", err, data)
		}
		for _, row := range doc.Entries {
			if len(row) != len(columns) {
				t.Fatalf("%d columns, want all %d", len(row), len(columns))
			}
			for name, v := range row {
				if v == nil {
					delete(row, name)
				}
			}
		}
		return doc.Entries
	},
	"parquet": func(t rapid.TB, data []byte) (out []map[string]any) {
		file, err := parquet.OpenFile(bytes.NewReader(data), int64(len(data)))
		if err != nil {
			t.Fatal(err)
		}
		names := file.Schema().Columns()
		for i, c := range columns {
			if names[i][0] != c.Name {
				t.Fatalf("column %d is %s, want %s", i, names[i], c.Name)
			}
		}
		for _, group := range file.RowGroups() {
			rows := make([]parquet.Row, group.NumRows())
			reader := group.Rows()
			if n, _ := reader.ReadRows(rows); n != len(rows) {
				t.Fatalf("%d of %d rows", n, len(rows))
			}
			for _, cells := range rows {
				row := map[string]any{}
				for i, v := range cells {
					switch {
					case v.IsNull():
					case v.Kind() == parquet.Double:
						row[columns[i].Name] = v.Double()
					case v.Kind() == parquet.Int64 && columns[i].Name == "started_at":
						row[columns[i].Name] = time.UnixMicro(v.Int64()).UTC().Format(time.RFC3339Nano)
					case v.Kind() == parquet.Int64:
						row[columns[i].Name] = float64(v.Int64())
					default:
						row[columns[i].Name] = string(v.ByteArray())
					}
				}
				out = append(out, row)
			}
			_ = reader.Close()
		}
		return out
	},
}

// TestExportProperty requires that each format preserves known values and has none for unknown ones.
func TestExportProperty(t *testing.T) {
	for format, read := range readers {
		t.Run(format, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				var entries []Entry
				for i := range rapid.IntRange(0, 3).Draw(t, "entries") {
					e := anything(t, strconv.Itoa(i))
					e.At = e.At.Truncate(time.Microsecond)
					entries = append(entries, e)
				}
				rows := read(t, exported(t, entries, format))
				if len(rows) != len(entries) {
					t.Fatalf("%d rows of %d entries", len(rows), len(entries))
				}
				for n, e := range entries {
					flat := e.expand()
					for i := range columns {
						name, want, got := columns[i].Name, columns[i].value(flat), rows[n][columns[i].Name]
						if text, ok := want.(string); ok && format == "csv" {
							want = monitor.PlainCell(text) // defused formulas, no control characters
						}
						if !sameCell(got, want, format) {
							t.Fatalf("%s of entry %d: %v (%T), want %v (%T)", name, n, got, got, want, want)
						}
					}
				}
			})
		})
	}
}

// sameCell compares a parsed cell with the value of a column. A CSV reader turns CR LF within a cell into LF.
func sameCell(got, want any, format string) bool {
	if format == "csv" {
		text, _ := got.(string)
		switch w := want.(type) {
		case float64:
			f, err := strconv.ParseFloat(text, 64)
			return err == nil && f == w
		case string:
			return text == strings.ReplaceAll(w, "\r\n", "\n")
		}
		return text == cell(want)
	}
	switch w := want.(type) {
	case int64:
		return got == float64(w)
	case time.Time:
		return got == cell(w)
	}
	return got == want
}

// TestExportText compares the export of a small history byte for byte.
func TestExportText(t *testing.T) {
	e := NewEntry(Log, "a")
	e.Job.Model, e.Observed.GPUs, e.CostUSD, e.Seconds = `the "big", one`, 0, 1e6, 0.1
	e.At = time.Date(2026, 3, 1, 12, 0, 0, 500, time.FixedZone("", 3600))
	e.Rates = cost.Rates{CPUHour: 0.03, Source: "me", Dated: "2026-01-01"}
	text := string(exported(t, []Entry{e}, "csv"))
	header, row, _ := strings.Cut(text, "\n")
	if !strings.HasPrefix(header, "id,parent,kind,source,started_at,script,") || !strings.HasSuffix(header, ",predicted_throughput_p95,planner,predicted_widen,cpu_quota") {
		t.Errorf("header %s", header)
	}
	if !strings.HasPrefix(row, `a,,log,,2026-03-01T11:00:00.0000005Z,,,,"the ""big"", one",,`) || !strings.Contains(row, ",1e+06,0,0.03,0,,me,2026-01-01,,") {
		t.Errorf("row %s", row)
	}
	if text := string(exported(t, []Entry{e}, "json")); !strings.Contains(text, `"gpus": 0, "nodes": null, "cpus": null`) || !strings.Contains(text, `"cost_usd": 1e+06, "gpu_hour": 0, `) {
		t.Errorf("json %s", text)
	}
	if err := Export(&bytes.Buffer{}, nil, "xls"); err == nil || !strings.Contains(err.Error(), "csv, json, parquet") {
		t.Errorf("an unknown format: %v", err)
	}
}

// TestExportPandas requires that pandas reads the same columns and nulls from parquet.
func TestExportPandas(t *testing.T) {
	if err := exec.Command("python3", "-c", "import pandas, pyarrow").Run(); err != nil {
		t.Skip("pandas and pyarrow are not installed")
	}
	e := NewEntry(Log, "a")
	e.Seconds, e.At = 2.5, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	path := filepath.Join(t.TempDir(), "runs.parquet")
	if err := os.WriteFile(path, exported(t, []Entry{e, NewEntry(Log, "b")}, "parquet"), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command("python3", "-c", "import pandas, sys; d = pandas.read_parquet(sys.argv[1]); print(d.shape, d.seconds[0], d.seconds.isna()[1], d.started_at[0], d.model.isna()[0])", path).CombinedOutput()
	if want := "2.5 True 2026-03-01 12:00:00+00:00 True"; err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v: %s, want %s", err, out, want)
	}
}

// TestExportNothingKnown requires that an entry without known values is exported as empty cells, not zeros.
func TestExportNothingKnown(t *testing.T) {
	for format, read := range readers {
		row := read(t, exported(t, []Entry{NewEntry(Table, "x")}, format))[0]
		for name, v := range row {
			switch name {
			case "id", "kind", "rows", "bad_rows", "restarts":
			default:
				t.Errorf("%s: %s is %v", format, name, v)
			}
		}
		if math.IsNaN(NewEntry(Table, "x").CostUSD) && len(row) != 5 {
			t.Errorf("%s: %v", format, row)
		}
	}
}

// TestExportDefusesFormulas requires that a model name that looks like a formula is text in CSV, which people open in
// spreadsheets.
func TestExportDefusesFormulas(t *testing.T) {
	e := NewEntry(Run, "1")
	e.Job.Model = "=HYPERLINK(\"http://x\")\x1b[2J"
	text := string(exported(t, []Entry{e}, "csv"))
	if !strings.Contains(text, "'=HYPERLINK") || strings.Contains(text, "\x1b") {
		t.Errorf("%q", text)
	}
}
