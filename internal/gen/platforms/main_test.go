package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTableIsMadeOfThePublishedFiles checks that the embedded table equals the generator's output.
func TestTableIsMadeOfThePublishedFiles(t *testing.T) {
	const data = "../../../../shared/data/hdeeprm"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	out := filepath.Join(t.TempDir(), "tree.table")
	if err := run(data, out); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := os.ReadFile("../../../simulator/platform/tree.table")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, embedded) {
		t.Errorf("made %d bytes, embedded are %d: run `go run ./internal/gen/platforms --data DIR` and look at what changes", len(made), len(embedded))
	}
}

func TestWithoutItsData(t *testing.T) {
	for _, data := range []string{"", t.TempDir()} {
		out := filepath.Join(t.TempDir(), "tree.table")
		if err := run(data, out); err == nil {
			t.Errorf("--data %q: no error", data)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("--data %q: something was written", data)
		}
	}
}
