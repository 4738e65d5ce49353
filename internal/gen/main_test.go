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

const published = "../../../shared/data"

// TestTheEmbeddedFilesAreWhatIsMade compares the tables in the binary with those that the generators make, byte by byte. The
// fitted models are compared by their errors only, in TestFitsAgainstTables.
func TestTheEmbeddedFilesAreWhatIsMade(t *testing.T) {
	for name, c := range map[string]struct{ data, file string }{
		"measurements": {"", "optimizer/history/measurements.csv"},
		"platforms":    {"hdeeprm", "simulator/platform/tree.table"},
		"prices":       {"prices", "cost/offers.csv"},
		"services":     {"metis", "optimizer/schedule/place/metis.table"},
		"workloads":    {"", "simulator/workload/gavel.table"},
	} {
		t.Run(name, func(t *testing.T) {
			data := filepath.Join(published, c.data)
			if _, err := os.Stat(data); errors.Is(err, fs.ErrNotExist) {
				t.Skipf("the published data are not at %s", data)
			}
			out := filepath.Join(t.TempDir(), "table")
			if err := run([]string{name, "--data", data, "--out", out}, io.Discard); err != nil {
				t.Fatal(err)
			}
			made, err := os.ReadFile(out)
			if err != nil {
				t.Fatal(err)
			}
			embedded, err := os.ReadFile(filepath.Join("../..", c.file))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(made, embedded) {
				t.Errorf("made %d bytes, embedded are %d: run `go run ./internal/gen %s --data DIR` and look at what changes", len(made), len(embedded), name)
			}
		})
	}
}

// TestRefusedCallsWriteNothing covers missing flags, missing sources and unknown flags of every table.
func TestRefusedCallsWriteNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "table")
	for name := range generators {
		if name == "transfer" {
			continue // makes no file
		}
		for what, args := range map[string][]string{
			"no data":         {"--out", out},
			"an empty folder": {"--out", out, "--data", t.TempDir()},
			"no folder":       {"--out", out, "--data", filepath.Join(t.TempDir(), "x")},
			"no such flag":    {"--out", out, "--nonsense"},
		} {
			if err := run(append([]string{name}, args...), io.Discard); err == nil {
				t.Errorf("%s, %s: no error", name, what)
			}
		}
	}
	if _, err := os.Stat(out); err == nil {
		t.Error("a refused call wrote a file")
	}
}

func TestUnknownGenerators(t *testing.T) {
	for _, args := range [][]string{nil, {"nonsense"}, {"transfer", "--nonsense"}, {"transfer", "--data", t.TempDir()}} {
		if run(args, io.Discard) == nil {
			t.Errorf("%q: no error", args)
		}
	}
}
