package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	runpkg "trainopt/optimizer/run"
)

// TestExportToTrackers: runs are exported and imported again; wrong combinations of flags are refused.
func TestExportToTrackers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := w.past("net", 1)
	w.past("net", 2)
	code, out, errs := w.run("runs", "export", id, "--format", "mlflow")
	if code != runpkg.CodeDone || !strings.HasPrefix(out, id+": "+filepath.Join(w.dir, "mlruns")) {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	for range 2 { // the second time into the existing folder
		code, out, errs = w.run("--json", "runs", "export", "--format", "tensorboard", "-o", "tb")
		if code != runpkg.CodeDone || strings.Count(out, `"run_id"`) != 2 {
			t.Fatalf("exit %d: %s%s", code, out, errs)
		}
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
	t.Parallel()
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

// TestImportMLflowDatabase imports the runs of an SQLite store of MLflow, under names in the store.
func TestImportMLflowDatabase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	db, err := sql.Open("sqlite", filepath.Join(w.dir, "mlflow.db"))
	if err != nil {
		t.Fatal(err)
	}
	statements := []string{
		"CREATE TABLE runs (run_uuid TEXT, start_time BIGINT, lifecycle_stage TEXT, experiment_id INTEGER)",
		"CREATE TABLE metrics (key TEXT, value DOUBLE, timestamp BIGINT, run_uuid TEXT, step BIGINT, is_nan BOOLEAN)",
		"CREATE TABLE params (key TEXT, value TEXT, run_uuid TEXT)",
		"INSERT INTO runs VALUES ('aa', 1700000000000, 'active', 1), ('bb', 1700000000000, 'active', 1), ('cc', 1, 'deleted', 1)",
		"INSERT INTO params VALUES ('batch_size', '32', 'aa'), ('epochs', '5', 'aa'), ('model_name', 'resnet18', 'aa')",
	}
	for epoch := range 5 {
		statements = append(statements, fmt.Sprintf("INSERT INTO metrics VALUES ('train_loss', %g, %d, 'aa', %d, 0)", 1/float64(epoch+1), 1700000000000+2000*(epoch+1), epoch+1))
	}
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			t.Fatal(err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	code, out, errs := w.run("runs", "import", "mlflow.db", "--json")
	var got struct {
		Logs []struct {
			Path    string
			Format  string
			Rows    int
			Entries []string
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != runpkg.CodeDone || len(got.Logs) != 1 || got.Logs[0].Path != "mlflow.db/1/aa" || got.Logs[0].Format != "mlflow" || got.Logs[0].Rows != 5 {
		t.Fatalf("exit %d, %v: %s%s", code, err, out, errs)
	}
	if !strings.Contains(errs, "1 of 2 runs in mlflow.db has no training row") {
		t.Errorf("stderr %q", errs)
	}
	if _, out, _ = w.run("runs", "export", "--format", "csv"); !strings.Contains(out, "mlflow.db/1/aa") || !strings.Contains(out, "resnet18") || strings.Contains(out, "optimize-import-") {
		t.Errorf("export:\n%s", out)
	}
	if code, _, errs = w.run("runs", "import", "mlflow.db"); code != runpkg.CodeDone {
		t.Errorf("import it again: exit %d: %s", code, errs)
	}
}

// TestResultsAreJSON checks that lists and one-line results are a JSON object with a schema number.
func TestResultsAreJSON(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	past := w.past("digits", 1)
	for line, key := range map[string]string{
		"simulate rounds --list-policies": "policies", "simulate queue --list-policies": "policies", "simulate spot --list-policies": "policies",
		"simulate placement --list-methods": "methods", "simulate queue --job-count 50 --jobstat size:p99": "value",
		"runs rm " + past: "removed", "init": "file", "config": "settings", "version": "version", "prices list --cloud lambda": "offers",
		"prices show aws:p4d.24xlarge": "on_demand", "cluster jobs": "jobs", "man pages": "pages",
	} {
		checkJSON(t, w, line, key)
	}
}

func checkJSON(t *testing.T, w *world, line, key string) {
	t.Helper()
	code, out, errs := w.run(append(strings.Fields(line), "--json")...)
	var got map[string]any
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != runpkg.CodeDone || got["schema"] != 1.0 || got[key] == nil {
		t.Errorf("%s: exit %d, %v: %.300s%s", line, code, err, out, errs)
	}
	if list, ok := got[key].([]any); ok && (key == "policies" || key == "methods") {
		for _, one := range list {
			if e := one.(map[string]any); len(list) < 5 || e["name"] == "" || strings.Contains(e["name"].(string), " ") || e["text"] == "" {
				t.Errorf("%s: entry %v of %d", line, e, len(list))
			}
		}
	}
}
