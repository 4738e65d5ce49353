package main

import (
	"encoding/csv"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"trainopt/optimizer/run"
	"trainopt/simulator/experiment"
)

func TestComparePlacementJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("compare", "placement", "--methods", "exact,greedy,spread", "--sizes", "40,60", "--nodes", "20", "--groups", "0:5", "--json", "--jobs-out", "all.csv")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var c experiment.Comparison
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatal(err)
	}
	if c.Engine != "placement" || len(c.Also) != 2 || c.Seeds != 6 || !c.WallS.Known() {
		t.Fatalf("engine %s, %d sizes, %d groups", c.Engine, len(c.Also), c.Seeds)
	}
	for _, m := range []string{"mean_rps", "slo_share", "violations", "nodes_used", "solve_s"} {
		if r, ok := c.Also[1].Row("spread", m); !ok || r.N != 6 || !r.Mean.Known() || !r.Lo.Known() {
			t.Errorf("%s of spread: %+v", m, r)
		}
	}
	if p, ok := c.Also[0].Pair("spread", "exact", "mean_rps"); !ok || p.Difference >= 0 || !(p.P < 0.05) {
		t.Errorf("spread against exact: %+v, %v", p, ok)
	}
	f, err := os.Open(filepath.Join(w.dir, "all.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if rows, err := csv.NewReader(f).ReadAll(); err != nil || len(rows) != 1+2*3*6 || rows[0][3] != "mean_rps" {
		t.Errorf("%d placements, %v", len(rows), err)
	}
}

// TestComparePlacementAliases checks that --policies and --seeds are accepted for --methods and --groups, as in other
// comparisons.
func TestComparePlacementAliases(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("batches.csv", "1,1,1,1,1,1,1\n2,2,2,2,2,2,2\n")
	for _, line := range []string{
		"--policies exact,random --seeds 0:1 --sizes 20 --nodes 6", "--methods exact,random --groups 0:1 --batch batches.csv --nodes 6",
		"--methods exact,random --batch batches.csv --nodes 6 --predictor forest --format markdown", "--methods exact --sizes 20 --groups 3 --nodes 6 --max-nodes 5 --objective slo --output page.html",
	} {
		if code, out, errs := w.run(append([]string{"compare", "placement"}, strings.Fields(line)...)...); code != run.CodeDone || errs != "" {
			t.Errorf("%s: exit %d\n%s%s", line, code, out, errs)
		}
	}
	if data, err := os.ReadFile(filepath.Join(w.dir, "page.html")); err != nil || !strings.Contains(string(data), "<!DOCTYPE html>") {
		t.Errorf("%.100s, %v", data, err)
	}
}

// TestComparePlacementFigure checks that published values are printed beside the computed ones.
func TestComparePlacementFigure(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	code, out, errs := w.run("compare", "placement", "--figure", "example", "--methods", "exact,medea,greedy")
	if code != run.CodeDone || errs != "" {
		t.Fatalf("exit %d: %s", code, errs)
	}
	for _, want := range []string{"metis, published   1.160", "exact             1.2214", "table I"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	code, out, _ = w.run("compare", "placement", "--figure", "medium", "--methods", "exact,spread", "--groups", "0:1")
	if code != run.CodeDone || !strings.Contains(out, "metis, published") || !strings.Contains(out, "1.162") {
		t.Errorf("exit %d\n%s", code, out)
	}
	for _, line := range strings.Split(out, "\n") {
		if len([]rune(line)) > 100 {
			t.Errorf("wider than 100: %s", line)
		}
	}
}

func TestComparePlacementRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("rows.csv", "1,2,3\n")
	w.write("table.csv", "n_web,n_db,rps_web,rps_db\n1,0,1,\n0,1,,1\n")
	for line, want := range map[string]string{
		"--methods exactly":                   `"exactly": unknown, want one of`,
		"--methods exact,exact":               "named twice",
		"--methods exact --against spread":    "not among --methods",
		"--groups 5:1":                        "--groups",
		"--groups 100":                        "no group 100",
		"--sizes 0":                           "--sizes",
		"--sizes 40,40":                       "named twice",
		"--sizes many":                        "--sizes",
		"--sizes 40 --batch rows.csv":         "--sizes cannot be combined with --batch",
		"--batch rows.csv":                    "3 counts",
		"--batch nowhere.csv":                 "nowhere.csv",
		"--table table.csv":                   "name a file by --batch",
		"--figure 99":                         `"99": unknown, want one of example`,
		"--figure":                            "--figure",
		"--figure example --sizes 40":         "--sizes cannot be combined with --figure",
		"--figure medium --groups 300":        "no group 300",
		"--processes 0":                       "--processes 0",
		"--format pdf":                        "want one of",
		"--nodes 0":                           "--nodes 0",
		"--figure medium --objective slo":     "--objective cannot be combined with --figure",
		"--methods exact --predictor nothing": "--predictor",
	} {
		code, out, errs := w.run(append([]string{"compare", "placement"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
	if code, _, errs := w.run("compare", "placement", "--sizes", "400", "--nodes", "20"); code != run.CodeInfeasible || !strings.Contains(errs, "400 containers") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
