package main

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

const tables = "../../../../shared/data"

// TestTheFileIsWhatIsMade checks that the embedded file equals the generator's output byte for byte.
func TestTheFileIsWhatIsMade(t *testing.T) {
	if _, err := os.Stat(tables); errors.Is(err, fs.ErrNotExist) {
		t.Skipf("the published tables are not at %s", tables)
	}
	file := filepath.Join(t.TempDir(), "measurements.csv")
	if err := run([]string{"--data", tables, "--out", file}, io.Discard); err != nil {
		t.Fatal(err)
	}
	made, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := os.ReadFile("../../../optimizer/history/measured/measurements.csv")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(made, kept) {
		t.Error("measurements.csv is not what `go run ./internal/gen/measurements --data DIR` makes")
	}
}

func TestRunNeedsData(t *testing.T) {
	for _, args := range [][]string{nil, {"--data", t.TempDir(), "--out", filepath.Join(t.TempDir(), "m.csv")}, {"--nonsense"}} {
		if run(args, io.Discard) == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
