package metis

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"math"
	"strings"
	"testing"

	"trainopt/optimizer/schedule/place"
)

func placed(t *testing.T, method string, p *place.Problem) *Report {
	t.Helper()
	o, err := Place(t.Context(), method, p, Options{Episodes: 40})
	if err != nil {
		t.Fatal(err)
	}
	return &Report{Method: method, Problem: p, Outcome: o, SolveS: 0.0123, What: "some containers", Notes: []string{"a warning"}}
}

func metis(nodes int, batch ...int) *place.Problem {
	return &place.Problem{Types: []place.NodeType{{Name: "node", Count: nodes, Table: place.MetisTable()}}, Batch: batch, Constraints: place.MetisConstraints()}
}

func written(t *testing.T, r *Report, format string) string {
	t.Helper()
	var b bytes.Buffer
	if err := r.Write(&b, format); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestJSON checks the documented fields, and null for unknown values.
func TestJSON(t *testing.T) {
	r := placed(t, "random", metis(6, 2, 2, 2, 2, 2, 2, 2))
	text := written(t, r, "json")
	var got struct {
		Schema     int
		Engine     string
		Method     string
		Placement  [][]int
		MeanRPS    *float64 `json:"mean_rps"`
		SLOShare   *float64 `json:"slo_share"`
		Violations struct {
			Magnitude float64
			Instances int
		}
		NodesUsed int `json:"nodes_used"`
		Bound     *float64
		Gap       *float64
		SolveS    *float64 `json:"solve_s"`
		Warnings  []string
	}
	d := json.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	w, err := r.Problem.Evaluate(r.Placement)
	if err != nil {
		t.Fatal(err)
	}
	if got.Schema != 1 || got.Engine != "placement" || got.Method != "random" || len(got.Placement) != 6 || got.NodesUsed != w.NodesUsed || got.Bound != nil || got.Gap != nil {
		t.Errorf("%+v", got)
	}
	if math.Abs(*got.MeanRPS-w.MeanRPS) > 1e-5 || got.Violations.Instances != w.Instances || got.Violations.Magnitude != w.Magnitude || *got.SolveS != 0.0123 || got.Warnings[0] != "a warning" {
		t.Errorf("%+v, want %+v", got, w)
	}
	for n, counts := range got.Placement {
		for a, k := range counts {
			if k != int(r.Placement[n][a]) {
				t.Errorf("node %d: %v, want %v", n+1, counts, r.Placement[n])
			}
		}
	}
	if !strings.Contains(text, "\n    [") || strings.Contains(text, "[\n      0") {
		t.Errorf("a node is more than a line:\n%.400s", text)
	}
}

// TestText checks that lines have at most 100 columns for any number of apps, and that the text contains the expected
// facts.
func TestText(t *testing.T) {
	apps := make([]string, 14)
	for a := range apps {
		apps[a] = "service-" + strings.Repeat("x", a)
	}
	table, err := place.NewTable(apps, 3, func(counts []uint8, rps []float64) {
		for a := range rps {
			rps[a] = 1 / float64(counts[a]+1)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	many := &place.Problem{Types: []place.NodeType{{Name: "big", Count: 6, Table: table, Cost: 2}, {Name: "small", Count: 5, Table: table}}, Batch: []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}}
	for name, c := range map[string]struct {
		r    *Report
		want []string
	}{
		"metis": {placed(t, "exact", metis(6, 2, 2, 2, 2, 2, 2, 2)), []string{"exact on 6 nodes of 8 containers", "mean RPS           1.2214", "wishes missed      3, by", "12 ms", "redis", "note: a warning"}},
		"empty": {placed(t, "greedy", metis(3, 0, 0, 0, 0, 0, 0, 0)), []string{"nodes used         0 of 3", "mean RPS           –"}},
		"many":  {placed(t, "exact", many), []string{"6 big + 5 small", "× ", "service-xxxxxxxxxxxxx"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := written(t, c.r, "text")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("no %q in\n%s", want, got)
				}
			}
			for _, line := range strings.Split(got, "\n") {
				if len([]rune(line)) > 100 {
					t.Errorf("wider than 100: %s", line)
				}
			}
		})
	}
}

// TestCSV checks for one line per node.
func TestCSV(t *testing.T) {
	r := placed(t, "exact", metis(6, 2, 2, 2, 2, 2, 2, 2))
	lines, err := csv.NewReader(strings.NewReader(written(t, r, "csv"))).ReadAll()
	if err != nil || len(lines) != 7 || lines[0][6] != "n_redis" || lines[1][0] != "1" {
		t.Fatalf("%v, %v", lines, err)
	}
}

// TestPage checks that each container is drawn once for few nodes, and that for many nodes the picture does not
// exceed its size.
func TestPage(t *testing.T) {
	r := placed(t, "metis", metis(6, 2, 2, 2, 2, 2, 2, 2))
	got := written(t, r, "html")
	if n := strings.Count(got, `<rect class="cell s`); n != 2*14 { // wide and narrow
		t.Errorf("%d cells, want 28", n)
	}
	if !strings.Contains(got, "<figcaption>Learning</figcaption>") || strings.Index(got, "The placement") > strings.Index(got, "By app") {
		t.Error("no learning curve, or no picture before the tables")
	}
	if strings.Contains(written(t, placed(t, "exact", metis(6, 2, 2, 2, 2, 2, 2, 2)), "html"), "<figcaption>Learning</figcaption>") {
		t.Error("exact learns nothing")
	}
	v, err := newView(placed(t, "greedy", metis(729, 50, 50, 50, 50, 50, 50, 50)))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(v.picture().SVG), "<rect"); n > 8*len(v.groups)+len(v.groups) {
		t.Errorf("%d cells of %d kinds", n, len(v.groups))
	}
}

func TestWriteRefuses(t *testing.T) {
	r := placed(t, "exact", metis(6, 2, 2, 2, 2, 2, 2, 2))
	if err := r.Write(&bytes.Buffer{}, "pdf"); err == nil || !strings.Contains(err.Error(), "csv, html, json, text") {
		t.Error(err)
	}
	r.Placement = r.Placement[:5]
	if err := r.Write(&bytes.Buffer{}, "text"); err == nil {
		t.Error("a placement on 5 of 6 nodes is written")
	}
}
