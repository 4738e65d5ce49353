package main

import (
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// TestSimulatePlacementZones checks that george keeps apps on the first nodes, within the budget, and separates
// containers of the same app.
func TestSimulatePlacementZones(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.place("--method", "george", "--nodes", "10", "--counts", "3,3,3,0,0,0,0", "--zones", "mms=0.8", "--zone-budget", "0", "--apart", "--episodes", "400")
	for n, node := range p.Placement {
		if n >= 8 && node[1] > 0 || node[0] > 1 || node[1] > 1 || node[2] > 1 {
			t.Errorf("node %d holds %v", n, node)
		}
	}
	if code, out, errs := w.run("simulate", "placement", "--method", "george", "--nodes", "6", "--counts", "1,1,1,1,1,1,1", "--zones", "none", "--episodes", "20"); code != run.CodeDone ||
		!strings.Contains(out, "0.0 % of the batch, of at most 5.0 %") {
		t.Errorf("exit %d\n%s%s", code, out, errs)
	}
	w.write("types.csv", "name,count\na,9\nb,9\n")
	for line, want := range map[string]string{
		"--method exact --apart":                    "--apart cannot be combined with --method exact",
		"--method george --zones mms":               `share ""`,
		"--method george --zones nginx=0.5":         `no app "nginx"`,
		"--method george --zones mms=NaN":           `share "NaN"`,
		"--method george --zones mms=0":             `share "0"`,
		"--method george --zones mms=0.1,mms=0.2":   "named twice",
		"--method george --zone-budget 2":           "--zone-budget 2",
		"--method george --zone-budget NaN":         "--zone-budget NaN",
		"--method metis --node-types types.csv":     "divide-conquer has no such restriction",
		"--arrivals types.csv --zones mms=0.5":      "--zones cannot be combined with --arrivals",
		"--method divide-conquer --zone-budget 0.1": "--zone-budget cannot be combined with --method divide-conquer",
	} {
		code, out, errs := w.run(append([]string{"simulate", "placement"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || out != "" || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("%s: exit %d, want 2 and one line with %q\n%s%s", line, code, want, out, errs)
		}
	}
	code, _, errs := w.run("simulate", "placement", "--method", "george", "--nodes", "10", "--counts", "11,0,0,0,0,0,0", "--apart")
	if code != run.CodeInfeasible || strings.Count(errs, "\n") != 1 {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := w.run("compare", "placement", "--methods", "exact", "--apart"); code != run.CodeUsage || !strings.Contains(errs, "george") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
