package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"trainopt/optimizer/history"
	"trainopt/optimizer/run"
)

type exportFlags struct {
	format, output, since string
	kinds, models         []string
}

func runsExportCommand(e *env, c *common) *cobra.Command {
	f := &exportFlags{}
	cmd := &cobra.Command{
		Use: "export", Short: "Write the history of all runs and imported logs as CSV, JSON or Parquet", Args: cobra.NoArgs,
		Long: `Write the history as a table: one row a run, one for each stretch of a run that was timed at one
allocation (kind probe; its work is part of the run's), one for each imported log. A cell is empty,
or null, where nothing is known. Columns:

` + columnList(),
		Example: `  optimize runs export --kind run --since 2026-01-01 > runs.csv
  optimize runs export --model resnet50 -o runs.parquet`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.inferFormat(cmd.Flags().Changed("format"), c.json)
			return e.exportRuns(c, f)
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&f.format, "format", "csv", strings.Join(history.ExportFormats(), "|")+" (default by the name of the file, else csv)")
	fl.StringVarP(&f.output, "output", "o", "", "write to `FILE` instead of standard output")
	fl.StringSliceVar(&f.kinds, "kind", nil, "only run|probe|log, several with commas")
	fl.StringSliceVar(&f.models, "model", nil, "only this `NAME` of the model, several with commas")
	fl.StringVar(&f.since, "since", "", "only what started on `DATE` (YYYY-MM-DD, UTC) or later")
	return cmd
}

// columnList returns the documentation of the columns.
func columnList() string {
	var b strings.Builder
	for _, c := range history.Columns() {
		unit := c.Unit
		if unit != "" {
			unit = " [" + unit + "]"
		}
		fmt.Fprintf(&b, "  %s%s: %s\n", c.Name, unit, c.Meaning)
	}
	return b.String()
}

// inferFormat derives the format from --json or from the extension of the file if no format was given.
func (f *exportFlags) inferFormat(given, json bool) {
	ending := strings.TrimPrefix(strings.ToLower(filepath.Ext(f.output)), ".")
	switch {
	case given:
	case json:
		f.format = "json"
	case slices.Contains(history.ExportFormats(), ending):
		f.format = ending
	}
}

func (f *exportFlags) filter() (history.Filter, error) {
	filter := history.Filter{Models: f.models}
	for _, k := range f.kinds {
		kind := history.Kind(strings.ToLower(k))
		if !slices.Contains([]history.Kind{history.Run, history.Probe, history.Log}, kind) {
			return filter, fmt.Errorf("--kind %q: want run, probe or log", k)
		}
		filter.Kinds = append(filter.Kinds, kind)
	}
	if f.since != "" {
		var err error
		if filter.Since, err = time.Parse(time.DateOnly, f.since); err != nil {
			if filter.Since, err = time.Parse(time.RFC3339, f.since); err != nil {
				return filter, fmt.Errorf("--since %q: want a date such as 2026-01-31", f.since)
			}
		}
	}
	return filter, nil
}

func (e *env) exportRuns(c *common, f *exportFlags) error {
	filter, err := f.filter()
	if err == nil && !slices.Contains(history.ExportFormats(), f.format) {
		err = fmt.Errorf("--format %q: unknown, want one of %s", f.format, strings.Join(history.ExportFormats(), ", "))
	}
	if out, ok := e.stdout.(*os.File); err == nil && f.output == "" && f.format == "parquet" && ok && term.IsTerminal(int(out.Fd())) {
		err = errors.New("--format parquet is not for a terminal: name a file with -o, or send the output to one")
	}
	if err != nil {
		return usageError{err}
	}
	entries, err := e.historyEntries(c, filter)
	if err != nil {
		return err
	}
	if f.output == "" {
		return history.Export(e.stdout, entries, f.format)
	}
	return replaceFile(inDir(e.dir, f.output), func(w io.Writer) error { return history.Export(w, entries, f.format) })
}

// historyEntries returns the current entries of the state directory, none if it does not exist.
func (e *env) historyEntries(c *common, f history.Filter) ([]history.Entry, error) {
	if _, err := os.Stat(c.absoluteState(e)); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	db, err := e.openHistory(c)
	if err != nil {
		return nil, err
	}
	defer db.Close()
	entries, err := db.Entries(f)
	return entries, err
}

// openHistory opens and updates the runs database; inconsistencies are reported as warnings.
func (e *env) openHistory(c *common) (*history.DB, error) {
	db, notes, err := history.Open(c.absoluteState(e))
	if err != nil {
		return nil, err
	}
	more, err := db.Sync()
	for _, n := range append(notes, more...) {
		e.view(c).Event(run.Warning, n)
	}
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return db, nil
}

// replaceFile writes a file atomically: it has either the old or the new content. An existing path that is not a
// regular file (a pipe, a device) is written to directly.
func replaceFile(path string, write func(io.Writer) error) error {
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		f, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("write %s: %w", path, err)
		}
		return errors.Join(write(f), f.Close())
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer os.Remove(f.Name()) // no effect after the rename
	if err := errors.Join(write(f), f.Chmod(0o644), f.Close()); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}
