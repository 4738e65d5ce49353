package main

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// placed is the JSON output of simulate placement.
type placed struct {
	Schema     int
	Engine     string
	Method     string
	Placement  [][]int
	MeanRPS    float64  `json:"mean_rps"`
	SLOShare   float64  `json:"slo_share"`
	NodesUsed  int      `json:"nodes_used"`
	Bound      *float64 `json:"bound"`
	Gap        *float64
	SolveS     *float64 `json:"solve_s"`
	Violations struct {
		Magnitude float64
		Instances int
	}
	Warnings     []string
	PredictedRPS *float64 `json:"predicted_rps"`
	Counts       []int
	Cost         float64
	Curve        []map[string]any
}

func (w *world) place(args ...string) placed {
	w.t.Helper()
	code, out, errs := w.run(append([]string{"simulate", "placement", "--json"}, args...)...)
	if code != run.CodeDone || errs != "" {
		w.t.Fatalf("%v: exit %d: %s", args, code, errs)
	}
	var p placed
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		w.t.Fatal(err)
	}
	return p
}

// TestSimulatePlacementJSON checks that without any file the first batch of Metis is placed with the throughput proved
// to be optimal.
func TestSimulatePlacementJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.place()
	if p.Schema != 1 || p.Engine != "placement" || p.Method != "exact" || len(p.Placement) != 81 || len(p.Placement[0]) != 7 || p.Warnings == nil {
		t.Errorf("%+v", p)
	}
	if math.Abs(p.MeanRPS-1.24454) > 2e-4 || math.Abs(*p.Bound-1.244545) > 1e-5 || *p.Gap > 1e-3 || p.SolveS == nil || p.PredictedRPS != nil {
		t.Errorf("mean RPS %v, bound %v", p.MeanRPS, *p.Bound)
	}
	total := make([]int, 7)
	for _, node := range p.Placement {
		for a, k := range node {
			total[a] += k
		}
	}
	if want := []int{27, 32, 12, 37, 30, 34, 28}; !slices.Equal(total, want) || !slices.Equal(p.Counts, want) {
		t.Errorf("%v placed", total)
	}
	q := w.place("--counts", "27,32,12,37,30,34,28", "--nodes", "81", "--method", "round-robin")
	if q.Bound != nil || q.Gap != nil || math.Abs(q.MeanRPS-0.9596) > 5e-4 {
		t.Errorf("round robin: %+v", q.MeanRPS)
	}
	if large := w.place("--batch", "metis:1000:0"); len(large.Placement) != 729 || large.MeanRPS < 1.24 {
		t.Errorf("%d nodes, mean RPS %v", len(large.Placement), large.MeanRPS)
	}
}

// solved matches the values of a placement that depend on the machine.
var solved = regexp.MustCompile(`"(solve_s|seconds)": [^,\n]*`)

func TestSimulatePlacementFormats(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	base := []string{"simulate", "placement", "--counts", "2,2,2,2,2,2,2", "--nodes", "6", "--method", "metis", "--episodes", "40", "--seed", "5"}
	for file, want := range map[string]string{"r.html": "<figcaption>Learning</figcaption>", "r.csv": "node,type,containers", "r.json": `"schema": 1`, "r.txt": "seed 5"} {
		if code, out, errs := w.run(append(base, "--output", file, "--nodes-out", "nodes.csv")...); code != run.CodeDone || out != "" {
			t.Fatalf("%s: exit %d: %s%s", file, code, out, errs)
		}
		for name, want := range map[string]string{file: want, "nodes.csv": "n_redis,n_mms"} {
			if data, err := os.ReadFile(filepath.Join(w.dir, name)); err != nil || !strings.Contains(string(data), want) {
				t.Errorf("%s lacks %q: %v\n%.300s", name, want, err, data)
			}
		}
	}
	_, first, _ := w.run(append(base, "--json")...)
	_, second, _ := w.run(append(base, "--json")...)
	if first == "" || solved.ReplaceAllString(first, "") != solved.ReplaceAllString(second, "") {
		t.Error("the same seed gives other bytes")
	}
	code, out, errs := w.run("simulate", "placement", "--methods")
	if code != run.CodeDone || errs != "" || !strings.Contains(out, "medea-best\n") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
}

