package tracker

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// store writes an SQLite database with the tables of MLflow 3 that are read.
func store(t *testing.T, statements ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ml flow.db") // a URL escapes the space
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range append([]string{
		"CREATE TABLE runs (run_uuid VARCHAR(32) PRIMARY KEY, name VARCHAR(250), start_time BIGINT, lifecycle_stage VARCHAR(20), experiment_id INTEGER)",
		"CREATE TABLE metrics (key VARCHAR(250), value DOUBLE, timestamp BIGINT, run_uuid VARCHAR(32), step BIGINT, is_nan BOOLEAN)",
		"CREATE TABLE params (key VARCHAR(250), value VARCHAR(8000), run_uuid VARCHAR(32))",
	}, statements...) {
		if _, err := db.Exec(s); err != nil {
			t.Fatalf("%s: %v", s, err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnpackMLflow(t *testing.T) {
	path := store(t,
		"INSERT INTO runs VALUES ('aa', 'one', 1700000000000, 'active', 7), ('bb', 'gone', 1, 'deleted', 7), ('../out', 'evil', 1, 'active', 7)",
		"INSERT INTO params VALUES ('batch_size', '32', 'aa'), ('../../evil', 'x', 'aa')",
		"INSERT INTO metrics VALUES ('loss', 0.5, 1700000002000, 'aa', 2, 0), ('loss', 1.5, 1700000001000, 'aa', 1, 0), ('system/cpu', 0, 1700000001000, 'aa', 0, 1), ('loss', 9, 1, 'bb', 1, 0)")
	if !isSQLite(path) {
		t.Error("not recognised")
	}
	dir := t.TempDir()
	if err := unpack(path, dir); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"7/aa/meta.yaml": "run_id: \"aa\"\nstart_time: 1700000000000\n", "7/aa/params/batch_size": "32",
		"7/aa/metrics/loss": "1700000001000 1.5 1\n1700000002000 0.5 2\n", "7/aa/metrics/system/cpu": "1700000001000 nan 0\n",
	} {
		if data, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(data) != want {
			t.Errorf("%s: %v, %q, want %q", name, err, data, want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*", "*")); len(left) != 1 {
		t.Errorf("unpacked %q, want one run", left)
	}
	if evil, _ := filepath.Glob(filepath.Join(dir, "..", "*evil*")); len(evil) > 0 {
		t.Errorf("written outside of the directory: %q", evil)
	}
}

func TestUnpackOthers(t *testing.T) {
	if err := unpack(store(t), t.TempDir()); !errors.Is(err, errNoStore) {
		t.Errorf("no runs: %v", err)
	}
	other := filepath.Join(t.TempDir(), "other.db")
	db, err := sql.Open("sqlite", other)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.Exec("CREATE TABLE x (y)"); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := unpack(other, t.TempDir()); !errors.Is(err, errNoStore) {
		t.Errorf("another database: %v", err)
	}
	cut := filepath.Join(t.TempDir(), "cut.db")
	if err := os.WriteFile(cut, []byte("SQLite format 3\x00 and no more"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := unpack(cut, t.TempDir()); err == nil || errors.Is(err, errNoStore) {
		t.Errorf("a damaged database: %v", err)
	}
}
