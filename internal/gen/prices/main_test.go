package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestTableIsMadeOfTheLists checks that the embedded table equals the generator's output.
func TestTableIsMadeOfTheLists(t *testing.T) {
	const data = "../../../../shared/data/prices"
	if _, err := os.Stat(data); err != nil {
		t.Skipf("the price lists are not at hand: %v", err)
	}
	out := filepath.Join(t.TempDir(), "offers.csv")
	if err := run([]string{"--data", data, "--out", out}, io.Discard); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	embedded, err := os.ReadFile("../../../cost/offers.csv")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, embedded) {
		t.Errorf("made %d bytes, embedded are %d: run `go run ./internal/gen/prices --data DIR` and look at what changes", len(made), len(embedded))
	}
}

func TestMakeRefuses(t *testing.T) {
	out := filepath.Join(t.TempDir(), "offers.csv")
	for name, args := range map[string][]string{"no data": {"--out", out}, "an empty directory": {"--out", out, "--data", t.TempDir()}, "a flag it does not have": {"--date"}} {
		if err := run(args, io.Discard); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused call wrote a file")
	}
}
