// Command gen makes the tables that are embedded in the binary from their published sources, and fits and judges the
// predictor of optimizer/history/transfer on published measurements; it also builds the files of a release (`make dist`). It
// is for developers; the binary has none of it.
//
//	go run ./internal/gen TABLE --data DIR [--out FILE]
//	go run ./internal/gen transfer [--data DIR] [--cross source] [--fit throughput] [--state DIR]
//	go run ./internal/gen release --version 1.2.0 --commit 0123abc --date 2026-07-20T10:00:00Z --out dist
//
// The same sources give the same file. Only figures whose licence allows it are taken. Each generator's file says what DIR has.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
)

// generators lists the subcommands.
var generators = map[string]func(args []string, out io.Writer) error{
	"measurements": makeMeasurements,
	"platforms":    makePlatforms,
	"prices":       makePrices,
	"profiles":     makeProfiles,
	"release":      makeRelease,
	"services":     makeServices,
	"transfer":     evaluateTransfer,
	"workloads":    makeWorkloads,
}

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(args []string, out io.Writer) error {
	known := strings.Join(slices.Sorted(maps.Keys(generators)), ", ")
	if len(args) == 0 {
		return errors.New("name one of " + known)
	}
	generate, ok := generators[args[0]]
	if !ok {
		return fmt.Errorf("%q is none of %s", args[0], known)
	}
	if err := generate(args[1:], out); err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}

// sources are the flags of every table.
type sources struct {
	data, file string
	date       string // only of tables that contain one
}

// parseSources parses the flags of a table. contents describes the folder of its sources, which is required; file and date are
// the defaults of --out and --date. An empty date means that the table has none.
func parseSources(args []string, contents, file, date string) (s sources, err error) {
	flags := flag.NewFlagSet("gen", flag.ContinueOnError)
	flags.StringVar(&s.data, "data", "", "folder with "+contents)
	flags.StringVar(&s.file, "out", file, "file to write")
	if date != "" {
		flags.StringVar(&s.date, "date", date, "day of the making, YYYY-MM-DD, written into the file")
	}
	if err := flags.Parse(args); err != nil {
		return s, err
	}
	if s.data == "" {
		return s, errors.New("--data FOLDER is missing")
	}
	return s, nil
}

// write writes the file of a table.
func (s sources) write(table []byte) error { return os.WriteFile(s.file, table, 0o644) }
