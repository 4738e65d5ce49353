package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"trainopt/optimizer/run"
)

// profileSpec describes two programs that count by the clock.
const profileSpec = `warmup: 50ms
window: 800ms
apps:
- name: web
  command: 'n=0; while :; do n=$((n+1)); echo done $n; sleep 0.02; done'
  operations: {output: 'done (\d+)'}
- name: batch
  command: 'n=0; trap "echo did \$n; exit" INT; while :; do n=$((n+1)); sleep 0.02; done'
  operations: {end: 'did (\d+)'}
`

// any precision and any foreign load, so that three cycles suffice on a busy machine.
var quick = []string{"--precision", "100%", "--max-foreign", "100%"}

// Two programs are measured, the table is taken by simulate placement, and a placement is run for real.
func TestProfileColocateAndPlace(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("apps.yaml", profileSpec)
	colocate := func(args ...string) string {
		t.Helper()
		code, out, errs := w.run(append(append([]string{"profile", "colocate", "--spec", "apps.yaml", "--capacity", "2", "--output", "table.csv"}, quick...), args...)...)
		if code != run.CodeDone {
			t.Fatalf("exit %d: %s", code, errs)
		}
		return out
	}
	// Singles by definition and one pair.
	var summary struct{ Patterns, Measured, Missing int }
	if err := json.Unmarshal([]byte(colocate("--sample", "60%", "--json")), &summary); err != nil || summary.Patterns != 5 || summary.Measured != 3 || summary.Missing != 0 {
		t.Fatalf("%v: %+v", err, summary)
	}
	p := w.place("--table", "table.csv", "--counts", "2,2", "--nodes", "2")
	if text := strings.Join(p.Warnings, "\n"); !strings.Contains(text, "table.csv contains 3 of 5 patterns") {
		t.Errorf("estimates are not marked: %q", text)
	}
	first, err := os.ReadFile(filepath.Join(w.dir, "table.csv"))
	if err != nil {
		t.Fatal(err)
	}
	if out := colocate(); !strings.Contains(out, "5 of 5 patterns of 2 apps in table.csv") {
		t.Errorf("%s", out)
	}
	second, _ := os.ReadFile(filepath.Join(w.dir, "table.csv"))
	for _, line := range strings.Split(strings.TrimSpace(string(first)), "\n") {
		if !strings.Contains(string(second), line+"\n") {
			t.Errorf("measured again: %s", line)
		}
	}
	if p = w.place("--table", "table.csv", "--counts", "2,2", "--nodes", "2"); len(p.Warnings) > 0 && strings.Contains(strings.Join(p.Warnings, "\n"), "estimate") {
		t.Errorf("%q", p.Warnings)
	}
	code, out, errs := w.run(append([]string{"profile", "place", "--spec", "apps.yaml", "--table", "table.csv", "--nodes", "2", "--counts", "1,2", "--json", "--quiet"}, quick...)...)
	var got struct {
		Placements []struct {
			Method    string
			Nodes     [][]int
			Predicted *float64 `json:"predicted_rps"`
			Measured  *float64 `json:"measured_rps"`
			Lo        *float64 `json:"measured_lo"`
		}
		Gain      *float64
		Predicted *float64 `json:"predicted_gain"`
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != run.CodeDone || len(got.Placements) != 2 || got.Gain == nil || got.Predicted == nil {
		t.Fatalf("exit %d, %v: %s %s", code, err, out, errs)
	}
	for line := range strings.Lines(errs) { // on a busy machine
		if !strings.HasSuffix(line, "; it is measured again later\n") {
			t.Errorf("an error of the measurement: %s", line)
		}
	}
	for i, name := range []string{"exact", "round-robin"} {
		a := got.Placements[i]
		if a.Method != name || len(a.Nodes) != 2 || a.Predicted == nil || a.Measured == nil || a.Lo == nil || !(*a.Measured > 0) {
			t.Errorf("%+v", a)
		}
	}
}

func TestProfileInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("apps.yaml", profileSpec)
	w.signals <- os.Interrupt
	code, _, errs := w.run("profile", "colocate", "--spec", "apps.yaml", "--capacity", "2", "--output", "table.csv")
	if code != run.CodeInterrupt || !strings.Contains(errs, "stopped by Ctrl-C with 3 patterns not measured; the same command continues") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// A share of the patterns is tried on a complete table without measuring.
func TestProfileReplay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("apps.yaml", profileSpec)
	head := "n_web,n_batch,cycles,foreign,steal,flags"
	for _, app := range []string{"web", "batch"} {
		for _, c := range []string{"rps", "cpu", "wall"} {
			head += "," + c + "_" + app + "," + c + "_lo_" + app + "," + c + "_hi_" + app
		}
		head += ",alone_" + app
	}
	value := ",0.5,0.4,0.6,1,0.9,1.1,0.5,0.4,0.6,10"
	blank := ",,,,,,,,,,"
	w.write("full.csv", head+"\n2,0,3,0,0,"+value+blank+"\n0,2,3,0,0,"+blank+value+"\n1,1,3,0,0,"+value+value+"\n")
	code, out, errs := w.run("profile", "colocate", "--spec", "apps.yaml", "--capacity", "2", "--output", "part.csv", "--replay", "full.csv", "--sample", "80%")
	if code != run.CodeDone || !strings.Contains(out, "4 of 5 patterns") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs = w.run("profile", "colocate", "--spec", "apps.yaml", "--capacity", "3", "--output", "x.csv", "--replay", "full.csv"); code == run.CodeDone || !strings.Contains(errs, "it is not among the replayed rows") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

func TestProfileRefusals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("apps.yaml", profileSpec)
	w.write("bad.yaml", "apps:\n- name: a\n  comand: x\n")
	w.write("other.csv", "n_a,rps_a\n1,1\n")
	full := "--spec apps.yaml --capacity 2 --output t.csv "
	for line, want := range map[string]string{
		"":                             "name what to measure: colocate, place",
		"programs":                     `profile "programs": unknown, want colocate or place`,
		"colocate":                     "--spec is required",
		"colocate --spec nowhere.yaml": "nowhere.yaml: no such file",
		"colocate --spec bad.yaml":     `line 3: unknown key "comand": nearest known is "command"`,
		"colocate --spec apps.yaml":    "--output is required",
		"colocate --spec apps.yaml --output t.csv":                           "--capacity 0: want 1 to 255",
		"colocate " + full + "--sample 0":                                    `--sample "0": want a share above 0`,
		"colocate " + full + "--sample 140%":                                 "at most 100%",
		"colocate " + full + "--precision no":                                `--precision "no"`,
		"colocate " + full + "--max-foreign -1":                              "--max-foreign",
		"colocate " + full + "--timeout soon":                                "--timeout",
		"colocate " + full + "--timeout 0s":                                  "--timeout",
		"colocate " + full + "--replay nowhere":                              "--replay: read nowhere: no such file",
		"colocate " + full + "--output other.csv":                            "--output: read other.csv: it has an app a, the specification has web, batch",
		"colocate " + full + "extra":                                         "extra",
		"place --spec apps.yaml":                                             "--table is required",
		"place --spec apps.yaml --table t.csv":                               "--nodes 0: want at least 1",
		"place --spec apps.yaml --table t --nodes 1 --counts 1":              "want 2 numbers",
		"place --spec apps.yaml --table t --nodes 1 --counts 1,x":            "whole numbers",
		"place --spec apps.yaml --table t --nodes 1 --counts 1,1":            "--table: read t: no such file",
		"place --spec apps.yaml --table t --nodes 1 --counts 1,1 --counts 2": "want 2 numbers",
		"place --spec apps.yaml --table t --nodes 1 --counts 1,1 --orders 0": "--orders 0: want 1 to 1000",
	} {
		code, _, errs := w.run(append([]string{"profile"}, strings.Fields(line)...)...)
		if code != run.CodeUsage || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("profile %s: exit %d: %s", line, code, errs)
		}
	}
	// A table that cannot be written is an error before anything is measured.
	if code, _, errs := w.run("profile", "colocate", "--spec", "apps.yaml", "--capacity", "2", "--output", "nowhere/t.csv"); code != run.CodeOurs || errs != "optimize: write table nowhere/t.csv: no such file or directory\n" {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, out, _ := w.run("profile", "colocate", "--example"); code != run.CodeDone || !slices.Contains(strings.Split(out, "\n"), "apps:") {
		t.Errorf("exit %d: %s", code, out)
	}
}
