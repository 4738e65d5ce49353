package monitor

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// For any number of rows, a thinned table stays within its limit, evenly spread, with the first and the last row.
func TestThinnedTable(t *testing.T) {
	for name, c := range map[string]struct {
		rows, resumeAt int
		limit          int
	}{
		"fits":                 {rows: 9, limit: 10},
		"full":                 {rows: 11, limit: 10},
		"many times":           {rows: 12_345, limit: 10},
		"odd limit":            {rows: 12_345, limit: 7},
		"continued":            {rows: 12_345, limit: 10, resumeAt: 4_321},
		"continued after many": {rows: 40, limit: 10, resumeAt: 39},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "log.csv")
			table := newTable(path, "n")
			table.thin = thinning{rows: c.limit, bytes: 1 << 20}
			for n := range c.rows {
				if c.resumeAt > 0 && n == c.resumeAt {
					if err := table.Close(); err != nil {
						t.Fatal(err)
					}
					table = newTable(path, "n")
					table.thin = thinning{rows: c.limit, bytes: 1 << 20}
				}
				v := Values{"n": n}
				var err error
				if table.Due() {
					err = table.Append(v)
				} else {
					err = table.Offer(v)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := table.Close(); err != nil {
				t.Fatal(err)
			}
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSpace(string(data)), "\n")
			if lines[0] != "n" {
				t.Fatalf("header %q", lines[0])
			}
			lines = lines[1:]
			if len(lines) > c.limit+1 || len(lines) < min(c.rows, c.limit/2) {
				t.Errorf("%d rows of %d, want at most %d and the last, at least half of that", len(lines), c.rows, c.limit)
			}
			if lines[0] != "0" || lines[len(lines)-1] != strconv.Itoa(c.rows-1) {
				t.Errorf("from row %s to %s, want 0 to %d", lines[0], lines[len(lines)-1], c.rows-1)
			}
			before := -1
			for _, line := range lines {
				n, err := strconv.Atoi(line)
				if err != nil || n <= before {
					t.Fatalf("row %q after %d: %v", line, before, err)
				}
				before = n
			}
		})
	}
}

func TestThinnedTableByBytes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log.csv")
	table := newTable(path, "text")
	table.thin = thinning{rows: 1 << 30, bytes: 10_000}
	for range 1000 {
		if table.Due() {
			if err := table.Append(Values{"text": strings.Repeat("x", 100)}); err != nil {
				t.Fatal(err)
			}
		}
		if info, err := os.Stat(path); err != nil || info.Size() > 10_200 {
			t.Fatalf("%v, %v", info.Size(), err)
		}
	}
	table.Close()
}

// A cell of a table is plain text in a spreadsheet and in a terminal, for any content of a log or name of a script.
func TestPlainCell(t *testing.T) {
	for text, want := range map[string]string{
		"resnet":               "resnet",
		"=HYPERLINK(\"x\")":    "'=HYPERLINK(\"x\")",
		"+1+1":                 "'+1+1",
		"-cmd":                 "'-cmd",
		"@sum":                 "'@sum",
		"\t=1+1":               "' =1+1",
		"\r=1+1":               "' =1+1",
		"-1.5":                 "-1.5",
		"a\x1b[31mred\x07\x9b": "a [31mred \ufffd",
		"a\u009bb":             "a b",
		"two\nlines":           "two lines",
	} {
		if got := PlainCell(text); got != want {
			t.Errorf("PlainCell(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestCSVWriter(t *testing.T) {
	var b strings.Builder
	w := NewCSVWriter(&b)
	if err := w.WriteAll([][]string{{"name", "value"}, {"=HYPERLINK(\"http://x\")", "-1.5"}, {"a\x1b[31m\nb", "@sum"}}); err != nil {
		t.Fatal(err)
	}
	want(t, "CSV", b.String(), "name,value\n\"'=HYPERLINK(\"\"http://x\"\")\",-1.5\na [31m b,'@sum\n")
}
