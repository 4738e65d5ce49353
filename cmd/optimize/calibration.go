package main

import (
	"bytes"
	"fmt"
	"os"

	"trainopt/optimizer/history"
	"trainopt/optimizer/report"
)

// calibration reports the calibration of the predictions of all runs in the state directory.
func (e *env) calibration(c *common, format, output string) error {
	if !report.Known(format) {
		return usageError{fmt.Errorf("--format %q: unknown, want one of %s", format, report.FormatNames())}
	}
	db, notes, err := history.Open(c.absoluteState(e))
	if err != nil {
		return err
	}
	defer db.Close()
	more, err := db.Sync()
	if err != nil {
		return err
	}
	for _, n := range append(notes, more...) {
		fmt.Fprintf(e.stderr, "warning: %s\n", oneLine(n))
	}
	entries, err := db.Entries(history.Filter{Kinds: []history.Kind{history.Run}})
	if err != nil {
		return err
	}
	table := history.Calibrate(entries)
	if output == "" {
		return report.Calibration(e.stdout, table, format)
	}
	var b bytes.Buffer // buffered so that a failure leaves an existing file unchanged
	if err := report.Calibration(&b, table, format); err != nil {
		return err
	}
	if err := os.WriteFile(inDir(e.dir, output), b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("write calibration: %w", err)
	}
	return nil
}
