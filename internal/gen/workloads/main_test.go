package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestTableIsMadeOfThePublishedOne checks that the embedded table equals the published one, every rate bit for bit.
func TestTableIsMadeOfThePublishedOne(t *testing.T) {
	const data = "../../../../shared/data"
	if _, err := os.Stat(filepath.Join(data, "gavel")); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	out := filepath.Join(t.TempDir(), "gavel.table")
	if err := run(data, out); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := os.ReadFile("../../../simulator/workload/gavel.table")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, embedded) {
		t.Errorf("made %d bytes, embedded are %d: run `go run ./internal/gen/workloads --data DIR` and look at what changes", len(made), len(embedded))
	}
}

func TestWithoutItsData(t *testing.T) {
	for _, data := range []string{"", t.TempDir()} {
		out := filepath.Join(t.TempDir(), "gavel.table")
		if err := run(data, out); err == nil {
			t.Errorf("--data %q: no error", data)
		}
		if _, err := os.Stat(out); err == nil {
			t.Errorf("--data %q: something was written", data)
		}
	}
}