// TestSimulatePlacementAims checks the effects of objectives and limits.
func TestSimulatePlacementAims(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	rps := w.place()
	packed := w.place("--objective", "vacant")
	if packed.NodesUsed != 25 {
		t.Errorf("%d nodes for 200 containers of 8 a node", packed.NodesUsed)
	}
	served := w.place("--objective", "slo")
	if served.SLOShare <= rps.SLOShare+0.1 {
		t.Errorf("served %v, without asking for it %v", served.SLOShare, rps.SLOShare)
	}
	kind := w.place("--objective", "violations")
	bounded := w.place("--max-violations", "70", "--max-nodes", "79")
	if kind.Violations.Magnitude > 70 || bounded.Violations.Magnitude > 70 || bounded.NodesUsed > 79 || bounded.MeanRPS >= rps.MeanRPS {
		t.Errorf("violations %v; with limits %+v", kind.Violations, bounded)
	}
	both := w.place("--objective", "rps=1,vacant=0.5")
	if both.NodesUsed >= rps.NodesUsed || both.MeanRPS <= packed.MeanRPS {
		t.Errorf("%d nodes, mean RPS %v", both.NodesUsed, both.MeanRPS)
	}
}

// TestSimulatePlacementNodeTypes checks that fast nodes get the containers with the largest gain and that cost is
// respected.
func TestSimulatePlacementNodeTypes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("nodes.csv", "name,count,speed,cost,capacity\nfast,3,2,5,8\nslow,6,,1,4\n")
	p := w.place("--node-types", "nodes.csv", "--counts", "2,2,2,2,2,2,2")
	if len(p.Placement) != 9 || p.MeanRPS < 1.5 || p.Cost < 10 {
		t.Errorf("mean RPS %v, cost %v", p.MeanRPS, p.Cost)
	}
	if q := w.place("--node-types", "nodes.csv", "--counts", "2,2,2,2,2,2,2", "--max-cost", "7"); q.Cost > 7 {
		t.Errorf("cost %v", q.Cost)
	}
	if q := w.place("--node-types", "nodes.csv", "--counts", "2,2,2,2,2,2,2", "--objective", "cost"); q.Cost != 4 {
		t.Errorf("cost %v of 14 containers on nodes of 4", q.Cost)
	}
}

// TestSimulatePlacementData checks that tables, samples, load and constraints are read from files.
func TestSimulatePlacementData(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	table := "n_web,n_db,rps_web,rps_db\n1,0,1,\n0,1,,1\n2,0,0.4,\n1,1,1.5,0.9\n0,2,,0.5\n"
	w.write("table.csv", table)
	w.write("batches.csv", "web,db\n1,1\n2,2\n")
	p := w.place("--table", "table.csv", "--batch", "batches.csv:1", "--nodes", "2")
	if len(p.Placement[0]) != 2 || math.Abs(p.MeanRPS-1.2) > 1e-9 || p.Placement[0][0] != 1 {
		t.Errorf("%+v", p)
	}
	w.write("existing.csv", "2,0\n0,0\n0,0\n")
	p = w.place("--table", "table.csv", "--counts", "0,1", "--nodes", "3", "--existing", "existing.csv")
	if p.Placement[0][0] != 2 || math.Abs(p.MeanRPS-1.8/3) > 1e-6 {
		t.Errorf("%+v", p)
	}
	w.write("wishes.csv", "app_s,app_c,less_or_lager,threshold\n1,2,0,0\n")
	if p = w.place("--table", "table.csv", "--counts", "1,1", "--nodes", "2", "--constraints", "wishes.csv", "--max-violations", "0"); p.MeanRPS != 1 {
		t.Errorf("a hard wish is missed: %+v", p)
	}
	if p = w.place("--table", "table.csv", "--counts", "1,1", "--nodes", "2", "--capacity", "1"); p.MeanRPS != 1 {
		t.Errorf("a node of 1 holds %+v", p.Placement)
	}
	w.write("part.csv", strings.Replace(table, "1,1,1.5,0.9\n", "", 1))
	if p = w.place("--table", "part.csv", "--counts", "1,1", "--nodes", "2", "--predictor", "forest"); len(p.Warnings) == 0 || !strings.Contains(p.Warnings[0], "forest") {
		t.Errorf("%+v", p.Warnings)
	}
	if p = w.place("--table", "table.csv", "--counts", "1,1", "--nodes", "2", "--predictor", "forest:part.csv"); p.PredictedRPS == nil {
		t.Error("nothing is predicted")
	}
	if code, out, _ := w.run("simulate", "placement", "--table", "table.csv", "--counts", "1,1", "--nodes", "2"); code != run.CodeDone || !strings.Contains(out, "web") {
		t.Errorf("exit %d\n%s", code, out)
	}
}

