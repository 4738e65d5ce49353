// Package logs turns training logs of any framework into entries of the runs database.
package logs

import (
	"errors"

	"trainopt/optimizer/history"
)

// Options say how to read a log.
type Options struct {
	Format  string            // one of monitor.Formats; "" detects by content
	Aliases map[string]string // column names of the user's
	// Assume fills what the log does not say of where it ran and what was trained.
	Assume history.Entry
}

// Log is what one file gave.
type Log struct {
	Path, Format string
	Rows, Bad    int
	FirstBad     []string // "line 41: 3 fields, want 7"
	Entries      []history.Entry
	Notes        []string
}

// Read reads a log, streaming: memory does not grow with its rows.
func Read(path string, o Options) (Log, error) { return Log{}, errors.New("not written yet") }
