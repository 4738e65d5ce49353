package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	runpkg "trainopt/optimizer/run"
)

// TestExportToTrackers: runs are exported and imported again; wrong combinations of flags are refused.
func TestExportToTrackers(t *testing.T) {
	w := newWorld(t)
	id := w.past("net", 1)
	w.past("net", 2)
	code, out, errs := w.run("runs", "export", id, "--format", "mlflow")
	if code != runpkg.CodeDone || !strings.HasPrefix(out, id+": "+filepath.Join(w.dir, "mlruns")) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	code, out, errs = w.run("--json", "runs", "export", "--format", "tensorboard", "-o", "tb")
	if code != runpkg.CodeDone || strings.Count(out, `"run_id"`) != 2 {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	if found, _ := os.ReadDir(filepath.Join(w.dir, "tb")); len(found) != 2 {
		t.Errorf("%v", found)
	}
	for want, args := range map[string][]string{
		"the table contains all runs":                    {id},
		"--to requires --format mlflow or tensorboard":   {"--to", "x"},
		"--kind cannot be combined with --format mlflow": {"--format", "mlflow", "--kind", "run"},
		"--experiment requires --format mlflow":          {"--format", "tensorboard", "--experiment", "x"},
		"--to http://x: want a directory":                {"--format", "tensorboard", "--to", "http://x"},
		"--output cannot be combined with --to":          {"--format", "mlflow", "--to", "x", "-o", "y"},
		"--experiment: the name is empty":                {"--format", "mlflow", "--experiment", ""},
		"no id of the 2 runs":                            {"--format", "mlflow", "nothing"},
	} {
		if code, out, errs := w.run(append([]string{"runs", "export"}, args...)...); code != runpkg.CodeUsage || out != "" || !strings.Contains(errs, want) {
			t.Errorf("%v: exit %d: %s%s; want %q", args, code, out, errs, want)
		}
	}
	if code, _, errs := w.run("runs", "export", id, "--format", "mlflow", "--to", "http://127.0.0.1:1"); code != runpkg.CodeOurs || !strings.Contains(errs, "connection refused") {
		t.Errorf("exit %d: %s", code, errs)
	}
	if code, _, errs := newWorld(t).run("runs", "export", "--format", "mlflow"); code != runpkg.CodeUsage || !strings.Contains(errs, "no run in") {
		t.Errorf("exit %d: %s", code, errs)
	}
}

// TestImportStore: a store is imported run by run; runs in it without a training row are noted.
func TestImportStore(t *testing.T) {
	w := newWorld(t)
	for name, text := range map[string]string{"mlruns/1/meta.yaml": "name: x\n", "mlruns/1/a/meta.yaml": "start_time: 1795000000000\n", "mlruns/1/a/metrics/loss": "1795000001000 1 1\n1795000002000 0.5 2\n",
		"mlruns/1/b/meta.yaml": "\n", "mlruns/1/b/metrics/other": "1 1 1\n"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(w.dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		w.write(name, text)
	}
	code, out, errs := w.run("runs", "import", "mlruns")
	if code != runpkg.CodeDone || !strings.Contains(out, "a (mlflow): 2 rows imported") || !strings.Contains(errs, "1 of 2 runs in mlruns has no training row") {
		t.Errorf("exit %d: %s%s", code, out, errs)
	}
	if code, _, errs := w.run("runs", "import", "mlruns/1/b"); code != runpkg.CodeUsage || !strings.Contains(errs, "no data in it") {
		t.Errorf("exit %d: %s", code, errs)
	}
}
