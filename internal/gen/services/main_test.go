package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// TestMeasurementsAreThePublishedOnes checks that the embedded table equals the generator's output.
func TestMeasurementsAreThePublishedOnes(t *testing.T) {
	const data = "../../../../shared/data/metis"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the published data are not here: %v", err)
	}
	out := filepath.Join(t.TempDir(), "metis.table")
	if err := run(data, out); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := os.ReadFile("../../../optimizer/schedule/place/metis.table")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, embedded) {
		t.Errorf("made %d bytes, embedded are %d: run `go run ./internal/gen/services --data DIR` and look at what changes", len(made), len(embedded))
	}
}

func TestWithoutItsData(t *testing.T) {
	for _, data := range []string{"", t.TempDir()} {
		if err := run(data, filepath.Join(t.TempDir(), "metis.table")); err == nil {
			t.Errorf("--data %q: no error", data)
		}
	}
}
