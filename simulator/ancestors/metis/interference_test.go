package metis

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"trainopt/optimizer/schedule/place"
)

// From the pair tables, the 39 rows and their curves equal those published by Metis and the embedded constraints.
func TestPublishedRows(t *testing.T) {
	s, err := readPairs(publishedFile(t, "datasets/0905-7app-2008-pairwise-normed.csv"), publishedFile(t, "datasets/0905-7app-2008-pairwise-normed-per-app.csv"))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := fromSamples(s, 8, ruleOptions{Contested: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := constraints(rows); !reflect.DeepEqual(got, place.MetisConstraints()) {
		t.Errorf("got %v\nwant %v", got, place.MetisConstraints())
	}
	plain, err := fromSamples(s, 8, ruleOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := writeConstraints(&out, constraints(plain)); err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile(publishedFile(t, "interference/interference_applist.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != strings.ReplaceAll(string(want), "\r", "") {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	f, err := os.Open(publishedFile(t, "interference/interference_rpslist.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	curves, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(curves) != len(rows)+1 {
		t.Fatalf("%d curves, want %d", len(rows), len(curves)-1)
	}
	for i, row := range rows {
		for k, cell := range curves[i+1] {
			if want, _ := strconv.ParseFloat(cell, 64); math.Abs(row.RPS[k]-want) > 1e-12 {
				t.Errorf("row %d, %d neighbours: got %v, want %v", i, k, row.RPS[k], want)
			}
		}
	}
}

// The table of all patterns yields the same constraints as the pair tables.
func TestFromTable(t *testing.T) {
	rows, err := fromTable(place.MetisTable(), ruleOptions{Contested: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got := constraints(rows); !reflect.DeepEqual(got, place.MetisConstraints()) {
		t.Errorf("got %v\nwant %v", got, place.MetisConstraints())
	}
}

// table returns a table of two apps: the first has throughput first[k] beside k containers of the second, the second
// has second[k] beside k of the first.
func table(t testing.TB, first, second []float64) *place.Table {
	t.Helper()
	tab, err := place.NewTable([]string{"a", "b"}, 4, func(counts []uint8, rps []float64) {
		rps[0], rps[1] = first[counts[1]], second[counts[0]]
	})
	if err != nil {
		t.Fatal(err)
	}
	return tab
}

func TestWishes(t *testing.T) {
	none := []float64{1, 1, 1, 1, 1}
	for name, c := range map[string]struct {
		first []float64
		o     ruleOptions
		want  []place.Constraint
	}{
		"nothing changes":      {none, ruleOptions{}, nil},
		"changes too little":   {[]float64{1, 0.95, 0.92, 0.91, 0.91}, ruleOptions{}, nil},
		"tolerates one":        {[]float64{1, 0.9, 0.8, 0.2, 0.1}, ruleOptions{}, []place.Constraint{{App: 0, Neighbour: 1, Threshold: 1, Weight: 1}}},
		"tolerates none":       {[]float64{2, 1.7, 1.7, 1.7, 1.7}, ruleOptions{}, []place.Constraint{{App: 0, Neighbour: 1, Threshold: 0, Weight: 1}}},
		"wants two":            {[]float64{1, 1.1, 1.2, 0.2, 0.1}, ruleOptions{}, []place.Constraint{{App: 0, Neighbour: 1, AtLeast: true, Threshold: 2, Weight: 1}}},
		"first change decides": {[]float64{1, 0.8, 3, 3, 3}, ruleOptions{}, []place.Constraint{{App: 0, Neighbour: 1, Threshold: 0, Weight: 1}}},
		"other thresholds":     {[]float64{1, 0.9, 0.8, 0.2, 0.1}, ruleOptions{Loss: 0.5}, []place.Constraint{{App: 0, Neighbour: 1, Threshold: 2, Weight: 1}}},
		"needs to vary more":   {[]float64{1, 0.9, 0.8, 0.7, 0.6}, ruleOptions{Vary: 2}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := fromTable(table(t, c.first, none), c.o)
			if err != nil {
				t.Fatal(err)
			}
			if got := constraints(rows); !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestWhatIsContested(t *testing.T) {
	rows, err := fromTable(table(t, []float64{1, 2, 2, 2, 2}, []float64{1, 0.5, 0.5, 0.5, 0.5}), ruleOptions{Contested: 3})
	if err != nil {
		t.Fatal(err)
	}
	want := []place.Constraint{{App: 0, Neighbour: 1, AtLeast: true, Threshold: 1, Weight: 1}, {App: 1, Neighbour: 0, Threshold: 0, Weight: 3}}
	if got := constraints(rows); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// An app that runs at 1, 0.95 and 0.8 beside 0, 1 and 2 others of its kind tolerates one other; Metis permits one
// more.
func TestOwnKind(t *testing.T) {
	tab, err := place.NewTable([]string{"a"}, 3, func(counts []uint8, rps []float64) { rps[0] = []float64{0, 1, 0.95, 0.8}[counts[0]] })
	if err != nil {
		t.Fatal(err)
	}
	for others, want := range map[bool]int{false: 2, true: 1} {
		rows, err := fromTable(tab, ruleOptions{Others: others})
		if err != nil || len(rows) != 1 || rows[0].Constraint.Threshold != want {
			t.Errorf("others %v: got %v, %v, want %d", others, rows, err, want)
		}
	}
}

func TestRulesRefuse(t *testing.T) {
	one := &place.Samples{Apps: []string{"a", "b"}, Counts: [][]uint8{{1, 0}}, RPS: [][]float64{{1, math.NaN()}}}
	for name, c := range map[string]struct {
		do   func() ([]derivedRow, error)
		want string
	}{
		"missing":  {func() ([]derivedRow, error) { return fromSamples(one, 2, ruleOptions{}) }, "a is not known for [2 0]"},
		"many":     {func() ([]derivedRow, error) { return fromSamples(one, 9, ruleOptions{}) }, "such throughputs in all"},
		"options":  {func() ([]derivedRow, error) { return fromSamples(one, 2, ruleOptions{Gain: 0.5, Loss: math.NaN()}) }, "loss NaN"},
		"capacity": {func() ([]derivedRow, error) { return fromSamples(one, 0, ruleOptions{}) }, "0 containers a node"},
		"rows": {func() ([]derivedRow, error) {
			return fromSamples(&place.Samples{Apps: one.Apps, Counts: one.Counts}, 2, ruleOptions{})
		}, "1 rows of counts, 0"},
		"alone": {func() ([]derivedRow, error) {
			return fromTable(table(t, make([]float64, 5), make([]float64, 5)), ruleOptions{})
		}, "a runs at 0 alone"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := c.do(); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// readConstraints inverts writeConstraints.
func TestConstraintsRoundTrip(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		want := rapid.SliceOf(rapid.Custom(func(r *rapid.T) place.Constraint {
			return place.Constraint{
				App: rapid.IntRange(0, 99).Draw(r, "app"), Neighbour: rapid.IntRange(0, 99).Draw(r, "neighbour"),
				AtLeast: rapid.Bool().Draw(r, "least"), Threshold: rapid.IntRange(0, 99).Draw(r, "threshold"),
				Weight: rapid.SampledFrom([]float64{1, 1, 2, 0.3}).Draw(r, "weight"),
			}
		})).Draw(r, "constraints")
		var b bytes.Buffer
		if err := writeConstraints(&b, want); err != nil {
			r.Fatal(err)
		}
		got, err := readConstraints(&b)
		if err != nil || !slices.Equal(got, want) {
			r.Fatalf("got %v, %v, want %v", got, err, want)
		}
	})
}

func FuzzReadConstraints(f *testing.F) {
	f.Add("app_s,app_c,less_or_lager,threshold\n1,2,0,3\n2,1,1,1\n")
	f.Add("app_s,app_c,less_or_lager,threshold,weight\n1,2,0,3,2\n")
	f.Add("app_s,app_c\n1,2\n")
	f.Add("app_s,app_c,less_or_lager,threshold\n0,2,0,3\n")
	f.Fuzz(func(t *testing.T, text string) {
		got, err := readConstraints(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, c := range got {
			if c.App < 0 || c.Neighbour < 0 || c.Threshold < 0 || !(c.Weight > 0) {
				t.Errorf("%q: %v", text, c)
			}
		}
	})
}

func FuzzReadPairs(f *testing.F) {
	f.Add("\"a\",\"b\",\"Total\"\n1,0,1\n1,1,1.8\n", "\"a\",\"b\"\n1,0\n0.9,0.9\n")
	f.Add("a,b\n1,0\n", "a,b\n")
	f.Add("a,b\n1,x\n", "a,b\n1,1\n")
	f.Add("a\n1\n", "a,b\n1,1\n")
	f.Fuzz(func(t *testing.T, counts, rps string) {
		s, err := parsePairs(strings.NewReader(counts), strings.NewReader(rps))
		if err != nil {
			return
		}
		for i, c := range s.Counts {
			for a, k := range c {
				if y := s.RPS[i][a]; (k == 0) != math.IsNaN(y) || y < 0 {
					t.Errorf("%q, %q: %d containers at %v", counts, rps, k, y)
				}
			}
		}
		_, _ = fromSamples(s, 3, ruleOptions{})
	})
}
