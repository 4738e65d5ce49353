package metis

import (
	"math"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/place"
)

func TestFigures(t *testing.T) {
	for name := range figures {
		f, err := FindFigure(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range f.Published {
			if len(l.Values) != len(f.settings) {
				t.Errorf("%s: %d values of %s, %d settings", name, len(l.Values), l.Method, len(f.settings))
			}
			if _, err := Find(l.Method); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, m := range f.Methods {
			if _, err := Find(m); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if f.About == "" || f.XName == "" || !strings.Contains(FigureNames(), "  "+name+" ") {
			t.Errorf("%s: %+v", name, f)
		}
		if f.settings[0].sample > 0 {
			continue // forests take a second each
		}
		c, err := f.Comparison(FigureOptions{Groups: []uint64{0, 1}})
		if err != nil || len(c.Scenarios) != len(f.settings) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := FindFigure("8"); err == nil || !strings.Contains(err.Error(), "medium") {
		t.Error(err)
	}
	f, _ := FindFigure("medium")
	if _, err := f.Comparison(FigureOptions{Groups: []uint64{100}}); err == nil {
		t.Error("group 100 of 100 is taken")
	}
}

// TestExample checks the six-node example: its optimum is 1.2214 with 3 violations, and Medea's optimum has the
// published 4 violations.
func TestExample(t *testing.T) {
	f, _ := FindFigure("example")
	c, err := f.Comparison(FigureOptions{Methods: []string{"exact", "medea", "greedy"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Beside(c, r)
	rps, _ := r.Row("exact", "mean_rps")
	violated, _ := r.Row("exact", "violated")
	magnitude, _ := r.Row("medea", "violations")
	if math.Abs(float64(rps.Mean)-1.2214) > 5e-5 || violated.Mean != 3 || magnitude.Mean != 4 {
		t.Errorf("exact %v with %v violated, Medea misses %v", rps.Mean, violated.Mean, magnitude.Mean)
	}
	if text := tableText(r); !strings.Contains(text, "metis, published 1.160") || !strings.Contains(text, "exact 1.2214") || !strings.Contains(text, "medea, published 4") {
		t.Errorf("%s", text)
	}
}

func tableText(r *Result) string {
	var b strings.Builder
	for _, table := range r.Tables {
		for _, line := range table.Lines {
			b.WriteString(strings.Join(line, " ") + "\n")
		}
	}
	return b.String()
}

// TestSLO checks the results of the first groups for the share of containers as objective.
func TestSLO(t *testing.T) {
	f, _ := FindFigure("slo")
	c, err := f.Comparison(FigureOptions{Groups: []uint64{0, 1, 2, 3, 4}, Methods: []string{"exact", "spread"}})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.Beside(c, r)
	for i, least := range []float64{0.9999, 0.87, 0.6} {
		row, ok := r.Each[i].Row("exact", "slo_share")
		if !ok || float64(row.Mean) < least || row.N != 5 {
			t.Errorf("target %v: %+v, want at least %v", f.settings[i].x, row, least)
		}
	}
	if len(r.Charts) != 1 || len(r.Charts[0].Series) != 5 || !r.Fold {
		t.Errorf("%d charts", len(r.Charts))
	}
}

// TestTold checks that methods use the told throughputs, and metrics the true table.
func TestTold(t *testing.T) {
	f, _ := FindFigure("example")
	flat := func(truth *place.Table) (*place.Table, error) {
		return place.NewTable(truth.Apps(), truth.Capacity(), func(_ []uint8, rps []float64) {
			for a := range rps {
				rps[a] = 1
			}
		})
	}
	c, err := f.Comparison(FigureOptions{Methods: []string{"exact"}, Told: flat})
	if err != nil {
		t.Fatal(err)
	}
	r, err := c.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	believed, _ := r.Row("exact", "predicted_rps")
	is, _ := r.Row("exact", "mean_rps")
	if believed.Mean != 1 || is.Mean > 1.2 {
		t.Errorf("believed %v, is %v", believed.Mean, is.Mean)
	}
}
