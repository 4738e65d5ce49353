package monitor

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func readTable(t rapid.TB, path string) [][]string {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatalf("%s is not a CSV: %v", path, err)
	}
	return records
}

type money float64

func TestTable(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	table := newTable(path, "a", "b", "c", "d")
	limit := 2.5
	rows := []Values{
		{"a": 1.0 / 3, "b": 7, "c": true, "d": "x, \"y\"\nz"},
		{"a": math.NaN(), "b": math.Inf(1), "c": nil},
		{"a": money(2), "b": &limit, "c": (*float64)(nil), "d": 90 * time.Second},
	}
	for _, r := range rows {
		if err := table.Append(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := table.Append(Values{"nope": 1}); err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("an unknown column: %v", err)
	}
	if err := table.Append(Values{"a": []int{1}}); err == nil {
		t.Error("a list as a value")
	}
	table.Close()
	again := newTable(path, "a", "b", "c", "d") // a restarted agent
	if err := again.Append(Values{"a": 1e-12}); err != nil {
		t.Fatal(err)
	}
	again.Close()
	want(t, "table", readTable(t, path), [][]string{{"a", "b", "c", "d"}, {"0.333333333", "7", "1", `x, "y" z`}, {"", "", "", ""}, {"2", "2.5", "", "90"}, {"1e-12", "", "", ""}})
}

// A crash may truncate a table at any byte; new rows follow whole rows.
func TestTableAfterCrash(t *testing.T) {
	dir := t.TempDir()
	whole := "a,b\n1,2\n3,4\n"
	for cut := 0; cut <= len(whole); cut++ {
		path := filepath.Join(dir, fmt.Sprint(cut, ".csv"))
		if err := os.WriteFile(path, []byte(whole[:cut]), 0o644); err != nil {
			t.Fatal(err)
		}
		table := newTable(path, "a", "b")
		if err := table.Append(Values{"a": 5, "b": 6}); err != nil {
			t.Fatal(err)
		}
		table.Close()
		rows := [][]string{{"a", "b"}}
		if cut >= 8 {
			rows = append(rows, []string{"1", "2"})
		}
		if cut >= 12 {
			rows = append(rows, []string{"3", "4"})
		}
		want(t, fmt.Sprintf("cut at %d", cut), readTable(t, path), append(rows, []string{"5", "6"}))
	}
}

func TestTableOfOtherColumnsIsSetAside(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	for i, columns := range [][]string{{"a", "b"}, {"a", "c"}, {"a"}} {
		table := newTable(path, columns...)
		if err := table.Append(Values{"a": i}); err != nil {
			t.Fatal(err)
		}
		table.Close()
	}
	want(t, "now", readTable(t, path), [][]string{{"a"}, {"2"}})
	want(t, "first", readTable(t, path+".1"), [][]string{{"a", "b"}, {"0", ""}})
	want(t, "second", readTable(t, path+".2"), [][]string{{"a", "c"}, {"1", ""}})
}

// faulty is a file with injected failures. A failing write writes part of its bytes, as on a full disk.
type faulty struct {
	*os.File
	calls *int
	fails func(call int) bool
	short int
}

func (f faulty) next() error {
	*f.calls++
	if f.fails(*f.calls) {
		return syscall.ENOSPC
	}
	return nil
}

func (f faulty) Write(b []byte) (int, error) {
	if err := f.next(); err != nil {
		n, _ := f.File.Write(b[:min(len(b), f.short)])
		return n, err
	}
	return f.File.Write(b)
}

func (f faulty) Truncate(size int64) error {
	if err := f.next(); err != nil {
		return err
	}
	return f.File.Truncate(size)
}

func (f faulty) Stat() (fs.FileInfo, error) {
	if err := f.next(); err != nil {
		return nil, err
	}
	return f.File.Stat()
}

func (f faulty) ReadAt(b []byte, at int64) (int, error) {
	if err := f.next(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

var _ io.ReaderAt = faulty{}

// An error at every call in turn, once or for a while, causes one warning, no partial row, and no missing row.
func TestTableErrorAtEveryCall(t *testing.T) {
	dir := t.TempDir()
	for _, before := range []string{"", "a,b\n0,0\n", "a,b\n0,0\n9,"} {
		for _, short := range []int{0, 1, 5, 7} {
			for first := 1; first <= 14; first++ {
				for _, length := range []int{1, 3, 8} {
					path := filepath.Join(dir, "t.csv")
					os.Remove(path)
					if before != "" {
						os.WriteFile(path, []byte(before), 0o644)
					}
					calls := 0
					table := newTable(path, "a", "b")
					table.open = func(path string) (tableFile, error) {
						f, err := openTableFile(path)
						calls++
						if failing := calls >= first && calls < first+length; failing && err == nil {
							f.Close()
							return nil, syscall.EROFS
						}
						return faulty{f.(*os.File), &calls, func(c int) bool { return c >= first && c < first+length }, short}, err
					}
					warnings := 0
					for i := 1; i <= 30; i++ {
						if table.Append(Values{"a": i, "b": 100 * i}) != nil {
							warnings++
						}
					}
					table.Close()
					rows := [][]string{{"a", "b"}}
					if before != "" {
						rows = append(rows, []string{"0", "0"})
					}
					for i := 1; i <= 30; i++ {
						rows = append(rows, []string{fmt.Sprint(i), fmt.Sprint(100 * i)})
					}
					name := fmt.Sprintf("before %q, %d bytes written, calls %d+%d", before, short, first, length)
					want(t, name, readTable(t, path), rows)
					if warnings > 1 {
						t.Errorf("%s: %d warnings", name, warnings)
					}
				}
			}
		}
	}
}

// While the disk stays full, memory is bounded, and the newest rows are written once there is space.
func TestTableDiskFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	full, calls := true, 0
	table := newTable(path, "a", "b")
	table.open = func(path string) (tableFile, error) {
		f, err := openTableFile(path)
		return faulty{f.(*os.File), &calls, func(int) bool { return full }, 3}, err
	}
	warnings := 0
	for i := range 20_000 {
		if table.Append(Values{"a": i, "b": "a text that fills the disk"}) != nil {
			warnings++
		}
	}
	want(t, "warnings", warnings, 1)
	if len(table.held) > heldBytes || cap(table.held) > 4*heldBytes {
		t.Errorf("%d bytes are held", cap(table.held))
	}
	full = false
	if err := table.Append(Values{"a": 20_000}); err != nil {
		t.Fatal(err)
	}
	rows := readTable(t, path)
	want(t, "header", rows[0], []string{"a", "b"})
	want(t, "rows and lost ones", len(rows)-1+table.dropped, 20_001)
	want(t, "last", rows[len(rows)-1][0], "20000")
	if !slices.IsSortedFunc(rows[1:], func(a, b []string) int { return len(a[0]) - len(b[0]) }) {
		t.Error("rows out of order")
	}
}

// Real errors: ENOSPC of the kernel, and a run directory that cannot be created.
func TestTableRealErrors(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err == nil {
		table := newTable("/dev/full", "a")
		err := table.Append(Values{"a": 1})
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), "/dev/full") {
			t.Errorf("a full device: %v", err)
		}
		for range 10 {
			if err := table.Append(Values{"a": 1}); err != nil {
				t.Errorf("a second warning: %v", err)
			}
		}
		table.Close()
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	tables, err := OpenTables(filepath.Join(file, "run"))
	if err == nil {
		t.Error("a run directory below a file was made")
	}
	warnings := 0
	for i := range 5 {
		if tables.Samples.Append(Values{"time_s": i}) != nil {
			warnings++
		}
	}
	want(t, "warnings", warnings, 1)
	tables.Close()
}

// TestTableProperty: with any failing calls and crashes of the writer, the first successful write leaves a file of
// whole rows in order that ends with the written row.
func TestTableProperty(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		path := filepath.Join(dir, "p.csv")
		os.Remove(path)
		calls, bad := 0, rapid.SliceOfDistinct(rapid.IntRange(1, 80), func(i int) int { return i }).Draw(rt, "failing calls")
		short := rapid.IntRange(0, 12).Draw(rt, "short")
		open := func() *Table {
			table := newTable(path, "a", "b")
			table.open = func(path string) (tableFile, error) {
				f, err := openTableFile(path)
				return faulty{f.(*os.File), &calls, func(c int) bool { return slices.Contains(bad, c) }, short}, err
			}
			return table
		}
		table, rows := open(), rapid.IntRange(0, 40).Draw(rt, "rows")
		for i := range rows {
			table.Append(Values{"a": i, "b": i})
			if rapid.IntRange(0, 9).Draw(rt, "crash") == 0 {
				if table.file != nil {
					table.file.Close() // without writing the held rows
				}
				table = open()
			}
		}
		bad = nil
		table.Append(Values{"a": rows, "b": rows})
		if err := table.Close(); err != nil {
			rt.Fatal(err)
		}
		data, err := os.ReadFile(path)
		if err != nil {
			rt.Fatal(err)
		}
		lines := strings.SplitAfter(string(data), "\n")
		if lines[0] != "a,b\n" || lines[len(lines)-1] != "" {
			rt.Fatalf("want the header and whole rows: %q", data)
		}
		last := -1
		for i, line := range lines[1 : len(lines)-1] {
			var a, b int
			if n, _ := fmt.Sscanf(line, "%d,%d\n", &a, &b); n != 2 || a != b || a <= last {
				rt.Fatalf("row %d is %q after %d", i, line, last)
			}
			last = a
		}
		if last != rows {
			rt.Fatalf("the last row is %d, want %d: %q", last, rows, data)
		}
	})
}

// countedWrites counts the writes to a table's file.
type countedWrites struct {
	tableFile
	n *int
}

func (c countedWrites) Write(b []byte) (int, error) {
	*c.n++
	return c.tableFile.Write(b)
}

// TestTableTogether: rows appended together take few writes, and all of them are written.
func TestTableTogether(t *testing.T) {
	path := filepath.Join(t.TempDir(), "t.csv")
	table := newTable(path, "n")
	writes := 0
	table.open = func(path string) (tableFile, error) {
		f, err := openTableFile(path)
		return countedWrites{f, &writes}, err
	}
	const rows = 40_000
	write := table.Together()
	for i := range rows {
		if err := table.Append(Values{"n": i}); err != nil {
			t.Fatal(err)
		}
	}
	if err := write(); err != nil {
		t.Fatal(err)
	}
	if got := len(readTable(t, path)); got != 1+rows || writes > 10 {
		t.Errorf("%d lines by %d writes, want %d by at most 10", got, writes, 1+rows)
	}
	if err := table.Append(Values{"n": rows}); err != nil {
		t.Fatal(err)
	}
	if got := len(readTable(t, path)); got != 2+rows {
		t.Errorf("%d lines after a single row, want %d", got, 2+rows)
	}
}
