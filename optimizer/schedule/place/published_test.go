package place

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"
)

// published returns the path of a file of the published data and skips the test if the checkout does not contain it.
func published(t testing.TB, path string) string {
	t.Helper()
	full := filepath.Join("../../../../shared/data/metis", path)
	if _, err := os.Stat(full); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	return full
}

// sixNodes returns the paper's example: two containers of each service on six nodes.
func sixNodes() *Problem {
	return &Problem{
		Types:       []NodeType{{Count: 6, Table: MetisTable()}},
		Batch:       []int{2, 2, 2, 2, 2, 2, 2},
		Constraints: MetisConstraints(),
	}
}

// Placements of the paper's figure 3 and table I (0.93 with 4 of 468 violations and 1.16 with 6), and the optimum.
func TestEvaluatePublishedExample(t *testing.T) {
	for name, c := range map[string]struct {
		at        Placement
		rps       float64
		instances int
	}{
		"medea": {Placement{
			{1, 0, 0, 0, 0, 0, 0}, {1, 0, 0, 0, 0, 1, 0}, {0, 0, 0, 0, 0, 0, 2}, {0, 2, 0, 1, 0, 0, 0}, {0, 0, 1, 0, 2, 0, 0}, {0, 0, 1, 1, 0, 1, 0},
		}, 0.9404, 4},
		"metis": {Placement{
			{1, 1, 0, 0, 0, 0, 1}, {1, 1, 0, 0, 0, 0, 1}, {0, 0, 0, 0, 1, 0, 0}, {0, 0, 0, 1, 0, 0, 0}, {0, 0, 0, 0, 1, 2, 0}, {0, 0, 2, 1, 0, 0, 0},
		}, 1.1730, 6},
		"best": {Placement{
			{1, 2, 0, 0, 0, 0, 1}, {1, 0, 0, 0, 0, 0, 1}, {0, 0, 2, 0, 0, 0, 0}, {0, 0, 0, 2, 0, 0, 0}, {0, 0, 0, 0, 1, 1, 0}, {0, 0, 0, 0, 1, 1, 0},
		}, 1.2214, 3},
	} {
		t.Run(name, func(t *testing.T) {
			w, err := sixNodes().Evaluate(c.at)
			if err != nil {
				t.Fatal(err)
			}
			if math.Abs(w.MeanRPS-c.rps) > 5e-5 || w.Instances != c.instances || w.NodesUsed != 6 || w.Vacant != 0 {
				t.Errorf("got %+v, want RPS %v with %d violated", w, c.rps, c.instances)
			}
		})
	}
}

// A balanced placement of the first batches has the throughput, violations and served shares of the reference
// results.
func TestEvaluateSpreadAsPublished(t *testing.T) {
	f, err := os.Open(published(t, "expected/results_groups_0-4.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) float64 { x, _ := strconv.ParseFloat(s, 64); return x }
	checked := 0
	for _, row := range rows {
		if row[4] != "rr" || row[0] == "3000" {
			continue
		}
		size, group, nodes := int(number(row[0])), int(number(row[1])), int(number(row[2]))
		batches, err := MetisBatches(size)
		if err != nil {
			t.Fatal(err)
		}
		p := &Problem{Types: []NodeType{{Count: nodes, Table: MetisTable()}}, Batch: batches[group], Constraints: MetisConstraints()}
		at := make(Placement, nodes)
		for n := range at {
			at[n] = make([]uint8, 7)
		}
		n := 0
		for a, k := range p.Batch {
			for range k {
				at[n%nodes][a]++
				n++
			}
		}
		w, err := p.Evaluate(at)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(w.MeanRPS-number(row[6])) > 1.5e-6 || w.Magnitude != number(row[7]) || float64(w.Instances) != number(row[8]) ||
			math.Abs(w.SLOShare-number(row[10])) > 1e-6 || float64(w.NodesUsed) != number(row[12]) {
			t.Errorf("%d containers, group %d: got %+v, want %v", size, group, w, row)
		}
		checked++
	}
	if checked != 25 {
		t.Errorf("%d groups checked, want 25", checked)
	}
}

// The embedded table equals the measurements to half a millionth and lies on the same side of every SLO. Both file
// formats are equal.
func TestMetisTableAsMeasured(t *testing.T) {
	for _, name := range []string{"npz", "csv"} {
		s, err := ReadSamples(published(t, "datasets/0905-6435results-normed."+name))
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(s.Apps, MetisApps()) || len(s.Counts) != 6435 {
			t.Fatalf("%s: apps %q, %d rows", name, s.Apps, len(s.Counts))
		}
		want, err := s.Table(8)
		if err != nil {
			t.Fatal(err)
		}
		got := MetisTable()
		for p := range want.Patterns() {
			for a, x := range want.RPS(p) {
				y := got.RPS(p)[a]
				if math.Abs(x-y) > 0.5001e-6 || (x >= 0.9) != (y >= 0.9) || (x >= 0.95) != (y >= 0.95) || (x >= 1) != (y >= 1) {
					t.Fatalf("%s: %v: %s has %v, measured %v", name, got.Counts(p), got.Apps()[a], y, x)
				}
			}
		}
	}
}

func TestMetisBatchesAsPublished(t *testing.T) {
	for _, size := range []int{200, 300, 400, 1000, 2000} {
		for _, name := range []string{"npz", "csv"} {
			want, err := ReadBatches(published(t, fmt.Sprintf("batches/batch_set_%d.%s", size, name)), nil)
			if err != nil {
				t.Fatal(err)
			}
			if got, err := MetisBatches(size); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%d containers: %v; batches differ from %s", size, err, name)
			}
		}
	}
	_, err := ReadBatches(published(t, "batches/batch_set_3000.npz"), nil)
	if err == nil || !strings.Contains(err.Error(), "row 1 has 6 containers, not the 3000") {
		t.Errorf("the broken file: %v", err)
	}
	if b, err := ReadBatches(published(t, "batches/testbed_batch_set_200.csv"), nil); err != nil || len(b) != 100 {
		t.Errorf("without a head: %d rows, %v", len(b), err)
	}
}

// Three sample files of the paper are incomplete; the numbers of distinct patterns match the notes on the data.
func TestSamplesWithHoles(t *testing.T) {
	for name, unique := range map[string]int{"0905-2008results-median-normed": 1324, "1212-322results-normed": 316, "1212-5792results-normed": 3791} {
		s, err := ReadSamples(published(t, "datasets/"+name+".npz"))
		if err != nil {
			t.Fatal(err)
		}
		distinct := map[string]bool{}
		for _, c := range s.Counts {
			distinct[string(c)] = true
		}
		if len(distinct) != unique {
			t.Errorf("%s: %d distinct patterns, want %d", name, len(distinct), unique)
		}
		if _, err := s.Table(8); err == nil || !strings.Contains(err.Error(), "of 6435 patterns are not among the samples") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