// TestSimulatePlacementArrivals checks that containers depart in order of arrival and that refused containers are
// counted.
func TestSimulatePlacementArrivals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("events.csv", "app,change\nredis,+3\nmms,1\nredis,-2\nisr,+20\nisr,−1\nchecksum,-1\n")
	p := w.place("--arrivals", "events.csv", "--nodes", "2", "--migrate", "2")
	if !slices.Equal(p.Counts, []int{1, 1, 0, 0, 0, 0, 13}) || p.Method != "greedy" {
		t.Errorf("%+v", p)
	}
	if text := strings.Join(p.Warnings, "\n"); !strings.Contains(text, "6 containers were refused") || !strings.Contains(text, "ignored departures of absent containers: 1") {
		t.Errorf("%s", text)
	}
	w.write("existing.csv", "0,0,0,0,0,0,1\n0,0,0,0,0,0,0\n")
	w.write("leave.csv", "isr,-1\n")
	if p = w.place("--arrivals", "leave.csv", "--nodes", "2", "--existing", "existing.csv"); p.NodesUsed != 0 {
		t.Errorf("%+v", p.Placement)
	}
}

func TestSimulatePlacementRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("table.csv", "n_web,n_db,rps_web,rps_db\n1,0,1,\n0,1,,1\n")
	w.write("missing.csv", "n_web,n_db,rps_web,rps_db\n1,0,1,\n1,1,1,1\n")
	w.write("two.csv", "n_web,n_db,rps_web,rps_db\n1,0,1\n")
	w.write("damaged.npz", "PK nothing")
	w.write("empty.csv", "")
	w.write("rows.csv", "1,2,3\n")
	w.write("load.csv", "9,0,0,0,0,0,0\n")
	w.write("events.csv", "redis,+1\nnginx,+1\n")
	w.write("zero.csv", "redis,0\n")
	w.write("types.csv", "name,count,colour\na,1,red\n")
	w.write("nocount.csv", "name\na\n")
	w.write("swapped.csv", "n_db,n_web,rps_db,rps_web\n1,0,1,\n0,1,,1\n")
	w.write("mixed.csv", "name,count,table\na,1,table.csv\nb,1,swapped.csv\n")
	w.write("minus.csv", "name,count\na,-1\n")
	w.write("wishes.csv", "app_s,app_c,less_or_lager,threshold\n9,1,0,2\n")
	w.write("model.bin", "nothing")
	for line, want := range map[string]string{
		"now":                     `unexpected argument "now"`,
		"--method exactly":        `"exactly": unknown, want one of`,
		"--nodes 0":               "--nodes 0",
		"--nodes many":            "--nodes",
		"--capacity 0":            "--capacity 0",
		"--capacity 9":            "patterns of up to 8 containers, not of 9",
		"--counts 1,2":            "2 counts: the table has 7 apps: redis",
		"--counts 1,2,3,-4,5,6,7": "not negative",
		"--counts 1,2,3,x,5,6,7":  "whole numbers",
		"--counts 1,1,1,1,1,1,1 --batch rows.csv":         "--counts cannot be combined with --batch",
		"--batch rows.csv":                                "3 counts",
		"--batch rows.csv:1":                              "no row 1",
		"--batch rows.csv:x":                              "FILE:ROW",
		"--batch nowhere.csv":                             "nowhere.csv",
		"--batch empty.csv":                               "no counts in the file",
		"--batch damaged.npz":                             "damaged.npz",
		"--batch metis":                                   "metis:SIZE:GROUP",
		"--batch metis:200:100":                           "group from 0 to 99",
		"--batch metis:-3:0":                              "-3",
		"--table nowhere.csv":                             "nowhere.csv",
		"--table damaged.npz":                             "damaged.npz",
		"--table empty.csv":                               "empty.csv",
		"--table two.csv":                                 "two.csv",
		"--table missing.csv --counts 1,1":                "not among the samples",
		"--table table.csv":                               "--counts or --batch",
		"--table table.csv --constraints metis":           "--constraints: metis",
		"--table table.csv --counts 1,1 --method metis":   "--agent",
		"--capacity 4 --method metis":                     "--agent",
		"--predictor magic":                               "measured, forest",
		"--predictor forest:nowhere":                      "nowhere",
		"--predictor forest:table.csv":                    "has apps web, db",
		"--slo 0":                                         "--slo 0",
		"--slo NaN":                                       "--slo NaN",
		"--existing load.csv --nodes 1":                   "node 1: more containers than its capacity of 8",
		"--existing load.csv":                             "1 rows for 81 nodes",
		"--existing rows.csv --nodes 1":                   "3 counts",
		"--constraints nowhere":                           "nowhere",
		"--constraints wishes.csv":                        "constraint 1 is of apps 9",
		"--constraints rows.csv":                          "rows.csv",
		"--constraints none --method medea":               "there are none",
		"--constraints none --objective violations":       "no constraints",
		"--objective speed":                               "want rps, slo",
		"--objective rps=0":                               "weight other than 0",
		"--objective rps,rps":                             "each once",
		"--objective cost":                                "no node has a cost",
		"--objective slo --method spread":                 "--objective cannot be combined with --method spread",
		"--max-nodes 3 --method metis":                    "--max-nodes cannot be combined with --method metis",
		"--max-violations -1":                             "not negative",
		"--min-slo 2":                                     "0 to 1",
		"--max-nodes 0":                                   "--max-nodes 0",
		"--max-cost -3":                                   "--max-cost",
		"--episodes 0 --method metis":                     "--episodes 0",
		"--episodes 5":                                    "--episodes cannot be combined with --method exact",
		"--agent model.bin --method metis":                "model.bin",
		"--agent nowhere --method metis":                  "nowhere",
		"--node-types types.csv":                          `"colour"`,
		"--node-types nocount.csv":                        "count",
		"--node-types minus.csv":                          "line 2",
		"--node-types mixed.csv --counts 1,1":             "line 3: the table has apps db, web, the first has web, db",
		"--node-types empty.csv":                          "empty.csv",
		"--node-types minus.csv --nodes 3":                "--nodes cannot be combined with --node-types",
		"--arrivals events.csv":                           `line 2: no app "nginx"`,
		"--arrivals zero.csv":                             "line 1",
		"--arrivals empty.csv":                            "no lines",
		"--arrivals events.csv --method exact":            "placed by greedy",
		"--arrivals events.csv --counts 1,1,1,1,1,1,1":    "--counts cannot be combined with --arrivals",
		"--migrate 3":                                     "--migrate requires --arrivals",
		"--seed -1":                                       "--seed",
		"--format pdf":                                    "want one of csv, html, json, text",
		"--metod exact":                                   "nearest known is --method",
		"--counts 999999999999999999999,1,1,1,1,1,1":      "whole numbers",
		"--counts 1,1,1,1,1,1,1 --method vanilla-rl,more": "unknown, want one of",
	} {
		code, out, errs := w.run(append([]string{"simulate", "placement"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
	for line, want := range map[string]string{
		"--nodes 24":                          "200 containers: 24 nodes hold 192",
		"--max-nodes 20":                      "no placement keeps the limits",
		"--max-violations 0 --nodes 30":       "no placement keeps the limits",
		"--method greedy --min-slo 1":         "no placement keeps the limits",
		"--method random --nodes 10":          "10 nodes hold 80",
		"--counts 9,0,0,0,0,0,0 --nodes 1":    "9 containers: 1 node holds 8",
		"--batch metis:400:3 --nodes 12":      "400 containers",
		"--min-slo 0.99 --max-violations 0.5": "no placement keeps the limits",
	} {
		code, out, errs := w.run(append([]string{"simulate", "placement"}, strings.Fields(line)...)...)
		if code != run.CodeInfeasible || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 6 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
}
