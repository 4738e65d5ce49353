package regular

import (
	"errors"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func TestRows(t *testing.T) {
	for name, c := range map[string]struct {
		in      io.Reader
		want    [][]string
		damaged []string
		err     string
	}{
		"empty":          {in: strings.NewReader("")},
		"only a header":  {in: strings.NewReader("a,b\n"), want: [][]string{{"a", "b"}}},
		"damaged header": {in: strings.NewReader("\"a\"x,b\n1,2\n"), err: "parse error on line 1"},
		"damaged rows": {in: strings.NewReader("a,b\n1,2\n\"3\"x,4\n5\n6,7,8\n9,\n"), want: [][]string{{"a", "b"}, {"1", "2"}, {"9", ""}},
			damaged: []string{"parse error on line 3", "line 4: 1 fields, want 2", "line 5: 3 fields, want 2"}},
		"unreadable": {in: io.MultiReader(strings.NewReader("a,b\n1,2\n"), iotest.ErrReader(errors.New("no disk"))),
			want: [][]string{{"a", "b"}, {"1", "2"}}, err: "no disk"},
	} {
		t.Run(name, func(t *testing.T) {
			var rows [][]string
			var damaged []string
			var failed error
			for row, err := range Rows(c.in, func(err error) { damaged = append(damaged, err.Error()) }) {
				if failed = err; err == nil {
					rows = append(rows, slices.Clone(row))
				}
			}
			if !slices.EqualFunc(rows, c.want, slices.Equal) || !slices.EqualFunc(damaged, c.damaged, strings.HasPrefix) ||
				(failed == nil) != (c.err == "") || failed != nil && !strings.HasPrefix(failed.Error(), c.err) {
				t.Errorf("rows %q, damaged %q, %v", rows, damaged, failed)
			}
		})
	}
}

func TestLastRow(t *testing.T) {
	long := strings.Repeat("0.5,9,text\n", 20_000)
	for name, c := range map[string]struct {
		text string
		want map[string]float64
	}{
		"empty":         {"", nil},
		"only a header": {"a,b,c\n", nil},
		"torn row":      {"a,b,c\n1,2,3\n4,5", map[string]float64{"a": 1, "b": 2, "c": 3}},
		"other values":  {"a,b,c\nNaN,,x\n", map[string]float64{}},
		"other width":   {"a,b,c\n1,2\n", nil},
		"long":          {"a,b,c\n" + long + "7,8,\n1", map[string]float64{"a": 7, "b": 8}},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "t.csv")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := LastRow(path); !maps.Equal(got, c.want) || (got == nil) != (c.want == nil) {
				t.Errorf("%v, want %v", got, c.want)
			}
		})
	}
	if got := LastRow(filepath.Join(t.TempDir(), "none")); got != nil {
		t.Errorf("of no file: %v", got)
	}
}
